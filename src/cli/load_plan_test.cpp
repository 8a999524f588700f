#include "cli/load_plan.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "cli/nearest_rank.h"

namespace millrace::cli {
namespace {

std::vector<LoadRequest> all_of(LoadSpec spec) {
  LoadPlan plan(std::move(spec));
  std::vector<LoadRequest> out;
  while (plan.next_due_us()) out.push_back(plan.take());
  return out;
}

int words_in(const std::string& text) {
  int n = 1;
  for (const char c : text) n += c == ' ';
  return n;
}

TEST(Lengths, are_spelled_in_three_ways) {
  EXPECT_EQ(parse_lengths("128")->most, 128);
  EXPECT_EQ(parse_lengths("uniform:16:512")->least, 16);
  EXPECT_EQ(parse_lengths("lognormal:100:0.8")->median, 100);
  EXPECT_EQ(parse_lengths("lognormal:100:0.8:4:800")->most, 800);
  for (const char* wrong : {"", "0", "-1", "1.5", "uniform", "uniform:5:4", "uniform:0:4", "lognormal:100", "lognormal:100:x", "lognormal:100:0.8:4", "lognormal:100:0.8:5:4", "9999999", "12 "})
    EXPECT_FALSE(parse_lengths(wrong).ok()) << wrong;
}

TEST(Lengths, are_drawn_within_their_bounds_and_around_their_middle) {
  Draws draws(1);
  for (const char* text : {"7", "uniform:10:20", "lognormal:100:0.8:4:800"}) {
    const Lengths lengths = *parse_lengths(text);
    std::vector<double> drawn;
    for (int i = 0; i < 4000; ++i) drawn.push_back(lengths.draw(draws));
    std::ranges::sort(drawn);
    EXPECT_GE(drawn.front(), lengths.least) << text;
    EXPECT_LE(drawn.back(), lengths.most) << text;
    const double middle = lengths.kind == Lengths::Kind::lognormal ? lengths.median : (lengths.least + lengths.most) / 2.0;
    EXPECT_NEAR(nearest_rank(drawn, 50), middle, 0.08 * middle) << text;  // 4 sigma of a median of 4000: 0.05 of spread 0.8
  }
}

TEST(LoadPlan, poisson_arrivals_have_the_rate_and_its_variance) {
  LoadSpec spec;
  spec.requests = 4000, spec.arrivals = Arrivals::poisson, spec.rate = 50;
  const auto requests = all_of(spec);
  std::vector<double> gaps;
  for (std::size_t i = 1; i < requests.size(); ++i) gaps.push_back(static_cast<double>(requests[i].due_us - requests[i - 1].due_us) / 1e6);
  const double mean = std::accumulate(gaps.begin(), gaps.end(), 0.0) / static_cast<double>(gaps.size());
  double variance = 0;
  for (const double gap : gaps) variance += (gap - mean) * (gap - mean) / static_cast<double>(gaps.size());
  EXPECT_EQ(requests[0].due_us, 0);
  EXPECT_NEAR(mean, 0.02, 0.02 * 4 / std::sqrt(4000.0));               // 4 sigma
  EXPECT_NEAR(std::sqrt(variance) / mean, 1, 4 * std::sqrt(2.0 / 4000));  // an exponential's
}

TEST(LoadPlan, bursts_arrive_together_at_the_same_rate) {
  LoadSpec spec;
  spec.requests = 9, spec.arrivals = Arrivals::even, spec.rate = 3, spec.burst = 3;
  std::vector<Microseconds> due;
  for (const LoadRequest& request : all_of(spec)) due.push_back(request.due_us);
  EXPECT_EQ(due, (std::vector<Microseconds>{0, 0, 0, 1000000, 1000000, 1000000, 2000000, 2000000, 2000000}));
}

TEST(LoadPlan, nothing_is_due_behind_its_duration) {
  LoadSpec spec;
  spec.requests = 1000, spec.arrivals = Arrivals::even, spec.rate = 10, spec.duration_s = 2;
  EXPECT_EQ(all_of(spec).size(), 20u);
}

TEST(LoadPlan, the_same_seed_asks_the_same_and_a_rate_changes_no_prompt) {
  LoadSpec spec;
  spec.requests = 20, spec.prompt_words = *parse_lengths("uniform:5:50"), spec.answer_tokens = *parse_lengths("uniform:5:50");
  LoadSpec rated = spec;
  rated.arrivals = Arrivals::poisson, rated.rate = 5;
  LoadSpec other = spec;
  other.seed = 2;
  const auto one = all_of(spec), two = all_of(rated), three = all_of(other);
  for (std::size_t i = 0; i < one.size(); ++i) {
    EXPECT_EQ(one[i].prompt, two[i].prompt);
    EXPECT_EQ(one[i].answer_tokens, two[i].answer_tokens);
    EXPECT_NE(one[i].prompt, three[i].prompt);
  }
}

TEST(LoadPlan, a_group_shares_its_prefix_and_nothing_else) {
  LoadSpec spec;
  spec.requests = 60, spec.prefix_words = 40, spec.prefix_groups = 3, spec.prompt_words = *parse_lengths("9");
  std::set<std::string> prefixes, starts, prompts;
  for (const LoadRequest& request : all_of(spec)) {
    prefixes.insert(request.prefix), prompts.insert(request.prompt);
    starts.insert(request.prefix.substr(0, 8));
    EXPECT_EQ(words_in(request.prefix), 40 + 2);  // "group 1:" before them
    EXPECT_EQ(words_in(request.prompt), 9 + 2);   // "question 7:"
  }
  EXPECT_EQ(prefixes.size(), 3u);
  EXPECT_EQ(starts.size(), 3u);
  EXPECT_EQ(prompts.size(), 60u);
}

TEST(LoadPlan, a_trace_gives_arrivals_lengths_and_groups) {
  LoadSpec spec;
  spec.requests = 10, spec.speed = 2;
  spec.trace = {{.arrival_s = 1, .prompt_tokens = 30, .new_tokens = 5, .prefix_group = "s", .prefix_tokens = 20},
                {.arrival_s = 3, .prompt_tokens = 16, .new_tokens = 6, .prefix_group = "s", .prefix_tokens = 10},
                {.arrival_s = 4, .prompt_tokens = 7, .new_tokens = 8}};
  const auto requests = all_of(spec);
  ASSERT_EQ(requests.size(), 3u);
  EXPECT_EQ(requests[1].due_us, 1'000'000);
  EXPECT_EQ(requests[2].due_us, 1'500'000);
  EXPECT_EQ(requests[2].answer_tokens, 8);
  EXPECT_EQ(requests[2].prefix, "");
  EXPECT_EQ(words_in(requests[0].prompt), 10 + 2);
  const std::string& shorter = requests[1].prefix;  // the beginning of the longer one, but for the line end
  EXPECT_EQ(requests[0].prefix.substr(0, shorter.size() - 1), shorter.substr(0, shorter.size() - 1));
}

TEST(LoadPlan, scenarios_are_those_of_the_figures) {
  const auto stall = all_of(scenario_spec("stall", 0, 0));
  ASSERT_EQ(stall.size(), 4u);
  EXPECT_EQ(stall[2].due_us, 0);
  EXPECT_EQ(stall[2].answer_tokens, 240);
  EXPECT_EQ(stall[3].due_us, 3'000'000);
  EXPECT_TRUE(stall[3].is_long);
  EXPECT_EQ(words_in(stall[3].prompt), 4000 + 2);
  EXPECT_EQ(words_in(all_of(scenario_spec("stall", 500, 0))[3].prompt), 500 + 2);

  const auto shared = all_of(scenario_spec("shared", 0, 0));
  ASSERT_EQ(shared.size(), 24u);
  EXPECT_EQ(words_in(shared[0].prefix), 1000 + 2);
  EXPECT_EQ(shared[23].prefix, shared[0].prefix);

  const auto mixed = all_of(scenario_spec("mixed", 0, 16));
  ASSERT_EQ(mixed.size(), 32u);
  EXPECT_LT(mixed.back().due_us, 4'000'000);
  for (const LoadRequest& request : mixed) EXPECT_TRUE(request.answer_tokens >= 4 && request.answer_tokens <= 160);
}

TEST(LoadPlan, warming_up_says_nothing_that_the_load_says) {
  const LoadSpec spec = scenario_spec("shared", 50, 0);
  const auto load = all_of(spec), before = all_of(warmup_spec(spec, 3));
  ASSERT_EQ(before.size(), 3u);
  EXPECT_NE(before[0].prefix, load[0].prefix);
  EXPECT_NE(before[0].prompt, load[0].prompt);
  EXPECT_EQ(all_of(warmup_spec(scenario_spec("stall", 50, 0), 5)).back().due_us, kWhenThereIsRoom);
}

}  // namespace
}  // namespace millrace::cli
