// Flash attention over one split of a paged cache, on AVX2.
//
// Up to six queries (neighbouring heads of one row, then the next row) share each load of K and V. Scores: a vector is
// eight tokens, one chain over d each. Values: a vector is eight dimensions, one chain over t each. Queries of a tile
// differ in which keys are theirs at its edges only; there each goes alone, so nobody meets a key that is not its own.

#include "kernels/cpu/avx2/kernels.h"
#include "kernels/cpu/avx2/vec.h"

namespace millrace::kernels::avx2 {
namespace {

static_assert(kKeyTile == 64);

constexpr int kMaxQueries = 6;

/// Vectors per query in registers: at least 8 accumulators where there are enough, at most 12.
constexpr int max_vectors(int queries) { return queries == 1 ? 8 : queries <= 3 ? 4 : 2; }

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

/// The word of scales of position t's vector in `cache`; those of its neighbours in the block follow.
template <class T>
const float* scale_of(const AttendArgs& p, const std::uint8_t* cache, int64_t t) {
  return reinterpret_cast<const float*>(block_of<T>(p, cache, t) + p.block_tokens * p.head_dim) + slot_of(p, t);
}

/// sum[i][j] = q[i] . k over dimensions [begin, end), for QT queries and 8 NV tokens, all in the block where k points.
template <class T, int QT, int NV>
[[gnu::always_inline]] inline void multiply(const Query* queries, const typename T::type* k, int64_t block_tokens,
                                            int64_t begin, int64_t end, __m256 (&sum)[QT][NV]) {
#pragma GCC unroll 8
  for (int i = 0; i < QT; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < NV; ++j) sum[i][j] = _mm256_setzero_ps();
  const float* q[QT];
#pragma GCC unroll 8
  for (int i = 0; i < QT; ++i) q[i] = queries[i].q;
  k += begin * block_tokens;
  for (int64_t d = begin; d < end; ++d, k += block_tokens) {
    __m256 key[NV];
#pragma GCC unroll 8
    for (int j = 0; j < NV; ++j) key[j] = T::load8(k + 8 * j);
#pragma GCC unroll 8
    for (int i = 0; i < QT; ++i) {
      const __m256 x = _mm256_broadcast_ss(q[i] + d);
#pragma GCC unroll 8
      for (int j = 0; j < NV; ++j) sum[i][j] = _mm256_fmadd_ps(x, key[j], sum[i][j]);
    }
  }
}

/// scores[i * kKeyTile + 8 j ...] = scale * q[i] . k, likewise; key_scales: of codes the first token's word.
template <class T, int QT, int NV>
void score(const Query* queries, const typename T::type* k, const float* key_scales, int64_t block_tokens,
           int64_t head_dim, float scale, float* scores) {
  __m256 sum[QT][NV];
  if constexpr (is_scaled<T>) {
    multiply<T>(queries, k, block_tokens, 0, head_dim / 2, sum);
#pragma GCC unroll 8
    for (int i = 0; i < QT; ++i)
#pragma GCC unroll 8
      for (int j = 0; j < NV; ++j) _mm256_store_ps(scores + i * kKeyTile + 8 * j, sum[i][j]);
    multiply<T>(queries, k, block_tokens, head_dim / 2, head_dim, sum);
#pragma GCC unroll 8
    for (int j = 0; j < NV; ++j) {
      const __m256i word = _mm256_castps_si256(_mm256_loadu_ps(key_scales + 8 * j));
      const __m256 lower = _mm256_castsi256_ps(_mm256_slli_epi32(word, 16)),
                   upper = _mm256_castsi256_ps(_mm256_and_si256(word, _mm256_set1_epi32(-0x10000)));
#pragma GCC unroll 8
      for (int i = 0; i < QT; ++i) {
        const __m256 first = _mm256_mul_ps(_mm256_load_ps(scores + i * kKeyTile + 8 * j), lower);
        sum[i][j] = _mm256_fmadd_ps(sum[i][j], upper, first);
      }
    }
  } else {
    multiply<T>(queries, k, block_tokens, 0, head_dim, sum);
  }
#pragma GCC unroll 8
  for (int i = 0; i < QT; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < NV; ++j)
      _mm256_store_ps(scores + i * kKeyTile + 8 * j, _mm256_mul_ps(sum[i][j], _mm256_set1_ps(scale)));
}

/// Scores of tokens [begin, end) of one tile, whole vectors around them included.
template <class T, int QT>
void score_tile(const AttendArgs& p, const Query* queries, int64_t begin, int64_t end, float* scores) {
  for (int64_t t = begin / 8 * 8; t < end;) {
    const int64_t slot = slot_of(p, t);
    const auto* k = block_of<T>(p, p.k_cache, t) + slot;
    const float* scales = nullptr;
    if constexpr (is_scaled<T>) scales = scale_of<T>(p, p.k_cache, t);
    float* out = scores + t % kKeyTile;
    const int64_t vectors = min64((p.block_tokens - slot) / 8, (end - t + 7) / 8);
    int taken = 1;
    if (max_vectors(QT) >= 8 && vectors >= 8)
      score<T, QT, max_vectors(QT) >= 8 ? 8 : 1>(queries, k, scales, p.block_tokens, p.head_dim, p.scale, out),
          taken = 8;
    else if (max_vectors(QT) >= 4 && vectors >= 4)
      score<T, QT, max_vectors(QT) >= 4 ? 4 : 1>(queries, k, scales, p.block_tokens, p.head_dim, p.scale, out),
          taken = 4;
    else if (vectors >= 2)
      score<T, QT, 2>(queries, k, scales, p.block_tokens, p.head_dim, p.scale, out), taken = 2;
    else
      score<T, QT, 1>(queries, k, scales, p.block_tokens, p.head_dim, p.scale, out);
    t += 8 * taken;
  }
}

/// Multiplies each query's weights of tokens [begin, end) of one tile by the scales of their values, whole vectors
/// around them included.
template <class T, int QT>
void scale_weights(const AttendArgs& p, int64_t begin, int64_t end, float* weights) {
  for (int64_t t = begin / 8 * 8; t < end; t += 8) {
    const __m256 scale = _mm256_loadu_ps(scale_of<T>(p, p.v_cache, t));
#pragma GCC unroll 8
    for (int i = 0; i < QT; ++i) {
      float* at = weights + i * kKeyTile + t % kKeyTile;
      _mm256_store_ps(at, _mm256_mul_ps(_mm256_load_ps(at), scale));
    }
  }
}

/// Turns a query's scores of one tile into weights in place, 0 outside its own [begin, end), and updates its m, l and o
/// up to the products with V. Positions count from the tile's start.
void soften(const Query& query, int64_t begin, int64_t end, int64_t head_dim, float* scores) {
  const __m256 none = _mm256_set1_ps(-__builtin_inff());
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256i before = _mm256_set1_epi32(static_cast<int>(begin) - 1),
                after = _mm256_set1_epi32(static_cast<int>(end));
  __m256 most = none;
  for (int64_t t = begin / 8 * 8; t < end; t += 8) {
    const __m256i index = _mm256_add_epi32(lane, _mm256_set1_epi32(static_cast<int>(t)));
    const __m256i own = _mm256_and_si256(_mm256_cmpgt_epi32(index, before), _mm256_cmpgt_epi32(after, index));
    const __m256 s = _mm256_blendv_ps(none, _mm256_load_ps(scores + t), _mm256_castsi256_ps(own));
    _mm256_store_ps(scores + t, s);
    most = _mm256_max_ps(most, s);
  }
  const float tile_max = max_lanes(most), m = *query.m, new_m = tile_max > m ? tile_max : m;
  const __m256 shift = _mm256_set1_ps(new_m);
  __m256 even = _mm256_setzero_ps(), odd = _mm256_setzero_ps();
#pragma GCC unroll 4
  for (int64_t t = 0; t < kKeyTile; t += 16) {
    __m256 p[2];
#pragma GCC unroll 2
    for (int64_t half = 0; half < 2; ++half) {
      const int64_t at = t + 8 * half;
      const bool any = at + 8 > begin && at < end;
      p[half] = any ? exp(_mm256_sub_ps(_mm256_load_ps(scores + at), shift)) : _mm256_setzero_ps();
      _mm256_store_ps(scores + at, p[half]);
    }
    even = _mm256_add_ps(even, p[0]);
    odd = _mm256_add_ps(odd, p[1]);
  }
  const float correction = _mm256_cvtss_f32(exp(_mm256_set1_ps(m - new_m)));
  *query.m = new_m;
  *query.l = *query.l * correction + sum_lanes(_mm256_add_ps(even, odd));
  if (correction == 1.0f) return;  // the usual case after a few tiles: the maximum stays
  const __m256 factor = _mm256_set1_ps(correction);
  for (int64_t d = 0; d < head_dim; d += 8)
    store_upto(query.o + d, head_dim - d, _mm256_mul_ps(load_upto(query.o + d, head_dim - d), factor));
}

/// o[i][d ...] += sum over t in [begin, end), in order, of weights[i][t] * v[t][d ...], for QT queries and NV vectors,
/// the last of which may be partial.
template <class T, int QT, int NV, bool kPartial>
void weigh(const AttendArgs& p, const Query* queries, int64_t begin, int64_t end, int64_t d, const float* weights) {
  const int64_t n = kPartial ? p.head_dim - d : 8;
  __m256 sum[QT][NV];
#pragma GCC unroll 8
  for (int i = 0; i < QT; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < NV; ++j)
      sum[i][j] = kPartial ? load_part(queries[i].o + d, n) : _mm256_loadu_ps(queries[i].o + d + 8 * j);
  for (int64_t t = begin; t < end;) {
    const auto* v = block_of<T>(p, p.v_cache, t) + slot_of(p, t) * p.head_dim + d;
    const int64_t stop = min64(end, t - slot_of(p, t) + p.block_tokens);
    for (const float* weight = weights + t % kKeyTile; t < stop; ++t, ++weight, v += p.head_dim) {
      __m256 value[NV];
#pragma GCC unroll 8
      for (int j = 0; j < NV; ++j) value[j] = kPartial ? load_elements<T>(v, n) : T::load8(v + 8 * j);
#pragma GCC unroll 8
      for (int i = 0; i < QT; ++i) {
        const __m256 x = _mm256_broadcast_ss(weight + i * kKeyTile);
#pragma GCC unroll 8
        for (int j = 0; j < NV; ++j) sum[i][j] = _mm256_fmadd_ps(x, value[j], sum[i][j]);
      }
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < QT; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < NV; ++j) store_upto(queries[i].o + d + 8 * j, n, sum[i][j]);
}

template <class T, int QT>
void weigh_tile(const AttendArgs& p, const Query* queries, int64_t begin, int64_t end, const float* weights) {
  if (begin >= end) return;
  for (int64_t d = 0; d < p.head_dim;) {
    const int64_t vectors = (p.head_dim - d) / 8;
    int taken = 1;
    if (max_vectors(QT) >= 8 && vectors >= 8)
      weigh<T, QT, max_vectors(QT) >= 8 ? 8 : 1, false>(p, queries, begin, end, d, weights), taken = 8;
    else if (max_vectors(QT) >= 4 && vectors >= 4)
      weigh<T, QT, max_vectors(QT) >= 4 ? 4 : 1, false>(p, queries, begin, end, d, weights), taken = 4;
    else if (vectors >= 2)
      weigh<T, QT, 2, false>(p, queries, begin, end, d, weights), taken = 2;
    else if (vectors == 1)
      weigh<T, QT, 1, false>(p, queries, begin, end, d, weights);
    else
      weigh<T, QT, 1, true>(p, queries, begin, end, d, weights);
    d += 8 * taken;
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
void attend_int8(const AttendArgs& p) { attend<Int8>(p); }

void merge_partials(const MergeArgs& p) {
  float m = -__builtin_inff(), l = 0;
  for (int64_t i = 0; i < p.n; ++i)
    if (p.l[i * p.ml_stride] != 0 && p.m[i * p.ml_stride] > m) m = p.m[i * p.ml_stride];
  for (int64_t d = 0; d < p.head_dim; ++d) p.out[d] = 0;
  for (int64_t i = 0; i < p.n; ++i) {
    if (p.l[i * p.ml_stride] == 0) continue;
    const __m256 weight = exp(_mm256_set1_ps(p.m[i * p.ml_stride] - m));
    l = _mm_cvtss_f32(_mm_fmadd_ss(_mm256_castps256_ps128(weight), _mm_set_ss(p.l[i * p.ml_stride]), _mm_set_ss(l)));
    const float* o = p.o + i * p.o_stride;
    for (int64_t d = 0; d < p.head_dim; d += 8) {
      const int64_t n = p.head_dim - d;
      store_upto(p.out + d, n, _mm256_fmadd_ps(weight, load_upto(o + d, n), load_upto(p.out + d, n)));
    }
  }
  if (l == 0) return;
  for (int64_t d = 0; d < p.head_dim; d += 8) {
    const int64_t n = p.head_dim - d;
    store_upto(p.out + d, n, _mm256_div_ps(load_upto(p.out + d, n), _mm256_set1_ps(l)));
  }
}

}  // namespace millrace::kernels::avx2
