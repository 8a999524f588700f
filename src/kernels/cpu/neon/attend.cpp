// Flash attention over one split of a paged cache, on NEON.
//
// Up to four queries (neighbouring heads of one row, then the next row) share each load of K and V. Scores: a vector is
// four tokens, one chain over d each. Values: a vector is four dimensions, one chain over t each. Queries of a tile
// differ in which keys are theirs at its edges only; there each goes alone, so nobody meets a key that is not its own.

#include "kernels/cpu/neon/kernels.h"
#include "kernels/cpu/neon/vec.h"

namespace millrace::kernels::neon {
namespace {

static_assert(kKeyTile == 64);

constexpr int kMaxQueries = 4;

/// Vectors per query in registers: 8 to 16 accumulators where there are enough.
constexpr int max_vectors(int queries) { return queries == 1 ? 8 : 4; }

struct Query {
  const float* q;
  float *m, *l, *o;
  int64_t begin, end;  // own keys of the whole split
};

Query query_at(const AttendArgs& p, int64_t index) {
  const int64_t r = index / p.group, h = index % p.group, position = p.first_position + r;
  const int64_t begin = p.window > 0 ? max64(p.key_begin, position + 1 - p.window) : p.key_begin;
  return {p.q + r * p.q_stride + h * p.head_dim, p.m + index, p.l + index, p.o + index * p.head_dim, begin,
          min64(p.key_end, position + 1)};
}

/// Position t's block in `cache`. By shifts: block_tokens is a power of two.
template <class T>
const typename T::type* block_of(const AttendArgs& p, const std::uint8_t* cache, int64_t t) {
  return reinterpret_cast<const typename T::type*>(
      cache + p.table[t >> __builtin_ctzll(static_cast<std::uint64_t>(p.block_tokens))] * p.block_stride);
}

/// Its place in there.
int64_t slot_of(const AttendArgs& p, int64_t t) { return t & (p.block_tokens - 1); }

/// The word of scales of position t's vector in `cache`; those of its neighbours in the block follow.
template <class T>
const float* scale_of(const AttendArgs& p, const std::uint8_t* cache, int64_t t) {
  return reinterpret_cast<const float*>(block_of<T>(p, cache, t) + p.block_tokens * p.head_dim) + slot_of(p, t);
}

/// sum[i][j] = q[i] . k over dimensions [begin, end), for QT queries and 4 NV tokens, all in the block where k points.
template <class T, int QT, int NV>
[[gnu::always_inline]] inline void multiply(const Query* queries, const typename T::type* k, int64_t block_tokens,
                                            int64_t begin, int64_t end, float32x4_t (&sum)[QT][NV]) {
#pragma GCC unroll 8
  for (int i = 0; i < QT; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < NV; ++j) sum[i][j] = vdupq_n_f32(0);
  const float* q[QT];
#pragma GCC unroll 8
  for (int i = 0; i < QT; ++i) q[i] = queries[i].q;
  k += begin * block_tokens;
  for (int64_t d = begin; d < end; ++d, k += block_tokens) {
    float32x4_t key[NV];
#pragma GCC unroll 8
    for (int j = 0; j < NV; ++j) key[j] = T::load4(k + 4 * j);
#pragma GCC unroll 8
    for (int i = 0; i < QT; ++i)
#pragma GCC unroll 8
      for (int j = 0; j < NV; ++j) sum[i][j] = vfmaq_n_f32(sum[i][j], key[j], q[i][d]);
  }
}

/// scores[i * kKeyTile + 4 j ...] = scale * q[i] . k, likewise; key_scales: of codes the first token's word.
template <class T, int QT, int NV>
void score(const Query* queries, const typename T::type* k, const float* key_scales, int64_t block_tokens,
           int64_t head_dim, float scale, float* scores) {
  float32x4_t sum[QT][NV];
  if constexpr (is_scaled<T>) {
    multiply<T>(queries, k, block_tokens, 0, head_dim / 2, sum);
#pragma GCC unroll 8
    for (int i = 0; i < QT; ++i)
#pragma GCC unroll 8
      for (int j = 0; j < NV; ++j) vst1q_f32(scores + i * kKeyTile + 4 * j, sum[i][j]);
    multiply<T>(queries, k, block_tokens, head_dim / 2, head_dim, sum);
#pragma GCC unroll 8
    for (int j = 0; j < NV; ++j) {
      const uint32x4_t word = vreinterpretq_u32_f32(vld1q_f32(key_scales + 4 * j));
      const float32x4_t lower = vreinterpretq_f32_u32(vshlq_n_u32(word, 16)),
                        upper = vreinterpretq_f32_u32(vandq_u32(word, vdupq_n_u32(0xFFFF0000)));
#pragma GCC unroll 8
      for (int i = 0; i < QT; ++i)
        sum[i][j] = vfmaq_f32(vmulq_f32(vld1q_f32(scores + i * kKeyTile + 4 * j), lower), sum[i][j], upper);
    }
  } else {
    multiply<T>(queries, k, block_tokens, 0, head_dim, sum);
  }
#pragma GCC unroll 8
  for (int i = 0; i < QT; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < NV; ++j) vst1q_f32(scores + i * kKeyTile + 4 * j, vmulq_n_f32(sum[i][j], scale));
}

/// Scores of tokens [begin, end) of one tile, whole vectors around them included.
template <class T, int QT>
void score_tile(const AttendArgs& p, const Query* queries, int64_t begin, int64_t end, float* scores) {
  for (int64_t t = begin / 4 * 4; t < end;) {
    const int64_t slot = slot_of(p, t);
    const auto* k = block_of<T>(p, p.k_cache, t) + slot;
    const float* scales = nullptr;
    if constexpr (is_scaled<T>) scales = scale_of<T>(p, p.k_cache, t);
    float* out = scores + t % kKeyTile;
    const int64_t vectors = min64((p.block_tokens - slot) / 4, (end - t + 3) / 4);
    int taken = 1;
    if (max_vectors(QT) >= 8 && vectors >= 8)
      score<T, QT, max_vectors(QT)>(queries, k, scales, p.block_tokens, p.head_dim, p.scale, out), taken = 8;
    else if (vectors >= 4)
      score<T, QT, 4>(queries, k, scales, p.block_tokens, p.head_dim, p.scale, out), taken = 4;
    else
      score<T, QT, 1>(queries, k, scales, p.block_tokens, p.head_dim, p.scale, out);
    t += 4 * taken;
  }
}

/// Multiplies each query's weights of tokens [begin, end) of one tile by the scales of their values, whole vectors
/// around them included.
template <class T, int QT>
void scale_weights(const AttendArgs& p, int64_t begin, int64_t end, float* weights) {
  for (int64_t t = begin / 4 * 4; t < end; t += 4) {
    const float32x4_t scale = vld1q_f32(scale_of<T>(p, p.v_cache, t));
#pragma GCC unroll 4
    for (int i = 0; i < QT; ++i) {
      float* at = weights + i * kKeyTile + t % kKeyTile;
      vst1q_f32(at, vmulq_f32(vld1q_f32(at), scale));
    }
  }
}

/// Turns a query's scores of one tile into weights in place, 0 outside its own [begin, end), and updates its m, l and o
/// up to the products with V. Positions count from the tile's start.
void soften(const Query& query, int64_t begin, int64_t end, int64_t head_dim, float* scores) {
  const float32x4_t none = vdupq_n_f32(-__builtin_inff());
  const int32x4_t lane = {0, 1, 2, 3};
  const int32x4_t from = vdupq_n_s32(static_cast<int>(begin)), to = vdupq_n_s32(static_cast<int>(end));
  float32x4_t most = none;
  for (int64_t t = begin / 4 * 4; t < end; t += 4) {
    const int32x4_t index = vaddq_s32(lane, vdupq_n_s32(static_cast<int>(t)));
    const uint32x4_t own = vandq_u32(vcgeq_s32(index, from), vcltq_s32(index, to));
    const float32x4_t s = vbslq_f32(own, vld1q_f32(scores + t), none);
    vst1q_f32(scores + t, s);
    most = vmaxnmq_f32(most, s);
  }
  const float tile_max = vmaxnmvq_f32(most), m = *query.m, new_m = tile_max > m ? tile_max : m;
  const float32x4_t shift = vdupq_n_f32(new_m);
  float32x4_t sum[4];  // 16 lanes
#pragma GCC unroll 4
  for (auto& s : sum) s = vdupq_n_f32(0);
#pragma GCC unroll 4
  for (int64_t t = 0; t < kKeyTile; t += 16)
#pragma GCC unroll 4
    for (int64_t j = 0; j < 4; ++j) {
      const int64_t at = t + 4 * j;
      const bool any = at + 4 > begin && at < end;
      const float32x4_t p = any ? exp(vsubq_f32(vld1q_f32(scores + at), shift)) : vdupq_n_f32(0);
      vst1q_f32(scores + at, p);
      sum[j] = vaddq_f32(sum[j], p);
    }
  const float correction = vgetq_lane_f32(exp(vdupq_n_f32(m - new_m)), 0);
  *query.m = new_m;
  *query.l = *query.l * correction + sum_lanes(sum[0], sum[1], sum[2], sum[3]);
  if (correction == 1.0f) return;  // the usual case after a few tiles: the maximum stays
  for (int64_t d = 0; d < head_dim; d += 4)
    store_upto(query.o + d, head_dim - d, vmulq_n_f32(load_upto(query.o + d, head_dim - d), correction));
}

/// o[i][d ...] += sum over t in [begin, end), in order, of weights[i][t] * v[t][d ...], for QT queries and NV vectors,
/// or for the one partial vector at the end of head_dim.
template <class T, int QT, int NV, bool kPartial>
void weigh(const AttendArgs& p, const Query* queries, int64_t begin, int64_t end, int64_t d, const float* weights) {
  const int64_t n = kPartial ? p.head_dim - d : 4;
  float32x4_t sum[QT][NV];
#pragma GCC unroll 8
  for (int i = 0; i < QT; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < NV; ++j)
      sum[i][j] = kPartial ? load_part(queries[i].o + d, n) : vld1q_f32(queries[i].o + d + 4 * j);
  for (int64_t t = begin; t < end;) {
    const auto* v = block_of<T>(p, p.v_cache, t) + slot_of(p, t) * p.head_dim + d;
    const int64_t stop = min64(end, t - slot_of(p, t) + p.block_tokens);
    for (const float* weight = weights + t % kKeyTile; t < stop; ++t, ++weight, v += p.head_dim) {
      float32x4_t value[NV];
#pragma GCC unroll 8
      for (int j = 0; j < NV; ++j) value[j] = kPartial ? load_elements<T>(v, n) : T::load4(v + 4 * j);
#pragma GCC unroll 8
      for (int i = 0; i < QT; ++i)
#pragma GCC unroll 8
        for (int j = 0; j < NV; ++j) sum[i][j] = vfmaq_n_f32(sum[i][j], value[j], weight[i * kKeyTile]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < QT; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < NV; ++j) store_upto(queries[i].o + d + 4 * j, n, sum[i][j]);
}

template <class T, int QT>
void weigh_tile(const AttendArgs& p, const Query* queries, int64_t begin, int64_t end, const float* weights) {
  if (begin >= end) return;
  for (int64_t d = 0; d < p.head_dim;) {
    const int64_t vectors = (p.head_dim - d) / 4;
    int taken = 1;
    if (max_vectors(QT) >= 8 && vectors >= 8)
      weigh<T, QT, max_vectors(QT), false>(p, queries, begin, end, d, weights), taken = 8;
    else if (vectors >= 4)
      weigh<T, QT, 4, false>(p, queries, begin, end, d, weights), taken = 4;
    else if (vectors >= 1)
      weigh<T, QT, 1, false>(p, queries, begin, end, d, weights);
    else
      weigh<T, QT, 1, true>(p, queries, begin, end, d, weights);
    d += 4 * taken;
  }
}

/// One online-softmax step of QT queries: the keys of the tile that starts at `tile`.
template <class T, int QT>
void step(const AttendArgs& p, const Query* queries, int64_t tile) {
  int64_t begin[QT], end[QT];  // each query's own keys within the tile
  int64_t first = tile + kKeyTile, last = tile, common_first = tile, common_last = tile + kKeyTile;
  for (int i = 0; i < QT; ++i) {
    begin[i] = max64(queries[i].begin, tile);
    end[i] = min64(queries[i].end, tile + kKeyTile);
    if (begin[i] < end[i]) first = min64(first, begin[i]), last = max64(last, end[i]);
    common_first = max64(common_first, begin[i]);
    common_last = min64(common_last, end[i]);
  }
  if (first >= last) return;
  score_tile<T, QT>(p, queries, first, last, p.scratch);
  for (int i = 0; i < QT; ++i)
    if (begin[i] < end[i]) soften(queries[i], begin[i] - tile, end[i] - tile, p.head_dim, p.scratch + i * kKeyTile);
  if constexpr (is_scaled<T>) scale_weights<T, QT>(p, first, last, p.scratch);
  if (QT == 1) return weigh_tile<T, 1>(p, queries, begin[0], end[0], p.scratch);
  if (common_first >= common_last) common_first = common_last = last;  // nothing in common: each alone
  for (int i = 0; i < QT; ++i)
    weigh_tile<T, 1>(p, queries + i, begin[i], min64(end[i], common_first), p.scratch + i * kKeyTile);
  weigh_tile<T, QT>(p, queries, common_first, common_last, p.scratch);
  for (int i = 0; i < QT; ++i)
    weigh_tile<T, 1>(p, queries + i, max64(begin[i], common_last), end[i], p.scratch + i * kKeyTile);
}

template <class T>
void attend(const AttendArgs& p) {
  const int64_t queries = p.rows * p.group;
  for (int64_t i = 0; i < queries; ++i) p.m[i] = -__builtin_inff(), p.l[i] = 0;
  for (int64_t i = 0; i < queries * p.head_dim; ++i) p.o[i] = 0;

  const int64_t end = min64(p.key_end, p.first_position + p.rows);
  for (int64_t tile = p.key_begin; tile < end; tile += kKeyTile)
    for (int64_t i = 0; i < queries;) {
      const int64_t left = queries - i;
      const int64_t count = left >= 2 * kMaxQueries ? kMaxQueries : left > kMaxQueries ? (left + 1) / 2 : left;
      Query at[kMaxQueries];
      for (int64_t j = 0; j < count; ++j) at[j] = query_at(p, i + j);
      switch (count) {
        case 1:
          step<T, 1>(p, at, tile);
          break;
        case 2:
          step<T, 2>(p, at, tile);
          break;
        case 3:
          step<T, 3>(p, at, tile);
          break;
        default:
          step<T, 4>(p, at, tile);
          break;
      }
      i += count;
    }
}

}  // namespace

void attend_f32(const AttendArgs& p) { attend<F32>(p); }
void attend_f16(const AttendArgs& p) { attend<F16>(p); }
void attend_bf16(const AttendArgs& p) { attend<Bf16>(p); }
void attend_int8(const AttendArgs& p) { attend<Int8>(p); }

}  // namespace millrace::kernels::neon
