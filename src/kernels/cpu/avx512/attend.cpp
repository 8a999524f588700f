// Flash attention over one split of a paged cache, on AVX-512.
//
// Queries (neighbouring heads of one row, then the next row) share each load of K and V: 6 x 4 accumulators where
// arithmetic is the limit, up to 8 x 2 where memory is.
// Scores: a vector is 16 tokens, one chain over d each. Values: a vector is 16 dimensions, one chain over t each.
// Queries of a tile differ in which keys are theirs at its edges only; there each goes alone, so nobody meets a foreign
// key.
//
// Many queries share a tile of keys: it is widened to f32 once, into scratch, as one block of kKeyTile tokens. Few read
// the cache, up to four blocks at once, and wait for memory: scores ask for the tile's values, values for the next
// keys.

#include "kernels/cpu/avx512/kernels.h"
#include "kernels/cpu/avx512/vec.h"

namespace millrace::kernels::MILLRACE_AVX512 {
namespace {

static_assert(kKeyTile == 64);

constexpr int kMaxQueries = 8;
constexpr int kLeastWidened = 12;  // queries: below, widening takes longer than it saves

/// Elements of a widened tile, which needs not be asked for; the scales of codes are behind them, as in a block.
struct Widened : F32 {};
struct WidenedCodes : F32 {};
template <class T>
constexpr bool from_memory = true;
template <>
constexpr bool from_memory<Widened> = false;
template <>
constexpr bool from_memory<WidenedCodes> = false;
template <>
constexpr bool is_scaled<WidenedCodes> = true;

/// Vectors of 16 elements asked for at once: a cache line holds four of codes, two of halves.
template <class T>
constexpr int asked_at_once = sizeof(typename T::type) == 1 ? 4 : 2;

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
  // A widened tile is one block, and the table is of others.
  if constexpr (!from_memory<T>) return reinterpret_cast<const typename T::type*>(cache);
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

/// Those of the 16 tokens from t on, which is a multiple of that; of the tokens in [begin, end) at least.
template <class T>
__m512 scales_of(const AttendArgs& p, const std::uint8_t* cache, int64_t t, int64_t begin, int64_t end) {
  if (p.block_tokens >= 16) return _mm512_loadu_ps(scale_of<T>(p, cache, t));
  const float* upper = scale_of<T>(p, cache, t + 8 < end ? t + 8 : t);  // 8: two blocks, as in score_tile
  return F32::load_two(t + 8 > begin ? scale_of<T>(p, cache, t) : upper, upper);
}

/// sum[i][j] = q[i] . k over dimensions [begin, end), for QT queries and 16 NV tokens, key(d, j) being elements d of 16
/// of them.
template <int QT, int NV, class Key>
[[gnu::always_inline]] inline void multiply(const Query* queries, int64_t begin, int64_t end, __m512 (&sum)[QT][NV],
                                            Key key) {
#pragma GCC unroll 8
  for (int i = 0; i < QT; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) sum[i][j] = _mm512_setzero_ps();
  const float* q[QT];
#pragma GCC unroll 8
  for (int i = 0; i < QT; ++i) q[i] = queries[i].q;
  for (int64_t d = begin; d < end; ++d) {
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
}

/// scores[i * kKeyTile + 16 j ...] = scale * q[i] . k, likewise; key_scales(j): of codes the words of 16 tokens.
template <class T, int QT, int NV, class Key, class KeyScales>
[[gnu::always_inline]] inline void score(const AttendArgs& p, const Query* queries, float* scores, Key key,
                                         KeyScales key_scales) {
  __m512 sum[QT][NV];
  if constexpr (is_scaled<T>) {
    multiply(queries, 0, p.head_dim / 2, sum, key);
#pragma GCC unroll 8
    for (int i = 0; i < QT; ++i)
#pragma GCC unroll 4
      for (int j = 0; j < NV; ++j) _mm512_storeu_ps(scores + i * kKeyTile + 16 * j, sum[i][j]);
    multiply(queries, p.head_dim / 2, p.head_dim, sum, key);
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) {
      const __m512i word = _mm512_castps_si512(key_scales(j));
      const __m512 lower = _mm512_castsi512_ps(_mm512_slli_epi32(word, 16)),
                   upper = _mm512_castsi512_ps(_mm512_and_si512(word, _mm512_set1_epi32(-0x10000)));
#pragma GCC unroll 8
      for (int i = 0; i < QT; ++i) {
        const __m512 first = _mm512_mul_ps(_mm512_loadu_ps(scores + i * kKeyTile + 16 * j), lower);
        sum[i][j] = _mm512_fmadd_ps(sum[i][j], upper, first);
      }
    }
  } else {
    multiply(queries, 0, p.head_dim, sum, key);
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
      score<T, QT, 1>(
          p, queries, out, [=](int64_t d, int) { return T::load_two(lower + d * 8, upper + d * 8); },
          [&](int) { return scales_of<T>(p, p.k_cache, t, begin, end); });
      t += 16;
      continue;
    }
    const int64_t block_tokens = p.block_tokens, vectors = (end - t + 15) / 16;
    const typename T::type *k[4] = {}, *v[4] = {};
    for (int j = 0; j < 4 && j < vectors; ++j) {
      k[j] = block_of<T>(p, p.k_cache, t + 16 * j) + slot_of(p, t + 16 * j);
      if constexpr (from_memory<T>) v[j] = block_of<T>(p, p.v_cache, t + 16 * j) + slot_of(p, t + 16 * j) * p.head_dim;
    }
    const auto key = [&](int64_t d, int j) __attribute__((always_inline)) {
      if constexpr (from_memory<T>) _mm_prefetch(reinterpret_cast<const char*>(v[j] + 16 * d), _MM_HINT_T1);
      return T::load16(k[j] + d * block_tokens);
    };
    const auto key_scales = [&](int j) { return scales_of<T>(p, p.k_cache, t + 16 * j, begin, end); };
    if (QT <= 6 && vectors >= 4)
      score<T, QT, QT <= 6 ? 4 : 2>(p, queries, out, key, key_scales), t += 64;
    else if (vectors >= 2)
      score<T, QT, 2>(p, queries, out, key, key_scales), t += 32;
    else
      score<T, QT, 1>(p, queries, out, key, key_scales), t += 16;
  }
}

/// Multiplies each query's weights of tokens [begin, end) of one tile by the scales of their values, whole vectors
/// around them included.
template <class T, int QT>
void scale_weights(const AttendArgs& p, int64_t begin, int64_t end, float* weights) {
  for (int64_t t = begin / 16 * 16; t < end; t += 16) {
    const __m512 scale = scales_of<T>(p, p.v_cache, t, begin, end);
#pragma GCC unroll 8
    for (int i = 0; i < QT; ++i) {
      float* at = weights + i * kKeyTile + t % kKeyTile;
      _mm512_storeu_ps(at, _mm512_mul_ps(_mm512_loadu_ps(at), scale));
    }
  }
}

/// Asks for the scales of tokens [begin, end) of one tile; scores alone take longer than memory does.
template <class T>
void ask_for_scales(const AttendArgs& p, int64_t begin, int64_t end) {
  for (int64_t t = begin; t < end; t += 16) {
    _mm_prefetch(reinterpret_cast<const char*>(scale_of<T>(p, p.k_cache, t)), _MM_HINT_T0);
    _mm_prefetch(reinterpret_cast<const char*>(scale_of<T>(p, p.v_cache, t)), _MM_HINT_T0);
  }
}

/// One number of each of up to eight vectors: op over its lanes, i and i + 8 first, then + 4, + 2, + 1 (vec.h). All of
/// them together take little more than one.
template <int QT, class Op>
[[gnu::always_inline]] inline __m256 fold_lanes(const __m512 (&v)[QT], Op op) {
  __m256 eight[8], four[4], two[2];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i)
    eight[i] = i < QT ? op(_mm512_castps512_ps256(v[i % QT]), _mm512_extractf32x8_ps(v[i % QT], 1)) : eight[0];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i)
    four[i] = op(_mm256_permute2f128_ps(eight[2 * i], eight[2 * i + 1], 0x20),
                 _mm256_permute2f128_ps(eight[2 * i], eight[2 * i + 1], 0x31));
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i)
    two[i] = op(_mm256_shuffle_ps(four[2 * i], four[2 * i + 1], 0x44),
                _mm256_shuffle_ps(four[2 * i], four[2 * i + 1], 0xEE));
  const __m256 one = op(_mm256_shuffle_ps(two[0], two[1], 0x88), _mm256_shuffle_ps(two[0], two[1], 0xDD));
  return _mm256_permutevar8x32_ps(one, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));  // was 0 2 4 6 1 3 5 7
}

/// The own keys of a tile's queries, as positions in the tile.
struct Own {
  int64_t begin[kMaxQueries], end[kMaxQueries];
};

/// Turns the scores of one tile into weights in place, 0 outside a query's own keys, and updates m, l, and o up to the
/// products with V. Queries without own keys stay as they are.
template <int QT>
void soften(const AttendArgs& p, const Query* queries, const Own& own, float* scores) {
  const __m512 nothing = _mm512_set1_ps(-__builtin_inff());
  const auto owned = [&](int i, int64_t j) {
    const auto after = first_lanes(max64(own.end[i] - 16 * j, 0)),
               before = first_lanes(max64(own.begin[i] - 16 * j, 0));
    return _mm512_mask_blend_ps(static_cast<__mmask16>(after & ~before), nothing,
                                _mm512_loadu_ps(scores + i * kKeyTile + 16 * j));
  };
  unsigned live = 0;
  int64_t first = kKeyTile, last = 0;
  __m512 most[QT], sum[QT];
#pragma GCC unroll 8
  for (int i = 0; i < QT; ++i) {
    most[i] = _mm512_max_ps(_mm512_max_ps(owned(i, 0), owned(i, 1)), _mm512_max_ps(owned(i, 2), owned(i, 3)));
    if (own.begin[i] >= own.end[i]) continue;
    live |= 1u << i;
    first = min64(first, own.begin[i] / 16), last = max64(last, (own.end[i] + 15) / 16);
  }
  const auto mask = static_cast<__mmask16>(live);
  const __m512 m = load_upto(queries[0].m, QT), l = load_upto(queries[0].l, QT);
  const __m512 tile_max =
      _mm512_castps256_ps512(fold_lanes(most, [](__m256 a, __m256 b) { return _mm256_max_ps(a, b); }));
  const __m512 new_m = _mm512_max_ps(tile_max, m);
  float maxima[16];
  _mm512_storeu_ps(maxima, new_m);
#pragma GCC unroll 8
  for (int i = 0; i < QT; ++i) {
    const __m512 subtract = _mm512_set1_ps(maxima[i]);
    sum[i] = _mm512_setzero_ps();
    for (int64_t j = first; j < last; ++j) {  // the other weights are 0, and nobody reads them
      const __m512 weight = exp(_mm512_sub_ps(owned(i, j), subtract));
      _mm512_storeu_ps(scores + i * kKeyTile + 16 * j, weight);
      sum[i] = _mm512_add_ps(sum[i], weight);
    }
  }
  const __m512 added = _mm512_castps256_ps512(fold_lanes(sum, [](__m256 a, __m256 b) { return _mm256_add_ps(a, b); }));
  const __m512 factor = exp(_mm512_sub_ps(m, new_m));
  _mm512_mask_storeu_ps(queries[0].m, mask, new_m);
  _mm512_mask_storeu_ps(queries[0].l, mask, _mm512_add_ps(_mm512_mul_ps(l, factor), added));

  // Usually none is left after a few tiles: the maximum stays.
  unsigned moved = static_cast<unsigned>(_mm512_cmp_ps_mask(factor, _mm512_set1_ps(1), _CMP_NEQ_UQ)) & live;
  if (!moved) return;
  float factors[16];
  _mm512_storeu_ps(factors, factor);
  for (; moved; moved &= moved - 1) {
    const int i = __builtin_ctz(moved);
    float* o = queries[i].o;
    for (int64_t d = 0; d < p.head_dim; d += 16)
      store_upto(o + d, p.head_dim - d, _mm512_mul_ps(load_upto(o + d, p.head_dim - d), _mm512_set1_ps(factors[i])));
  }
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
    // After the last tile the next head's first one. (An address is made, nothing is read.)
    const bool more = t + kKeyTile < p.first_position + p.rows;
    const int64_t ahead = more ? t + kKeyTile : p.next_head ? t % kKeyTile : t;
    const auto* next = block_of<T>(p, p.k_cache + (more ? 0 : p.next_head), ahead) + slot_of(p, ahead) * p.head_dim + d;
    for (const float* weight = weights + t % kKeyTile; t < stop; ++t, ++weight, v += p.head_dim) {
      if constexpr (from_memory<T> && !kPartial) {
#pragma GCC unroll 4
        for (int j = 0; j < NV; j += asked_at_once<T>)
          _mm_prefetch(reinterpret_cast<const char*>(next + 16 * j), _MM_HINT_T1);
        next += p.head_dim;
      }
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
  if constexpr (QT <= 6)
    for (; d + 64 <= p.head_dim; d += 64) weigh<T, QT, 4, false>(p, queries, begin, end, d, weights);
  for (; d + 32 <= p.head_dim; d += 32) weigh<T, QT, 2, false>(p, queries, begin, end, d, weights);
  if (d + 16 <= p.head_dim) weigh<T, QT, 1, false>(p, queries, begin, end, d, weights), d += 16;
  if (d < p.head_dim) weigh<T, QT, 1, true>(p, queries, begin, end, d, weights);
}

/// One online-softmax step of QT neighbouring queries: the keys of the tile that starts at `tile`.
template <class T, int QT>
void step(const AttendArgs& p, const Query* queries, int64_t tile) {
  Own own;
  int64_t first = tile + kKeyTile, last = tile, common_first = tile, common_last = tile + kKeyTile;
  for (int i = 0; i < QT; ++i) {
    const int64_t begin = max64(queries[i].begin, tile), end = min64(queries[i].end, tile + kKeyTile);
    own.begin[i] = begin - tile, own.end[i] = end - tile;
    if (begin < end) first = min64(first, begin), last = max64(last, end);
    common_first = max64(common_first, begin);
    common_last = min64(common_last, end);
  }
  if (first >= last) return;
  if constexpr (is_scaled<T> && from_memory<T>) ask_for_scales<T>(p, first, last);
  score_tile<T, QT>(p, queries, first, last, p.scratch);
  soften<QT>(p, queries, own, p.scratch);
  if constexpr (is_scaled<T>) scale_weights<T, QT>(p, first, last, p.scratch);
  if (common_first >= common_last) common_first = common_last = last;  // nothing in common: each alone
  for (int i = 0; i < QT; ++i)
    weigh_tile<T, 1>(p, queries + i, tile + own.begin[i], min64(tile + own.end[i], common_first),
                     p.scratch + i * kKeyTile);
  weigh_tile<T, QT>(p, queries, common_first, common_last, p.scratch);
  for (int i = 0; i < QT; ++i)
    weigh_tile<T, 1>(p, queries + i, max64(tile + own.begin[i], common_last), tile + own.end[i],
                     p.scratch + i * kKeyTile);
}

/// `count` <= kMaxQueries queries from the i-th.
template <class T>
void step(const AttendArgs& p, int64_t i, int64_t count, int64_t tile) {
  Query at[kMaxQueries];
  for (int64_t j = 0; j < count; ++j) at[j] = query_at(p, i + j);
  switch (count) {
    case 1:
      return step<T, 1>(p, at, tile);
    case 2:
      return step<T, 2>(p, at, tile);
    case 3:
      return step<T, 3>(p, at, tile);
    case 4:
      return step<T, 4>(p, at, tile);
    case 5:
      return step<T, 5>(p, at, tile);
    case 6:
      return step<T, 6>(p, at, tile);
  }
  if constexpr (from_memory<T>) count == 7 ? step<T, 7>(p, at, tile) : step<T, 8>(p, at, tile);
}

/// All queries, in groups of equal size.
template <class T>
void steps(const AttendArgs& p, int64_t tile) {
  constexpr int64_t kMost = from_memory<T> ? kMaxQueries : 6;
  const int64_t queries = p.rows * p.group, groups = (queries + kMost - 1) / kMost;
  for (int64_t g = 0; g < groups; ++g) {
    const int64_t i = g * queries / groups;
    step<T>(p, i, (g + 1) * queries / groups - i, tile);
  }
}

/// Keys and values of tokens [begin, end) of one tile as f32: [head_dim][kKeyTile] and [kKeyTile][head_dim], the scales
/// of codes behind them. Tokens beside them are written too where their blocks are there, and left alone where not.
template <class T>
void widen(const AttendArgs& p, int64_t begin, int64_t end, float* keys, float* values) {
  const int64_t lanes = min64(p.block_tokens, 16);
  for (int64_t t = begin / lanes * lanes; t < end; t += lanes) {
    const auto* k = block_of<T>(p, p.k_cache, t) + slot_of(p, t);
    float* to = keys + t % kKeyTile;
    for (int64_t d = 0; d < p.head_dim; ++d, k += p.block_tokens, to += kKeyTile)
      store_upto(to, lanes, lanes == 16 ? T::load16(k) : T::load_two(k, k));
    if constexpr (is_scaled<T>) {
      const int64_t scales = p.head_dim * kKeyTile + t % kKeyTile;
      store_upto(keys + scales, lanes, load_upto(scale_of<T>(p, p.k_cache, t), lanes));
      store_upto(values + scales, lanes, load_upto(scale_of<T>(p, p.v_cache, t), lanes));
    }
  }
  for (int64_t t = begin; t < end; ++t) {
    const auto* v = block_of<T>(p, p.v_cache, t) + slot_of(p, t) * p.head_dim;
    float* to = values + t % kKeyTile * p.head_dim;
    int64_t d = 0;
    for (; d + 16 <= p.head_dim; d += 16) _mm512_storeu_ps(to + d, T::load16(v + d));
    if (d < p.head_dim) store_upto(to + d, p.head_dim - d, T::load_first(v + d, p.head_dim - d));
  }
}

template <class T>
void attend(const AttendArgs& p) {
  const int64_t queries = p.rows * p.group;
  for (int64_t i = 0; i < queries; ++i) p.m[i] = -__builtin_inff(), p.l[i] = 0;
  for (int64_t i = 0; i < queries * p.head_dim; ++i) p.o[i] = 0;

  const int64_t begin = query_at(p, 0).begin, end = min64(p.key_end, p.first_position + p.rows);
  float* keys = p.scratch + queries * kKeyTile;
  for (int64_t tile = p.key_begin; tile < end; tile += kKeyTile) {
    if (queries < kLeastWidened) {
      steps<T>(p, tile);
      continue;
    }
    const int64_t first = max64(tile, begin), last = min64(tile + kKeyTile, end);
    if (first >= last) continue;
    float* values = keys + (p.head_dim + 1) * kKeyTile;
    widen<T>(p, first, last, keys, values);
    AttendArgs widened = p;  // a cache whose every block is the tile
    widened.k_cache = reinterpret_cast<const std::uint8_t*>(keys);
    widened.v_cache = reinterpret_cast<const std::uint8_t*>(values);
    widened.block_tokens = kKeyTile;
    if constexpr (is_scaled<T>)
      steps<WidenedCodes>(widened, tile);
    else
      steps<Widened>(widened, tile);
  }
}

}  // namespace

void attend_f32(const AttendArgs& p) { attend<F32>(p); }
void attend_f16(const AttendArgs& p) { attend<F16>(p); }
void attend_bf16(const AttendArgs& p) { attend<Bf16>(p); }
void attend_int8(const AttendArgs& p) { attend<Int8>(p); }

}  // namespace millrace::kernels::MILLRACE_AVX512
