#include "server/metrics_page.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>

#include "base/testing/scratch_folder.h"
#include "server/net/http_server.h"
#include "server/request_records.h"
#include "server/testing/exposition.h"

namespace millrace::server {
namespace {

using testing::Exposition;
using testing::read_exposition;

void expect_right(const Exposition& page) {
  for (const std::string& one : page.complaints) ADD_FAILURE() << one;
}

class MetricsPageTest : public ::testing::Test {
 protected:
  Exposition read() {
    Exposition page = read_exposition(metrics_page(sources_), sources_.prefix.find(':') != std::string::npos);
    expect_right(page);
    return page;
  }
  /// One request that ends with `finish`.
  void run(engine::Finish finish, const std::string& tenant = "default") {
    auto record = records_.begin({}, "/v1/completions", {.name = tenant});
    record->read(100, 1, 10, true);
    record->tokens(2);
    record->answer_ended(finish, {.prompt_tokens = 100, .completion_tokens = 2}, {});
    record->sent(200);
    engine_.finished_total[static_cast<std::size_t>(finish)].add();
    engine_.request_us.record(4'000'000);
    engine_.first_token_us.record(1500);
    engine_.gap_us.record(3'000'000);
    engine_.request_generated_tokens.record(2);
  }

  ServerMetrics server_;
  HttpServerMetrics http_;
  engine::EngineMetrics engine_;
  RequestRecords records_{server_, {}};
  MetricsSources sources_{.server = &server_, .http = &http_, .engine = &engine_, .build = {{"version", "0.1"}, {"model", "m"}}};
};

TEST_F(MetricsPageTest, O11_3_the_page_is_right_before_the_first_request_after_some_and_after_an_error) {
  read();
  sources_.engine = nullptr;
  sources_.http = nullptr;
  read();
  sources_.engine = &engine_;
  for (int i = 0; i < 3; ++i) run(engine::Finish::stop);
  run(engine::Finish::cancelled);
  {
    auto refused = records_.begin({}, "/v1/completions", {});
    refused->refused(429, "queue_full");
    refused->sent(429);
  }
  const Exposition page = read();
  const std::pair<const char*, double> wanted[] = {
      {"request_success_total{finished_reason=\"stop\"}", 3},
      {"request_success_total{finished_reason=\"abort\"}", 1},
      {"request_success_total{finished_reason=\"length\"}", 0},
      {"refused_requests_total{reason=\"queue_full\"}", 1},
      {"http_requests_total{endpoint=\"/v1/completions\",status=\"200\"}", 4},
      {"http_requests_total{endpoint=\"/v1/completions\",status=\"429\"}", 1},
      {"e2e_request_latency_seconds_count", 4},
      {"request_generation_tokens_sum", 8},
      {"build_info{version=\"0.1\",model=\"m\"}", 1},
  };
  for (const auto& [sample, value] : wanted) EXPECT_EQ(page.at(std::string("millrace_") + sample), value) << sample;
  EXPECT_GT(page.at("process_resident_memory_bytes"), 1e6);
  EXPECT_GT(page.at("process_open_fds"), 2);
  EXPECT_GT(page.at("process_start_time_seconds"), 1.6e9);
}

TEST_F(MetricsPageTest, O11_3_promtool_has_nothing_to_say) {
  if (std::system("promtool --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "no promtool here (Debian: prometheus)";
  run(engine::Finish::stop);
  const millrace::testing::ScratchFolder folder;
  const std::string page = folder.file("page", metrics_page(sources_)), said = folder.file("said");
  const int status = std::system(("promtool check metrics <'" + page + "' >'" + said + "' 2>&1").c_str());
  EXPECT_EQ(status, 0);
  EXPECT_EQ(millrace::testing::bytes_of_file(said), "");
}

TEST_F(MetricsPageTest, the_content_type_says_the_version) {
  EXPECT_EQ(metrics_response(sources_).content_type, "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_EQ(metrics_response(sources_).status, 200);
}

TEST_F(MetricsPageTest, times_are_seconds) {
  run(engine::Finish::stop);
  const Exposition page = read();
  EXPECT_NEAR(page.at("millrace_time_to_first_token_seconds_sum"), 0.0015, 1e-9);
  EXPECT_EQ(page.at("millrace_time_to_first_token_seconds_bucket{le=\"0.001\"}"), 0);
  EXPECT_EQ(page.at("millrace_time_to_first_token_seconds_bucket{le=\"0.002\"}"), 1);
  EXPECT_NEAR(page.at("millrace_inter_token_latency_seconds_sum"), 3, 1e-9);
  engine_.step_us[static_cast<std::size_t>(engine::StepKind::mixed)].record(20);
  engine_.stall_blocks_us.add(2'500'000);
  engine_.open_us.add(4'000'000);
  engine_.busy_us.add(3'000'000);
  const Exposition later = read();
  EXPECT_EQ(later.at("millrace_step_seconds_bucket{phase=\"mixed\",le=\"2e-05\"}"), 1);
  EXPECT_EQ(later.at("millrace_stall_seconds_total{cause=\"blocks\"}"), 2.5);
  EXPECT_EQ(later.at("millrace_core_busy_ratio{lane=\"0\"}"), 0.75);
}

TEST_F(MetricsPageTest, what_is_above_every_bound_counts) {
  engine_.gap_us.record(10'000'000'000);
  const Exposition page = read();
  EXPECT_EQ(page.at("millrace_inter_token_latency_seconds_bucket{le=\"+Inf\"}"), 1);
  EXPECT_EQ(page.at("millrace_inter_token_latency_seconds_count"), 1);
  EXPECT_EQ(page.at("millrace_inter_token_latency_seconds_sum"), 10'000);
}

TEST_F(MetricsPageTest, gauges_of_the_cache_are_parts_of_it) {
  EXPECT_EQ(read().at("millrace_kv_cache_usage_perc"), 0) << "no division by 0 blocks";
  engine_.kv_blocks_total.set(200);
  engine_.kv_blocks_used.set(50);
  engine_.kv_blocks_cached.set(30);
  const Exposition page = read();
  EXPECT_EQ(page.at("millrace_kv_cache_usage_perc"), 0.25);
  EXPECT_EQ(page.at("millrace_kv_cache_blocks{state=\"used\"}"), 50);
  EXPECT_EQ(page.at("millrace_kv_cache_blocks{state=\"cached\"}"), 30);
  EXPECT_EQ(page.at("millrace_kv_cache_blocks{state=\"free\"}"), 120);
}

TEST_F(MetricsPageTest, names_that_boards_of_vllm_ask_for_are_there_under_its_prefix) {
  sources_.prefix = "vllm:";
  run(engine::Finish::stop);
  const Exposition page = read();
  for (const char* histogram : {"time_to_first_token_seconds", "inter_token_latency_seconds", "e2e_request_latency_seconds", "request_queue_time_seconds", "request_prefill_time_seconds",
                                "request_decode_time_seconds", "request_prompt_tokens", "request_generation_tokens"}) {
    const auto type = page.types.find(std::string("vllm:") + histogram);
    ASSERT_NE(type, page.types.end()) << histogram;
    EXPECT_EQ(type->second, "histogram");
  }
  for (const char* counter : {"prompt_tokens_total", "generation_tokens_total", "prefix_cache_queries_total", "prefix_cache_hits_total", "request_success_total", "num_preemptions_total"})
    EXPECT_TRUE(page.types.contains(std::string("vllm:") + counter)) << counter;
  for (const char* gauge : {"num_requests_running", "num_requests_waiting", "kv_cache_usage_perc"}) EXPECT_FALSE(std::isnan(page.at(std::string("vllm:") + gauge))) << gauge;
}

TEST_F(MetricsPageTest, label_values_are_escaped_and_cut) {
  server_.unknown_fields.add("a\"b\\c\nd");
  server_.unknown_fields.add("\xff");
  server_.unknown_fields.add(std::string(1000, 'x'));
  const Exposition page = read();
  EXPECT_EQ(page.at("millrace_unknown_fields_total{field=\"a\\\"b\\\\c\\nd\"}"), 1);
  EXPECT_EQ(page.at("millrace_unknown_fields_total{field=\"\xEF\xBF\xBD\"}"), 1);
  EXPECT_EQ(page.at("millrace_unknown_fields_total{field=\"" + std::string(64, 'x') + "\"}"), 1);
}

TEST_F(MetricsPageTest, what_clients_can_name_is_bounded) {
  for (int i = 0; i < 2000; ++i) server_.unknown_fields.add("field" + std::to_string(i));
  for (int i = 0; i < 300; ++i) run(engine::Finish::stop, "t" + std::to_string(i));
  const Exposition page = read();
  EXPECT_EQ(server_.unknown_fields.values().size(), kMostUnknownFields + 1);
  EXPECT_EQ(page.at("millrace_unknown_fields_total{field=\"other\"}"), 2000 - static_cast<int>(kMostUnknownFields));
  EXPECT_EQ(page.at("millrace_tenant_requests_total{tenant=\"other\"}"), 300 - static_cast<int>(kMostTenants));
  EXPECT_EQ(page.at("millrace_tenant_generation_tokens_total{tenant=\"t0\"}"), 2);
}

TEST_F(MetricsPageTest, a_page_that_is_read_while_requests_end_agrees_with_itself) {
  std::atomic<bool> stop = false;
  std::thread load([&] {
    while (!stop) run(engine::Finish::stop);
  });
  for (int i = 0; i < 50; ++i) read();
  stop = true;
  load.join();
}

TEST(MetricsPrefix, is_the_beginning_of_a_name) {
  for (const char* right : {"millrace_", "vllm:", "a", "_x1"}) EXPECT_TRUE(check_metrics_prefix(right)) << right;
  for (const char* wrong : {"", "1a", "a-b", "a b", "\xC3\xA9", "a\n"}) EXPECT_FALSE(check_metrics_prefix(wrong)) << wrong;
}

}  // namespace
}  // namespace millrace::server
