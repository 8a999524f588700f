// Flash attention over one split of a paged cache, on AVX-512.
//
// Up to six queries (neighbouring heads of one row, then the next row) share each load of K and V: 6 x 4 accumulators.
// Scores: a vector is 16 tokens, one chain over d each. Values: a vector is 16 dimensions, one chain over t each.
// Queries of a tile differ in which keys are theirs at its edges only; there each goes alone, so nobody meets a foreign
// key.

#include "kernels/cpu/avx512/kernels.h"
#include "kernels/cpu/avx512/vec.h"

namespace millrace::kernels::MILLRACE_AVX512 {
namespace {

static_assert(kKeyTile == 64);

constexpr int kMaxQueries = 6;

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

/// Position t's block in `cache`. By shifts: a division takes as long as ten tokens' arithmetic.
template <class T>
const typename T::type* block_of(const AttendArgs& p, const std::uint8_t* cache, int64_t t) {
  return reinterpret_cast<const typename T::type*>(
      cache + p.table[t >> __builtin_ctzll(static_cast<std::uint64_t>(p.block_tokens))] * p.block_stride);
}

/// Its place in there.
int64_t slot_of(const AttendArgs& p, int64_t t) { return t & (p.block_tokens - 1); }

/// scores[i * kKeyTile + 16 j ...] = scale * q[i] . k for QT queries and 16 NV tokens, key<NV>(d) being their elements
/// d.
template <int QT, int NV, class Key>
void score(const AttendArgs& p, const Query* queries, float* scores, Key key) {
  __m512 sum[QT][NV];
#pragma GCC unroll 8
  for (int i = 0; i < QT; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) sum[i][j] = _mm512_setzero_ps();
  const float* q[QT];
#pragma GCC unroll 8
  for (int i = 0; i < QT; ++i) q[i] = queries[i].q;
  for (int64_t d = 0; d < p.head_dim; ++d) {
    __m512 k[NV];
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) k[j] = key(d, j);
#pragma GCC unroll 8
    for (int i = 0; i < QT; ++i) {
      const __m512 x = _mm512_set1_ps(q[i][d]);
#pragma GCC unroll 4
      for (int j = 0; j < NV; ++j) sum[i][j] = _mm512_fmadd_ps(x, k[j], sum[i][j]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < QT; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j)
      _mm512_storeu_ps(scores + i * kKeyTile + 16 * j, _mm512_mul_ps(sum[i][j], _mm512_set1_ps(p.scale)));
}

/// Scores of tokens [begin, end) of one tile, whole vectors around them included.
template <class T, int QT>
void score_tile(const AttendArgs& p, const Query* queries, int64_t begin, int64_t end, float* scores) {
  for (int64_t t = begin / 16 * 16; t < end;) {
    float* out = scores + t % kKeyTile;
    if (p.block_tokens < 16) {  // 8: two blocks a vector; either may hold no key of ours and not exist
      const auto* upper = block_of<T>(p, p.k_cache, t + 8 < end ? t + 8 : t);
      const auto* lower = t + 8 > begin ? block_of<T>(p, p.k_cache, t) : upper;
      score<QT, 1>(p, queries, out, [=](int64_t d, int) { return T::load_two(lower + d * 8, upper + d * 8); });
      t += 16;
      continue;
    }
    const int64_t slot = slot_of(p, t), block_tokens = p.block_tokens;
    const auto* k = block_of<T>(p, p.k_cache, t) + slot;
    const auto key = [=](int64_t d, int j) { return T::load16(k + d * block_tokens + 16 * j); };
    const int64_t vectors = min64((block_tokens - slot) / 16, (end - t + 15) / 16);
    if (vectors >= 4)
      score<QT, 4>(p, queries, out, key), t += 64;
    else if (vectors >= 2)
      score<QT, 2>(p, queries, out, key), t += 32;
    else
      score<QT, 1>(p, queries, out, key), t += 16;
  }
}

/// Turns a query's scores of one tile into weights in place, 0 outside its own [begin, end), and updates its m, l and o
/// up to the products with V. Positions count from the tile's start.
void soften(const Query& query, int64_t begin, int64_t end, int64_t head_dim, float* scores) {
  __m512 s[4], most = _mm512_set1_ps(-__builtin_inff());
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    const auto after = first_lanes(max64(end - 16 * j, 0)), before = first_lanes(max64(begin - 16 * j, 0));
    const auto own = static_cast<__mmask16>(after & ~before);
    s[j] = _mm512_mask_blend_ps(own, _mm512_set1_ps(-__builtin_inff()), _mm512_loadu_ps(scores + 16 * j));
    most = _mm512_max_ps(most, s[j]);
  }
  const float tile_max = max_lanes(most), m = *query.m, new_m = tile_max > m ? tile_max : m;
  __m512 sum = _mm512_setzero_ps();
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    const __m512 weight = exp(_mm512_sub_ps(s[j], _mm512_set1_ps(new_m)));
    _mm512_storeu_ps(scores + 16 * j, weight);
    sum = _mm512_add_ps(sum, weight);
  }
  const __m512 factor = exp(_mm512_set1_ps(m - new_m));
  const float correction = _mm_cvtss_f32(_mm512_castps512_ps128(factor));
  *query.m = new_m;
  *query.l = *query.l * correction + sum_lanes(sum);
  if (correction == 1.0f) return;  // the usual case after a few tiles: the maximum stays
  for (int64_t d = 0; d < head_dim; d += 16)
    store_upto(query.o + d, head_dim - d, _mm512_mul_ps(load_upto(query.o + d, head_dim - d), factor));
}

/// o[i][d ...] += sum over t in [begin, end), in order, of weights[i][t] * v[t][d ...], for QT queries and NV vectors,
/// the last of which may be partial.
template <class T, int QT, int NV, bool kPartial>
void weigh(const AttendArgs& p, const Query* queries, int64_t begin, int64_t end, int64_t d, const float* weights) {
  const int64_t n = kPartial ? p.head_dim - d : 16;
  __m512 sum[QT][NV];
#pragma GCC unroll 8
  for (int i = 0; i < QT; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) sum[i][j] = load_upto(queries[i].o + d + 16 * j, n);
  for (int64_t t = begin; t < end;) {
    const auto* v = block_of<T>(p, p.v_cache, t) + slot_of(p, t) * p.head_dim + d;
    const int64_t stop = min64(end, t - slot_of(p, t) + p.block_tokens);
    for (const float* weight = weights + t % kKeyTile; t < stop; ++t, ++weight, v += p.head_dim) {
      __m512 value[NV];
#pragma GCC unroll 4
      for (int j = 0; j < NV; ++j) value[j] = kPartial ? T::load_first(v, n) : T::load16(v + 16 * j);
#pragma GCC unroll 8
      for (int i = 0; i < QT; ++i) {
        const __m512 x = _mm512_set1_ps(weight[i * kKeyTile]);
#pragma GCC unroll 4
        for (int j = 0; j < NV; ++j) sum[i][j] = _mm512_fmadd_ps(x, value[j], sum[i][j]);
      }
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < QT; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) store_upto(queries[i].o + d + 16 * j, n, sum[i][j]);
}

template <class T, int QT>
void weigh_tile(const AttendArgs& p, const Query* queries, int64_t begin, int64_t end, const float* weights) {
  if (begin >= end) return;
  int64_t d = 0;
  for (; d + 64 <= p.head_dim; d += 64) weigh<T, QT, 4, false>(p, queries, begin, end, d, weights);
  if (d + 32 <= p.head_dim) weigh<T, QT, 2, false>(p, queries, begin, end, d, weights), d += 32;
  if (d + 16 <= p.head_dim) weigh<T, QT, 1, false>(p, queries, begin, end, d, weights), d += 16;
  if (d < p.head_dim) weigh<T, QT, 1, true>(p, queries, begin, end, d, weights);
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
        case 4:
          step<T, 4>(p, at, tile);
          break;
        case 5:
          step<T, 5>(p, at, tile);
          break;
        default:
          step<T, 6>(p, at, tile);
          break;
      }
      i += count;
    }
}

}  // namespace

void attend_f32(const AttendArgs& p) { attend<F32>(p); }
void attend_f16(const AttendArgs& p) { attend<F16>(p); }
void attend_bf16(const AttendArgs& p) { attend<Bf16>(p); }

}  // namespace millrace::kernels::MILLRACE_AVX512
