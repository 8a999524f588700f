// Attention over a paged cache is near f64 for all shapes, with the same bits on all levels.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/attend_test_support.h"

namespace millrace::kernels::testing {
namespace {

/// f64 attention of rows [first, first + rows) against every level, bits included.
void check(const Sequence& s, const Cache& c, std::int64_t first, std::int64_t rows, std::int64_t window,
           const std::string& what) {
  const double unit = 0x1p-24, scale = 1.0f / std::sqrt(static_cast<float>(s.head_dim));
  std::vector<Array<float>> got;
  for (const Level& level : levels()) {
    got.push_back(attend(level.table, s, c, first, rows, window));
    ASSERT_TRUE(got.back().same_bits(got.front())) << level.name << " differs from generic: " << what;
  }
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t h = 0; h < s.group; ++h) {
      const float* q = s.q.data() + ((first + r) * s.group + h) * s.head_dim;
      const std::int64_t end = first + r + 1, begin = window ? std::max<std::int64_t>(0, end - window) : 0;
      std::vector<double> score(static_cast<std::size_t>(end - begin));
      double most = -kInf, least = kInf, score_error = 0;
      for (std::int64_t t = begin; t < end; ++t) {
        double dot = 0, norm = 0;
        for (std::int64_t d = 0; d < s.head_dim; ++d) {
          dot += double(q[d]) * s.k[t * s.head_dim + d];
          norm += std::abs(double(q[d]) * s.k[t * s.head_dim + d]);
        }
        score[static_cast<std::size_t>(t - begin)] = dot * scale;
        most = std::max(most, dot * scale), least = std::min(least, dot * scale);
        // head_dim additions of partial sums <= norm, one product; int8: two more, with the key's scales.
        score_error = std::max(score_error, double(s.head_dim + 3) * unit * norm * scale);
      }
      // A weight exp(s - m): its score's error, the rounding of s - m, exp itself (4 units). Then it is scaled once per
      // tile and split by another such factor, and summed with up to end - begin others; int8: times the value's scale.
      // Twice: above and below the line.
      const double tiles = double(end) / kKeyTile + 2;
      const double relative =
          score_error + unit * ((most - least) + 4) * (tiles + 1) + unit * (double(end - begin) + 2 * tiles + 1);
      double sum = 0;
      for (double& x : score) sum += x = std::exp(x - most);
      for (std::int64_t d = 0; d < s.head_dim; ++d) {
        double want = 0, norm = 0;
        for (std::int64_t t = begin; t < end; ++t) {
          want += score[static_cast<std::size_t>(t - begin)] * s.v[t * s.head_dim + d];
          norm += score[static_cast<std::size_t>(t - begin)] * std::abs(s.v[t * s.head_dim + d]);
        }
        ASSERT_NEAR(got.front()[(r * s.group + h) * s.head_dim + d], want / sum, 2.01 * relative * norm / sum + 1e-30)
            << what << " row " << first + r << " head " << h << " dim " << d;
      }
    }
}

TEST(Attend, every_head_dim_group_and_block_size_is_near_f64) {
  Rng rng(1);
  for (const Kv kv : kKvTypes)
    for (const std::int64_t head_dim : {32, 64, 80, 96, 128, 1, 13})
      for (std::int64_t group = 1; group <= 7; ++group) {
        const std::int64_t tokens = pick(rng, 1, 150), rows = pick(rng, 1, std::min<std::int64_t>(tokens, 9));
        const Sequence s = make_sequence(kv, tokens, group, head_dim, rng);
        for (const std::int64_t block_tokens : {8, 16, 32, 64, 256})
          check(s, make_cache(s, block_tokens), tokens - rows, rows, 0,
                "head_dim " + std::to_string(head_dim) + " group " + std::to_string(group) + " tokens " +
                    std::to_string(tokens) + " rows " + std::to_string(rows) + " block_tokens " +
                    std::to_string(block_tokens));
      }
}

TEST(Attend, every_length_from_1_to_257_and_long_ones_are_near_f64) {  // P11
  Rng rng(2);
  const Sequence s = make_sequence(Kv::f16, 257, 2, 32, rng, 3);
  const Cache c = make_cache(s, 16);
  check(s, c, 0, 257, 0, "all rows at once");
  for (std::int64_t length = 1; length <= 257; ++length)
    check(s, c, length - 1, 1, 0, "length " + std::to_string(length));
  const Sequence longer = make_sequence(Kv::f16, 2100, 3, 64, rng);
  const Cache cache = make_cache(longer, 32);
  for (const std::int64_t length : {511, 512, 513, 1024, 1025, 1600, 2100})
    check(longer, cache, length - 1, 1, 0, "length " + std::to_string(length));
}

TEST(Attend, a_window_hides_what_is_older) {
  Rng rng(3);
  const Sequence s = make_sequence(Kv::f16, 700, 3, 64, rng);
  const Cache c = make_cache(s, 16);
  for (const std::int64_t window : {1, 2, 7, 63, 64, 65, 200, 512, 600, 1000})
    for (const std::int64_t first : {0, 60, 130, 505, 690})
      check(s, c, first, 10, window, "window " + std::to_string(window));
}

}  // namespace
}  // namespace millrace::kernels::testing
