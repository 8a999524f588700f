#include "cli/bench_serve_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/nearest_rank.h"

namespace millrace::cli {
namespace {

/// Sent at `sent_ms`, with text at each of `text_ms`, ended with the last.
LoadRecord done_at(Microseconds sent_ms, std::vector<Microseconds> text_ms, int tokens = -1) {
  LoadRecord record{.outcome = Outcome::done, .due_us = sent_ms * 1000, .sent_us = sent_ms * 1000, .status = 200};
  for (const Microseconds ms : text_ms) record.text_us.push_back(ms * 1000);
  record.end_us = record.text_us.empty() ? record.sent_us : record.text_us.back();
  if (tokens >= 0) record.usage = {.prompt_tokens = 10, .completion_tokens = tokens, .cached_tokens = 4};
  return record;
}

LoadRecord failed_at(Microseconds sent_ms, int status, std::string why, double retry_after_s = -1) {
  LoadRecord record{.outcome = Outcome::failed, .due_us = sent_ms * 1000, .sent_us = sent_ms * 1000, .end_us = sent_ms * 1000, .status = status, .error = std::move(why)};
  record.retry_after_s = retry_after_s;
  return record;
}

ServeReport report_of(std::vector<LoadRecord> records, SloLimits slo = {}, std::string_view scenario = "") {
  return report_on({.records = std::move(records), .peak_running = 1}, slo, scenario);
}

TEST(NearestRank, is_a_value_that_was_measured) {
  std::vector<double> values;
  for (int i = 1; i <= 200; ++i) values.push_back(i);
  EXPECT_EQ(nearest_rank(values, 50), 100);
  EXPECT_EQ(nearest_rank(values, 99), 198);
  EXPECT_EQ(nearest_rank(values, 99.9), 200);
  EXPECT_EQ(nearest_rank(values, 0), 1);
  EXPECT_EQ(nearest_rank(std::vector{7.0}, 99), 7);
}

TEST(ServeReport, each_figure_is_what_its_definition_says) {
  const ServeReport report = report_of({done_at(0, {100, 150, 250}, /*tokens=*/5), done_at(500, {1500}, 1)});
  EXPECT_DOUBLE_EQ(report.ttft_s.p50, 0.1);
  EXPECT_DOUBLE_EQ(report.ttft_s.max, 1.0);
  EXPECT_EQ(report.tpot_s.n, 1u);  // one token takes no further ones
  EXPECT_DOUBLE_EQ(report.tpot_s.max, 0.15 / 4);
  EXPECT_DOUBLE_EQ(report.gap_s.p50, 0.05);
  EXPECT_DOUBLE_EQ(report.gap_s.max, 0.1);
  EXPECT_DOUBLE_EQ(report.e2e_s.p50, 0.25);
  EXPECT_DOUBLE_EQ(report.wall_s, 1.5);
  EXPECT_DOUBLE_EQ(report.per_second(static_cast<double>(report.output_tokens)), 4.0);
  EXPECT_EQ(report.prompt_tokens, 20);
  EXPECT_EQ(report.cached_tokens, 8);
  EXPECT_EQ(report.chunks, 4);
}

TEST(ServeReport, chunks_are_counted_where_one_server_answer_has_no_usage) {
  EXPECT_TRUE(report_of({done_at(0, {1, 2}, 2)}).has_usage);
  const ServeReport report = report_of({done_at(0, {1, 2}, 2), done_at(0, {1, 2, 3})});
  EXPECT_FALSE(report.has_usage);
  EXPECT_EQ(report.output_tokens, 5);
}

TEST(ServeReport, goodput_is_of_all_that_ended_and_keeps_every_slo) {
  const std::vector<LoadRecord> records = {done_at(0, {100, 200}, 2), done_at(0, {300, 350}, 2), done_at(0, {50, 400}, 2), done_at(0, {90}, 1),
                                           done_at(0, {}, 0), failed_at(1000, 500, "no"), LoadRecord{}};
  const ServeReport report = report_of(records, {.ttft_ms = 100, .tpot_ms = 100});
  EXPECT_EQ(report.good, 2);  // the first keeps both to the millisecond; the one of one token has no TPOT
  EXPECT_DOUBLE_EQ(report.good_share(), 2.0 / 6);
  EXPECT_EQ(report.without_text, 1);
  EXPECT_EQ(report.unfinished, 1);
  EXPECT_EQ(report_of(records, {.e2e_ms = 200}).good, 2);
  EXPECT_DOUBLE_EQ(report.to_json()["goodput"]["requests_per_s"].get<double>(), 2.0);
  EXPECT_FALSE(report_of(records).to_json().contains("goodput"));
}

TEST(ServeReport, errors_are_grouped_by_status_and_sentence) {
  const ServeReport report = report_of({failed_at(0, 429, "slow down", 1), failed_at(1, 0, "cannot connect"), failed_at(2, 429, "slow down", 3), failed_at(3, 429, "other")});
  ASSERT_EQ(report.errors.size(), 3u);
  EXPECT_EQ(report.errors[0].count, 2);
  EXPECT_EQ(report.errors[0].retry_after_s, 3);
  EXPECT_NE(report.to_text().find("     2 x 429: slow down (retry after 3 s)\n"), std::string::npos);
  EXPECT_NE(report.to_text().find("     1 x no answer: cannot connect\n"), std::string::npos);
  EXPECT_TRUE(report.to_json()["ttft_s"].is_null());
}

TEST(ServeReport, stalled_gaps_are_those_that_end_after_the_long_prompt_came) {
  LoadRecord arrival = done_at(300, {900});
  arrival.is_long = true;
  const ServeReport report = report_of({done_at(0, {100, 290, 310, 1000, 1001}), arrival}, {}, "stall");
  ASSERT_TRUE(report.stall.has_value());
  EXPECT_EQ(report.stall->gap_s.n, 3u);
  EXPECT_DOUBLE_EQ(report.stall->gap_s.max, 0.69);
  EXPECT_DOUBLE_EQ(report.stall->long_ttft_s, 0.6);
}

TEST(ServeReport, the_timeline_counts_each_second) {
  const ServeReport report = report_of({done_at(0, {100, 1100, 2100}), failed_at(1500, 500, "no"), done_at(2000, {2500})});
  ASSERT_EQ(report.timeline.size(), 3u);
  EXPECT_EQ(report.timeline[0].sent, 1);
  EXPECT_EQ(report.timeline[1].failed, 1);
  EXPECT_EQ(report.timeline[1].running, 2);
  EXPECT_EQ(report.timeline[2].chunks, 2);
  EXPECT_EQ(report.timeline[2].done, 2);
}

TEST(ServeReport, what_had_come_when_it_was_stopped_counts_but_for_e2e) {
  LoadRecord stopped = done_at(0, {100, 200});
  stopped.outcome = Outcome::unfinished;
  const ServeReport report = report_of({stopped, done_at(0, {100, 200, 300}, 3)});
  EXPECT_EQ(report.ttft_s.n, 2u);
  EXPECT_EQ(report.gap_s.n, 3u);
  EXPECT_EQ(report.e2e_s.n, 1u);
  EXPECT_EQ(report.output_tokens, 5);
}

TEST(ServeReport, late_is_said_of_requests_that_have_a_time_of_their_own) {
  LoadRecord late = done_at(30, {100}), other = done_at(50, {100});
  late.due_us = 10'000, other.due_us = kWhenThereIsRoom;
  const ServeReport report = report_of({late, other});
  EXPECT_EQ(report.late_s.n, 1u);
  EXPECT_DOUBLE_EQ(report.late_s.max, 0.02);
}

TEST(ServeReport, nothing_at_all_is_a_report_too) {
  const ServeReport report = report_of({});
  EXPECT_EQ(report.sent, 0);
  EXPECT_NE(report.to_text().find("0 sent, 0 done, 0 failed"), std::string::npos);
  EXPECT_EQ(report.to_json()["timeline"].size(), 0u);
}

}  // namespace
}  // namespace millrace::cli
