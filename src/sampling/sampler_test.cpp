#include "sampling/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

namespace millrace::sampling {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<float> random_logits(int n, unsigned seed, float spread = 3) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> logits(static_cast<std::size_t>(n));
  for (float& l : logits) l = normal(rng);
  return logits;
}

/// The rest is 0. `order`: the better one first.
void keep_typical(std::vector<double>& p, double share, std::vector<std::size_t> order) {
  const double total = std::accumulate(p.begin(), p.end(), 0.0);
  double entropy = 0;
  for (const double x : p) entropy -= x > 0 ? x / total * std::log(x / total) : 0;
  std::vector<double> keys;
  for (const double x : p) keys.push_back(x > 0 ? std::abs(-std::log(x / total) - entropy) : HUGE_VAL);
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return keys[a] < keys[b]; });
  double mass = 0;
  for (std::size_t rank = 0; rank < p.size(); ++rank) {
    double& x = p[order[rank]];
    if (rank > 0 && mass >= share * total) x = 0;
    mass += x;
  }
}

/// The distribution that `params` describe, by sorting everything, in doubles.
std::vector<double> reference(std::vector<float> logits, const TokenCounts& counts, const Params& params) {
  for (const auto& [token, bias] : params.logit_bias) logits[static_cast<std::size_t>(token)] += bias;
  for (const auto& [token, count] : counts.all()) {
    float& l = logits[static_cast<std::size_t>(token)];
    l = l > 0 ? l / params.repetition_penalty : l * params.repetition_penalty;
    if (count.generated > 0)
      l -= params.presence_penalty + params.frequency_penalty * static_cast<float>(count.generated);
  }
  std::vector<std::size_t> order(logits.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return logits[a] > logits[b]; });
  std::vector<double> p(logits.size());
  double total = 0;
  const std::size_t k =
      params.top_k > 0 ? std::min<std::size_t>(static_cast<std::size_t>(params.top_k), p.size()) : p.size();
  for (std::size_t rank = 0; rank < k; ++rank)
    total += p[order[rank]] = std::exp((double{logits[order[rank]]} - logits[order[0]]) / params.temperature);
  double mass = 0;
  for (std::size_t rank = 0; rank < p.size(); ++rank) {
    double& x = p[order[rank]];
    if (rank > 0 && mass >= double{params.top_p} * total) x = 0;
    mass += x;
    if (x < params.min_p) x = 0;
  }
  if (params.typical_p < 1) keep_typical(p, params.typical_p, order);
  const double kept = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& x : p) x /= kept;
  return p;
}

Sampled sample_once(std::vector<float> logits, const Params& params, std::uint64_t position = 0,
                    const TokenCounts& counts = {}, std::span<const std::uint32_t> allowed = {}) {
  std::vector<std::byte> scratch(scratch_bytes(logits.size()), std::byte{0xff});  // NaN, if any of it were read
  Sampled sampled;
  sample(logits, allowed, counts, params, {params.seed, 0, position}, scratch, sampled);
  return sampled;
}

struct Case {
  const char* name;
  Params params;
};

std::vector<Case> cases() {
  return {
      {"plain", {}},
      {"hot", {.temperature = 1.7f}},
      {"cold", {.temperature = 0.3f}},
      {"top_k", {.top_k = 4}},
      {"top_p", {.top_p = 0.7f}},
      {"min_p", {.min_p = 0.1f}},
      {"typical_p", {.typical_p = 0.6f}},
      {"little_typical_p", {.temperature = 1.5f, .typical_p = 0.1f}},
      {"typical_p_and_top_p", {.top_p = 0.8f, .min_p = 0.02f, .typical_p = 0.7f}},
      {"typical_p_and_top_k", {.top_k = 6, .typical_p = 0.7f}},
      {"top_k_and_top_p", {.temperature = 1.3f, .top_p = 0.8f, .top_k = 5}},
      {"everything",
       {.temperature = 1.2f,
        .top_p = 0.9f,
        .top_k = 7,
        .min_p = 0.05f,
        .repetition_penalty = 1.3f,
        .presence_penalty = 0.4f,
        .frequency_penalty = 0.2f,
        .logit_bias = {{3, 1.5f}, {5, -2.0f}}}},
  };
}

TEST(Sample, draws_follow_the_exact_distribution_for_every_parameter) {
  const std::vector<float> logits = {0.3f, -1.0f, 2.0f, 0.9f, 1.4f, 2.0f, -3.0f, 0.0f, 0.5f, 1.1f};
  TokenCounts counts;
  for (const TokenId t : {2, 2, 7}) counts.add_prompt(t);
  for (const TokenId t : {4, 4, 9}) counts.add_generated(t);
  constexpr int kDraws = 100000;
  for (const Case& c : cases()) {
    for (const std::uint64_t seed : {1, 2, 3}) {
      SCOPED_TRACE(std::string(c.name) + " seed " + std::to_string(seed));
      Params params = c.params;
      params.seed = seed;
      const std::vector<double> p = reference(logits, counts, params);
      std::vector<int> drawn(p.size());
      for (int i = 0; i < kDraws; ++i)
        ++drawn[static_cast<std::size_t>(sample_once(logits, params, static_cast<std::uint64_t>(i), counts).token)];
      double chi2 = 0;
      for (std::size_t t = 0; t < p.size(); ++t) {
        if (p[t] == 0) {
          EXPECT_EQ(drawn[t], 0) << "token " << t;
        } else {
          chi2 += std::pow(drawn[t] - p[t] * kDraws, 2) / (p[t] * kDraws);
        }
      }
      EXPECT_LT(chi2, 34);  // at most 9 degrees of freedom: exceeded once in 10,000 seeds
    }
  }
}

TEST(Sample, a_large_vocabulary_gives_what_sorting_it_gives) {
  for (unsigned seed = 0; seed < 16; ++seed) {
    const int vocab = 500 + static_cast<int>(seed) * 2997;
    std::vector<float> logits = random_logits(vocab, seed, seed % 4 == 1 ? 0.5f : 3);  // flat, too
    for (std::size_t i = 0; i < logits.size(); ++i) {
      if (seed % 3 == 0) logits[i] = std::round(logits[i]);      // many ties
      if (seed % 5 == 4 && i % 1009 != 1008) logits[i] = -kInf;  // most are masked, and all that an estimate looks at
    }
    if (seed % 7 == 6) logits[logits.size() / 2 + 500] = 20 + static_cast<float>(seed % 2) * 100;  // ahead; beyond what the estimate's scale holds
    auto all_cases = cases();
    all_cases.push_back({"large_k", {.temperature = 0.8f, .top_k = vocab - 100}});
    all_cases.push_back({"large_k_and_typical_p", {.temperature = 0.8f, .top_k = vocab - 100, .typical_p = 0.8f}});
    all_cases.push_back({"cold_and_typical_p", {.temperature = 0.1f, .typical_p = 0.5f}});
    all_cases.push_back({"hot_and_typical_p", {.temperature = 50, .typical_p = 0.95f}});
    all_cases.push_back({"large_k_and_top_p", {.temperature = 0.8f, .top_p = 0.6f, .top_k = vocab / 3}});
    for (Case c : all_cases) {
      SCOPED_TRACE(std::string(c.name) + " seed " + std::to_string(seed));
      c.params.seed = seed;
      const std::vector<double> p = reference(logits, {}, c.params);
      Params all = c.params;
      if (all.top_k == 0 && all.typical_p == 1) all.top_p = 1, all.min_p = 0;  // what the first draw is from
      const std::vector<double> p_all = reference(logits, {}, all);
      // u lies in the token's part of [0, 1), up to the rounding of the sums.
      const auto is_at = [](const std::vector<double>& p, TokenId token, double u) {
        const auto end = p.begin() + token;
        const double before = std::accumulate(p.begin(), end, 0.0);
        return u >= before - 1e-5 && u <= before + *end + 1e-5;
      };
      int second = 0;
      for (std::uint64_t position = 0; position < 40; ++position) {
        const TokenId got = sample_once(logits, c.params, position).token;
        ASSERT_GE(got, 0);
        EXPECT_GT(p[static_cast<std::size_t>(got)], 0) << "token " << got << " was filtered out";
        const DrawKey key{seed, 0, position};
        if (is_at(p_all, got, uniform(key))) continue;
        ++second;
        EXPECT_TRUE(is_at(p, got, second_uniform(key))) << "token " << got;
        // The first one was filtered out: all around there are kept would be a mistake.
        double sum = 0;
        bool filtered = false;
        for (std::size_t t = 0; t < p.size(); ++t) {
          filtered |= p[t] == 0 && uniform(key) >= sum - 1e-5 && uniform(key) <= sum + p_all[t] + 1e-5;
          sum += p_all[t];
        }
        EXPECT_TRUE(filtered) << "token " << got << " was drawn twice";
      }
      const bool draws_once = c.params.top_k > 0 || c.params.typical_p < 1 || (c.params.top_p == 1 && c.params.min_p == 0);
      EXPECT_FALSE(draws_once && second > 0);
    }
  }
}

TEST(Sample, greedy_takes_the_best_and_the_lowest_id_among_equals) {
  const Params greedy{.temperature = 0};
  EXPECT_EQ(sample_once({1, 5, 5, 2}, greedy).token, 1);
  EXPECT_EQ(sample_once({1, 5, 5, 2}, {.temperature = 1, .top_k = 1}).token, 1);
  EXPECT_EQ(sample_once({1, 5, 6, 2}, {.temperature = 1e-38f}).token, 2);
  const std::vector<float> many = random_logits(150001, 5);
  EXPECT_EQ(sample_once(many, greedy).token, std::ranges::max_element(many) - many.begin());
}

TEST(Sample, the_same_key_gives_the_same_token_and_other_keys_other_ones) {
  const std::vector<float> logits = random_logits(1000, 1, 0.5f);
  int same = 0;
  for (std::uint64_t position = 0; position < 100; ++position) {
    const TokenId token = sample_once(logits, {.seed = 9}, position).token;
    EXPECT_EQ(token, sample_once(logits, {.seed = 9}, position).token);
    same += token == sample_once(logits, {.seed = 10}, position).token;
  }
  EXPECT_LT(same, 10);
}

TEST(Sample, only_allowed_tokens_are_drawn) {
  const std::vector<float> logits = random_logits(70, 3);
  const std::vector<std::uint32_t> allowed = {1u << 5, 1u << 31, 1u << 2};  // 5, 63, 66
  for (Case c : cases()) {
    for (std::uint64_t position = 0; position < 50; ++position) {
      const TokenId token = sample_once(logits, c.params, position, {}, allowed).token;
      EXPECT_TRUE(token == 5 || token == 63 || token == 66) << c.name << " gave " << token;
    }
  }
}

TEST(Sample, broken_logits_never_break_the_draw) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    EXPECT_EQ(sample_once({kNan, -kInf, 1, kNan}, {.temperature = c.params.temperature}).token, 2);
    std::vector<float> nothing(40, kNan);
    EXPECT_EQ(sample_once(nothing, c.params).token, 0);
    EXPECT_EQ(sample_once(nothing, c.params, 0, {}, std::vector<std::uint32_t>{0, 1u << 3}).token, 35);
    EXPECT_EQ(sample_once({0, kInf, 0}, {.temperature = c.params.temperature}).token, 1);
    std::vector<float> extremes(10, -std::numeric_limits<float>::max());
    extremes[6] = std::numeric_limits<float>::max();
    std::vector<float> many = random_logits(30000, 7);  // many enough for a sample of them
    for (std::size_t i = 0; i < many.size(); i += 3) many[i] = kNan;
    many[20000] = kInf;
    EXPECT_EQ(sample_once(many, c.params).token, 20000);
    EXPECT_EQ(sample_once(extremes, {.temperature = c.params.temperature, .top_p = c.params.top_p}).token, 6);
  }
}

TEST(Sample, log_probabilities_are_those_before_temperature_and_filters) {
  std::vector<float> logits = random_logits(3000, 8);
  const Params params{.temperature = 0.2f, .top_p = 0.5f, .logit_bias = {{17, 8.0f}}, .top_logprobs = 5};
  std::vector<float> biased = logits;
  biased[17] += 8;
  double sum = 0;
  for (const float l : biased) sum += std::exp(double{l});
  const Sampled got = sample_once(logits, params);
  const auto logprob = [&](TokenId t) { return double{biased[static_cast<std::size_t>(t)]} - std::log(sum); };
  EXPECT_NEAR(got.logprob, logprob(got.token), 1e-5);
  ASSERT_EQ(got.top.size(), 5u);
  std::vector<TokenId> order(3000);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](TokenId a, TokenId b) { return logprob(a) > logprob(b); });
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(got.top[i].token, order[i]);
    EXPECT_NEAR(got.top[i].logprob, logprob(order[i]), 1e-5);
  }
  EXPECT_TRUE(sample_once(logits, {.top_logprobs = 0}).top.empty());
}

TEST(RowLogprobs, are_those_of_sample_for_any_token_and_count_who_is_likelier) {
  for (unsigned seed = 0; seed < 8; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::vector<float> logits = random_logits(2000 + static_cast<int>(seed) * 3001, seed);
    if (seed % 2 == 1)
      for (float& logit : logits) logit = std::round(logit);  // ties
    if (seed % 4 >= 2) logits[5] = kNan, logits[6] = -kInf;
    const auto before = logits;
    const Sampled sampled = sample_once(logits, {.top_logprobs = 20});
    std::vector<std::byte> scratch(scratch_bytes(logits.size()), std::byte{0xff});
    std::vector<TokenLogprob> top(20);
    const RowLogprobs got = row_logprobs(logits, sampled.token, top, scratch);
    EXPECT_EQ(got.of_token.logprob, sampled.logprob);
    ASSERT_EQ(got.n_top, 20);
    for (std::size_t i = 0; i < 20; ++i) {
      EXPECT_EQ(top[i].token, sampled.top[i].token);
      EXPECT_EQ(top[i].logprob, sampled.top[i].logprob);
      const RowLogprobs one = row_logprobs(logits, top[i].token, {}, scratch);
      EXPECT_EQ(one.of_token.logprob, top[i].logprob);
      EXPECT_EQ(one.of_token.rank, 1 + std::ranges::count_if(logits, [&](float l) { return l > logits[static_cast<std::size_t>(top[i].token)]; }));
    }
    if (seed % 4 < 2) continue;
    for (const TokenId never : {5, 6}) EXPECT_EQ(row_logprobs(logits, never, {}, scratch).of_token.logprob, -kInf);
    EXPECT_TRUE(std::ranges::equal(logits, before, [](float a, float b) { return a == b || (a != a && b != b); }));
  }
}

TEST(RowLogprobs, broken_rows_break_nothing) {
  std::vector<std::byte> scratch(scratch_bytes(40));
  std::vector<TokenLogprob> top(3);
  std::vector<float> nothing(40, kNan);
  const RowLogprobs got = row_logprobs(nothing, 7, top, scratch);
  EXPECT_EQ(got.of_token.logprob, -kInf);
  EXPECT_EQ(got.n_top, 0);
  nothing[9] = kInf;
  const RowLogprobs one = row_logprobs(nothing, 9, top, scratch);
  EXPECT_EQ(one.of_token.logprob, 0);
  EXPECT_EQ(one.of_token.rank, 1);
  ASSERT_EQ(one.n_top, 1);
  EXPECT_EQ(top[0].token, 9);
  EXPECT_EQ(row_logprobs(nothing, 7, top, scratch).of_token.rank, 2);
}

TEST(TokenCounts, a_rewind_leaves_no_trace) {
  TokenCounts counts;
  counts.add_prompt(3);
  counts.add_generated(3);
  counts.add_generated(4);
  counts.remove_generated(4);
  counts.remove_generated(3);
  ASSERT_EQ(counts.all().size(), 1u);
  EXPECT_EQ(counts.all().at(3).prompt, 1);
  EXPECT_EQ(counts.all().at(3).generated, 0);
}

TEST(CheckParams, names_the_field_the_value_and_the_range) {
  const auto message = [](const Params& params) {
    const auto checked = check_params(params, 100);
    return checked ? std::string() : checked.error().message;
  };
  EXPECT_EQ(message({}), "");
  EXPECT_EQ(message({.temperature = -1}), "temperature is -1, expected 0 to 100");
  EXPECT_EQ(message({.temperature = kNan}), "temperature is nan, expected 0 to 100");
  EXPECT_EQ(message({.top_p = 0}), "top_p is 0, expected more than 0 and at most 1");
  EXPECT_EQ(message({.top_p = 1.5f}), "top_p is 1.5, expected more than 0 and at most 1");
  EXPECT_EQ(message({.top_k = -2}), "top_k is -2, expected 0 (off) or more");
  EXPECT_EQ(message({.min_p = 2}), "min_p is 2, expected 0 to 1");
  EXPECT_EQ(message({.typical_p = 0}), "typical_p is 0, expected more than 0 and at most 1");
  EXPECT_EQ(message({.repetition_penalty = 0}), "repetition_penalty is 0, expected more than 0 and at most 100");
  EXPECT_EQ(message({.presence_penalty = 3}), "presence_penalty is 3, expected -2 to 2");
  EXPECT_EQ(message({.frequency_penalty = -kInf}), "frequency_penalty is -inf, expected -2 to 2");
  EXPECT_EQ(message({.logit_bias = {{100, 1.0f}}}), "logit_bias names token 100, the vocabulary has 100");
  EXPECT_EQ(message({.logit_bias = {{-1, 1.0f}}}), "logit_bias names token -1, the vocabulary has 100");
  EXPECT_EQ(message({.logit_bias = {{1, 101.0f}}}), "logit_bias is 101, expected -100 to 100");
  EXPECT_EQ(message({.top_logprobs = 1000}), "top_logprobs is 1000, expected -1 to 256");
}

}  // namespace
}  // namespace millrace::sampling
