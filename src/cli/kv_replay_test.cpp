#include "cli/kv_replay.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/kv_report.h"

namespace millrace::cli {
namespace {

TraceRequest request(double arrival, int prompt, int answer) { return {.arrival_s = arrival, .prompt_tokens = prompt, .new_tokens = answer}; }

TEST(KvReplay, a_contiguous_piece_is_reserved_to_its_end_and_filled_token_by_token) {
  // One request, 4 prompt tokens and 4 new ones in 8 slots: 4, 5, 6, 7 of them hold a token after its four steps.
  const std::vector<TraceRequest> trace = {request(0, 4, 4)};
  const KvUse use = replay_contiguous(trace, Reserve::answer, {.pool_tokens = 16});
  EXPECT_EQ(use.steps, 4);
  EXPECT_EQ(use.steps_waiting, 0);
  EXPECT_DOUBLE_EQ(use.utilisation, (4 + 5 + 6 + 7) / 4.0 / 8);
  EXPECT_DOUBLE_EQ(use.pool_utilisation, (4 + 5 + 6 + 7) / 4.0 / 16);
  EXPECT_EQ(use.max_batch, 1);
}

TEST(KvReplay, what_is_reserved_bounds_the_contiguous_batch) {
  std::vector<TraceRequest> trace(9, request(0, 4, 4));
  trace.push_back(request(0, 4, 28));
  EXPECT_EQ(replay_contiguous(trace, Reserve::exact, {.pool_tokens = 64}).max_batch, 8);
  EXPECT_EQ(replay_contiguous(trace, Reserve::answer, {.pool_tokens = 64}).max_batch, 2);
  EXPECT_EQ(replay_contiguous(trace, Reserve::answer, {.pool_tokens = 31}).failures, 10);
}

TEST(KvReplay, first_fit_needs_a_hole_in_one_piece) {
  // 30 of 40 slots are taken by three of 10; the middle one ends first and leaves a hole of 10 and a rest of 10: 15 do not fit.
  const std::vector<TraceRequest> trace = {request(0, 5, 5), request(0, 9, 1), request(0, 5, 5), request(0, 8, 7)};
  const KvUse use = replay_contiguous(trace, Reserve::exact, {.pool_tokens = 40, .step_s = 1});
  EXPECT_GE(use.steps_waiting, 3);
  EXPECT_EQ(use.failures, 0);
}

TEST(KvReplay, paged_counts_a_shared_block_once_and_ends_with_every_request_answered) {
  std::vector<TraceRequest> trace;
  for (int i = 0; i < 6; ++i) trace.push_back({.arrival_s = i * 1.0, .prompt_tokens = 40, .new_tokens = 64, .prefix_group = "s", .prefix_tokens = 32});
  const KvUse use = replay_paged(trace, prompts_of(trace, 1000, 1), {.pool_tokens = 1024, .block_tokens = 16, .step_s = 1});
  EXPECT_EQ(use.failures, 0);
  EXPECT_DOUBLE_EQ(use.prefix_hit_rate, 5 * 32 / (6 * 40.0));
  EXPECT_EQ(use.max_batch, 6);
  EXPECT_EQ(use.fullest.pools[0].shared, 2);
  EXPECT_LE(use.utilisation, 1);
}

TEST(KvReplay, on_a_trace_of_its_own_paging_meets_the_goals) {  // A24, B6
  const auto trace = make_kv_trace(200, 16);
  const KvReplayOptions options;
  const KvUse contiguous = replay_contiguous(trace, Reserve::answer, options);
  const KvUse paged = replay_paged(trace, prompts_of(trace, 1 << 15, 16), options);
  EXPECT_GT(paged.steps_waiting, 100);
  EXPECT_GE(paged.utilisation, 0.95);
  EXPECT_GE(paged.max_batch, 2.5 * contiguous.max_batch);
  EXPECT_EQ(paged.failures, 0);
  EXPECT_GT(paged.prefix_hit_rate, 0.2);
}

TEST(KvReport, json_has_the_shape_that_scripts_read) {
  KvReport report{.trace = "t.jsonl"};
  report.paged = {.utilisation = 0.96, .max_batch = 50, .prefix_hit_rate = 0.25};
  report.answer = {.utilisation = 0.33, .max_batch = 20};
  report.int8_bytes_ratio = 0.53125;
  auto json = report.to_json();
  EXPECT_EQ(json["contiguous"]["utilisation"], 0.33);
  EXPECT_EQ(json["contiguous"]["max_batch"], 20);
  EXPECT_EQ(json["paged"]["utilisation"], 0.96);
  EXPECT_EQ(json["paged"]["prefix_hit_rate"], 0.25);
  EXPECT_EQ(json["int8_bytes_ratio"], 0.53125);
  EXPECT_FALSE(json.contains("no_cache"));
  report.no_cache = NoCacheCost{.prompt_tokens = 1000, .new_tokens = 1000, .measured_tokens = 3, .measured_s = 3, .computed_s = 1500, .prefill_s = 1, .with_cache_s = 9};
  json = report.to_json();
  EXPECT_EQ(json["no_cache"]["prefills"], 1500.0);
  EXPECT_NE(report.to_text().find("as long as that prompt 1500 times"), std::string::npos);
}

}  // namespace
}  // namespace millrace::cli
