#pragma once

// Arguments of every kernel: plain structs of pointers and integers, no STL. A kernel runs on the calling thread;
// ops/ splits work over workers. Unless said otherwise pointers need the alignment of their element only, outputs
// alias no input, and strides count elements.
//
// Bit identity (DESIGN.md, section 3). Every output element is computed by one fixed sequence of floating-point
// operations that depends on its own inputs only: not on how many rows or panels a call has, not on which tile of
// registers it fell into, not on the tail. A kernel that treats one row differently from four is wrong.
// All levels also agree with each other, bit for bit, but for gemm_bf16 at avx512_bf16 and at amx. Where this file
// leaves the order of a sum open, generic/ decides: the squares of rms_norm go to 32 lanes (element i to lane i % 32),
// the weights of a key tile to 16, and lanes are folded in halves. exp is generic/math.h's.

#include <cstddef>
#include <cstdint>

#include "kernels/int_formats.h"

namespace millrace::kernels {

/// out[r,i] = x[r,i] / sqrt(mean(x[r]^2) + eps) * gain[i]
///
///   x, out  f32 [rows, dim], dense rows. out == x is allowed, partial overlap is not.
///   gain    f32 [dim]
///   dim     >= 1, any value: the kernel handles the tail
///   eps     > 0
struct RmsNormArgs {
  const float* x;
  const float* gain;
  float* out;
  std::int64_t rows;
  std::int64_t dim;
  float eps;
};

/// Activations for integer weights: per row and 32 values one scale.
///
///   amax = max |x| of the block; scale = amax / 127 with the last two of its 24 bits cleared (0 when amax is 0);
///   q = round-to-nearest-even(x * (127 / amax))
///   sum = the sums of the q of the block's two halves, exact: 16 * 127 fits
///   x      f32 [rows, k], dense rows; k % 32 == 0. A NaN or |x| >= 2^100 gives unspecified scales and in-range q.
///   q      int8 [rows, k]; scale f32 [rows, k/32]; sum int16 [rows, k/32, 2]; all dense
struct QuantizeArgs {
  const float* x;
  std::int8_t* q;
  float* scale;
  std::int16_t* sum;
  std::int64_t rows;
  std::int64_t k;
};

/// Round to nearest even, as tensor/half.h does. x f32 [n], out bf16 [n].
struct ToBf16Args {
  const float* x;
  std::uint16_t* out;
  std::int64_t n;
};

/// Weights live in panels of `panel_rows` output rows (KernelTable::panel_rows: 8 or 16 = P), zero-padded at the end.
/// Integer formats (int_formats.h), one panel (K = k, B = k/32 blocks, S = k/256), made by ops/packed_weight.cpp:
///
///   scales        f16 [B][P]      d of row p in block b; super formats f16 [S][P]
///   mins          f16, as scales  only has_min: m; of super formats the negated minimum of the file
///   group_scales  int8 [B][P]     super formats: the scale of row p in block b; group 16: [B][P][2], one for each half
///   group_mins    as group_scales, only super formats with has_min. Where no scale is above 15 there is no such part:
///                 the scale is the low nibble of its byte, the minimum the high one
///   padding to a multiple of 64 bytes
///   data          [B] of `bits` x [P][4] bytes: the block's planes, one after the other, so that memory is read as one
///                 stream. Step s of a block has its elements 4s..4s+3 ("low") and 16+4s..16+4s+3 ("high").
///     8 bits      [8][P][4]; (s, p, j) is the code of element 4s + j
///     4 bits      N
///     5 bits      N, O: the code's bits 0-3 and 4
///     6 bits      N, T: the code's bits 0-3 and 4-5
///     2 bits      T
///     3 bits      T, O: the code's bits 0-1 and 2
///     N           [4][P][4]; byte (s, p, j): bits 0-3 low element 4s + j, bits 4-7 high element 16 + 4s + j
///     T           [2][P][4]; byte (t, p, j): bits 0-1 low of step 2t, 2-3 high of step 2t, 4-5 and 6-7 of step 2t + 1:
///                 4 of 8 places are where 6 or 2 bits want them
///     O           [P][4]; byte (p, j): bit s low of step s, bit 4 + s high of step s
///   a panel's size is `panel_bytes`, a multiple of 64; panels are 64-byte aligned.
///
/// Float formats: [k][P] elements, padded to 64 bytes. bf16 instead in pairs: [ceil(k/2)][P][2], zero-padded.

/// c[r, 8p+i] = sum over blocks b, in order, of one fma chain per element, start value 0:
///   f = fma(float(I) * a_scale, d, f)
///   f = fma(float(M) * a_scale, m, f)     only has_min
/// With w the weight as an integer, code - offset or kIq4Table[code]; exact in int32, and |I|, |M| < 2^24:
///   I = sum_j w_j * a_j,  M = sum_j a_j       group 32. d and m of super formats are d * scale_g and m * min_g: exact
///   I = sum over halves g of scale_g * (sum of w_j * a_j),  M = sum over halves of min_g * (sum of a_j)       group 16
/// (study: multiply the converted accumulator, not the scales.)
///
///   a, a_scale, a_sum  as in QuantizeArgs: rows `rows`, dense, k = 32 * blocks
///                      (-127..127: narrow accumulators count on it; weights of q8_0 may be -128. a_scale: of 22 bits)
///   blocks             super formats: a multiple of 8
///   w                  first of `panels` panels
///   c                  f32 [rows, n] with row stride c_stride; n in (P*(panels-1), P*panels]: the last panel may be partial
///   rows               >= 1, any; register tiling over rows and panels is the kernel's business
struct GemmIntArgs {
  const std::int8_t* a;
  const float* a_scale;
  const std::int16_t* a_sum;
  std::int64_t rows;
  std::int64_t blocks;
  const std::uint8_t* w;
  std::int64_t panel_bytes;
  std::int64_t panels;
  float* c;
  std::int64_t c_stride;
  std::int64_t n;
};

/// c[r, i] = sum over k, in order: f = fma(a[r,k], float(w[i,k]), f), start value 0. a f32 [rows, k] (a_stride), w f32 or
/// f16 panels. The rest as in GemmIntArgs.
struct GemmFloatArgs {
  const float* a;
  std::int64_t a_stride;
  std::int64_t rows;
  std::int64_t k;
  const std::uint8_t* w;
  std::int64_t panel_bytes;
  std::int64_t panels;
  float* c;
  std::int64_t c_stride;
  std::int64_t n;
};

/// The same with bf16 activations and bf16 panels, in pairs of k. Levels without vdpbf16ps add the two products of a
/// pair as f = fma(a0, w0, f); f = fma(a1, w1, f). amx adds 32 k at a time, in the tile unit's order (cpu/amx/tiles.h).
struct GemmBf16Args {
  const std::uint16_t* a;  // bf16 [rows, k], a_stride; k may be odd: the missing element counts as 0
  std::int64_t a_stride;
  std::int64_t rows;
  std::int64_t k;
  const std::uint8_t* w;
  std::int64_t panel_bytes;
  std::int64_t panels;
  float* c;
  std::int64_t c_stride;
  std::int64_t n;
};

/// Rotates the first `rot` of head_dim dimensions of each head, in place, halves paired (x[i], x[i + rot/2]):
///   y[i] = x[i] cos[i] - x[i+h] sin[i];  y[i+h] = x[i+h] cos[i] + x[i] sin[i]     (h = rot/2, i < h)
/// each written as fma(x[i], cos, -(x[i+h] * sin)) and fma(x[i+h], cos, x[i] * sin).
///
///   x         f32 [rows, heads, head_dim], dense
///   cos, sin  f32 [rows, rot/2], dense: of each row's own position, scaling applied
struct RopeArgs {
  float* x;
  const float* cos;
  const float* sin;
  std::int64_t rows;
  std::int64_t heads;
  std::int64_t head_dim;
  std::int64_t rot;
};

/// out[i] = a[i] + b[i]; out may be a or b.
struct AddArgs {
  const float* a;
  const float* b;
  float* out;
  std::int64_t n;
};

/// out[i] = silu(gate[i]) * up[i], silu(x) = x / (1 + exp(-x)); out may be gate or up. exp: relative error <= 4 * 2^-24
/// over the whole range, exp(-inf) = 0, exp(0) = 1 exactly; gate = -inf gives 0, not NaN.
struct SwiGluArgs {
  const float* gate;
  const float* up;
  float* out;
  std::int64_t n;
};

/// The KV cache of one layer and one KV head, as attention sees it. Block b of a sequence lies at k + table[b] *
/// block_stride (bytes), the same for v. Within a block:
///
///   K  [head_dim][block_tokens]   transposed, so that a vector holds one dimension of 8 or 16 neighbouring tokens
///   V  [block_tokens][head_dim]
///   int8: behind the elements a word of scales for each token, [block_tokens]. Blocks are 4-byte aligned.
///     K  bf16 [2]  of dimensions [0, head_dim / 2), in the lower half of the word, and of the others
///     V  f32       of all dimensions
///
/// Element types: f32, f16, bf16, int8 by kernel name. block_tokens: a power of two, 8..256.
/// Written to f16 or int8, values beyond +-65504 become +-65504: one overflow must not turn a whole row into NaN.
///
/// int8 (kv_int8.h), of the values of a row that share a scale:
///   amax = min(max |x|, 65504); scale = amax / 127, 0 where amax is below 2^-100; of K rounded up to bf16
///   code = round-to-nearest-even(x * (127 / amax)), of K x * (1 / scale); -127..127, 0 where scale is 0
/// A NaN makes the scale NaN and the codes unspecified.
struct KvWriteArgs {
  const float* k;  // f32 [rows, .] with row stride kv_stride: this head's head_dim values of each row
  const float* v;
  std::int64_t kv_stride;
  std::int64_t rows;
  std::int64_t first_position;  // of row 0; rows are consecutive positions of one sequence
  std::int64_t head_dim;
  std::uint8_t* k_cache;
  std::uint8_t* v_cache;
  const std::int32_t* table;
  std::int64_t block_tokens;
  std::int64_t block_stride;
};

inline constexpr int kKeyTile = 64;    // keys per online-softmax step, counted from position 0
inline constexpr int kKeySplit = 512;  // keys per partial result, counted from position 0; a multiple of kKeyTile

/// Scratch of an attention kernel: scores of each query (rows * group), and a tile of keys and values with their scales.
static constexpr std::int64_t attend_scratch_floats(std::int64_t queries, std::int64_t head_dim) {
  return (queries + 2 * (head_dim + 1)) * kKeyTile;
}

/// One partial result of attention: query rows against keys [key_begin, key_end) of one split.
/// For query row r, head h, with own keys K(r) = [key_begin, min(key_end, first_position + r + 1)) (and, with a window,
/// not before first_position + r + 1 - window), per tile of kKeyTile positions (tiles counted from position 0, a tile
/// without own keys is skipped):
///
///   s_t = (sum over d, in order: fma(q[d], k[t][d], s), start 0) * scale
///   m' = max(m, max s);  a = exp(m - m');  p_t = exp(s_t - m')
///   l = l * a, then += p_t in a fixed order;  o[d] = o[d] * a, then for t in order: o[d] = fma(p_t, v[t][d], o[d]);  m = m'
///
/// starting with m = -inf, l = 0, o = 0. Keys that are not the row's own have no influence, not even as NaN or
/// through the sign of zero, whatever lies in their memory. A row without own keys leaves m = -inf, l = 0, o = 0.
/// (Source: REQUIREMENTS.md, "The right recurrence for flash attention"; Milakov & Gimelshein 2018.)
///
/// int8: k and v are codes. With K0, K1 the scales of key t and S0, S1 the sums over its two halves of d, each from 0:
///   s_t = fma(S1, K1, S0 * K0) * scale
/// and o takes p_t * (the scale of value t), rounded, where l takes p_t.
///
///   q            f32: head h of row r at q + r * q_stride + h * head_dim, h < group (the query heads of this KV head)
///   m, l         f32 [rows, group], dense;  o f32 [rows, group, head_dim], dense: the partial, not divided by l
///   scratch      64-byte aligned, attend_scratch_floats(rows * group, head_dim)
///   rows         >= 1; first_position + rows - 1 is the last position that has been written
///   table        only entries of blocks that hold an own key of some row are read
struct AttendArgs {
  const float* q;
  std::int64_t q_stride;
  std::int64_t rows;
  std::int64_t group;
  std::int64_t head_dim;
  std::int64_t first_position;
  std::int64_t key_begin;  // a multiple of kKeySplit
  std::int64_t key_end;    // <= key_begin + kKeySplit
  std::int64_t window;     // 0 = none
  float scale;
  const std::uint8_t* k_cache;
  const std::uint8_t* v_cache;
  const std::int32_t* table;
  std::int64_t block_tokens;
  std::int64_t block_stride;
  std::int64_t next_head;  // bytes from k_cache to that of the KV head that comes next, for prefetching; 0: none
  float* m;
  float* l;
  float* o;
  float* scratch;
};

/// Merges partial results of one (row, head), in the order given:
///   M = max m_i; w_i = exp(m_i - M); out = sum w_i o_i / sum w_i l_i, both sums in order, partials with l_i = 0 skipped
/// out is 0 when all are empty. n >= 1.
struct MergeArgs {
  const float* m;        // n of them, stride 1 partial = ml_stride
  const float* l;
  const float* o;        // [n] with stride o_stride, head_dim values each
  std::int64_t n;
  std::int64_t ml_stride;
  std::int64_t o_stride;
  std::int64_t head_dim;
  float* out;
};

/// What this level's instructions can reach at best: independent chains of INT8 products with their additions, of bf16
/// products, of f32 multiply-adds; or a plain sum over memory. Computes nothing of use; the caller takes the time.
///
///   data, bytes  roof_read: 64-byte aligned, bytes % 4096 == 0. Others: not read
///   iterations   the arithmetic loops: rounds. roof_read: not used
///   operations   out: additions and multiplications done, 0 where the level has no such arithmetic; roof_read: bytes read
struct RoofArgs {
  const std::uint8_t* data;
  std::int64_t bytes;
  std::int64_t iterations;
  double* operations;
};

}  // namespace millrace::kernels
