#include "server/request_records.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/log.h"

namespace millrace::server {
namespace {

HttpRequest with_id(std::string id) {
  HttpRequest request;
  request.headers.push_back({"x-request-id", std::move(id)});
  request.peer = "127.0.0.1:1";
  return request;
}

engine::Usage usage(int prompt, int cached, int generated) {
  return {.prompt_tokens = prompt, .cached_tokens = cached, .completion_tokens = generated, .queue_us = 10, .ttft_us = 20, .prefill_us = 10, .decode_us = 30, .gap_max_us = 7};
}

class RequestRecordsTest : public ::testing::Test {
 protected:
  std::uint64_t of(const CounterTable& table, const std::string& value) const {
    for (const auto& [name, count] : table.values())
      if (name == value) return count;
    return 0;
  }

  ServerMetrics metrics_;
  RequestRecords records_{metrics_, {}};
};

TEST_F(RequestRecordsTest, an_id_of_the_client_is_kept_and_a_bad_one_replaced) {
  EXPECT_EQ(request_id_of(with_id("abc-1")), "abc-1");
  EXPECT_EQ(request_id_of(with_id(std::string(128, '~'))), std::string(128, '~'));
  for (const std::string& bad : {std::string(), std::string(129, 'a'), std::string("a b"), std::string("a\nb"), std::string("\xC3\xA9"), std::string("a\0b", 3)}) {
    const std::string made = request_id_of(with_id(bad));
    EXPECT_EQ(made.size(), 32u);
    EXPECT_NE(made, request_id_of(with_id(bad))) << "made anew each time";
  }
  EXPECT_EQ(request_id_of(HttpRequest{}).size(), 32u);
}

TEST_F(RequestRecordsTest, a_request_lives_and_ends) {
  auto record = records_.begin(with_id("a"), "/v1/completions", {.name = "t", .id = 3});
  EXPECT_EQ(record->id(), "a");
  EXPECT_EQ(record->tenant().id, 3);
  ASSERT_EQ(records_.live(Tenant{}).size(), 1u);
  EXPECT_EQ(records_.live(Tenant{})[0].state(), "reading");
  record->read(11, 2, 100, true);
  EXPECT_EQ(records_.find("a", Tenant{})->state(), "waiting");
  record->tokens(2);
  record->tokens(1);
  EXPECT_EQ(records_.find("a", Tenant{})->state(), "generating");
  EXPECT_EQ(records_.find("a", Tenant{})->generated_tokens, 3);
  EXPECT_EQ(metrics_.live_requests.value(), 1);
  record->answer_ended(engine::Finish::stop, usage(11, 4, 1), {.cached = 4});
  record->answer_ended(engine::Finish::length, usage(11, 4, 2), {.cached = 4});
  record->sent(200);
  record.reset();
  EXPECT_EQ(metrics_.live_requests.value(), 0);
  EXPECT_TRUE(records_.live(Tenant{}).empty());
  const auto facts = records_.find("a", Tenant{});
  ASSERT_TRUE(facts);
  EXPECT_EQ(facts->state(), "ended");
  EXPECT_EQ(facts->status, 200);
  EXPECT_EQ(facts->reasons, "length,stop");
  EXPECT_EQ(facts->generated_tokens, 3);
  EXPECT_EQ(facts->cached_tokens, 4);
  ASSERT_EQ(facts->reports.size(), 2u);
  EXPECT_EQ(facts->reports[0].cached, 4);
  EXPECT_EQ(of(metrics_.tenant_prompt_tokens, "t"), 11u) << "a prompt counts once however many answers it has";
  EXPECT_EQ(of(metrics_.tenant_generation_tokens, "t"), 3u);
  EXPECT_EQ(of(metrics_.http_requests, "/v1/completions 200"), 1u);
}

TEST_F(RequestRecordsTest, O11_2_cancelled_work_counts_once_and_what_was_refused_apart) {
  for (int i = 0; i < 5; ++i) {  // clients that left: with a last event, and torn down without one
    auto record = records_.begin({}, "/v1/completions", {});
    record->read(7, 1, 100, true);
    record->tokens(3);
    record->client_gone();
    if (i % 2 == 0) record->answer_ended(engine::Finish::cancelled, usage(7, 0, 3), {});
  }
  for (int i = 0; i < 5; ++i) {
    auto record = records_.begin({}, "/v1/completions", {});
    record->read(7, 1, 100, false);
    record->tokens(4);
    record->answer_ended(engine::Finish::stop, usage(7, 0, 4), {});
    record->sent(200);
  }
  for (int i = 0; i < 5; ++i) {  // refused by the border, and by the engine
    auto record = records_.begin({}, "/v1/completions", {});
    if (i % 2 == 0) record->read(7, 1, 100, false);
    record->refused(400, "invalid");
    record->sent(400);
  }
  EXPECT_EQ(of(metrics_.refused, "invalid"), 5u);
  EXPECT_EQ(metrics_.read_us.count(), 13u) << "three of the refused ones were read";
  EXPECT_EQ(of(metrics_.tenant_requests, "default"), 10u);
  EXPECT_EQ(of(metrics_.tenant_prompt_tokens, "default"), 70u);
  EXPECT_EQ(of(metrics_.tenant_generation_tokens, "default"), 35u);
  EXPECT_EQ(of(metrics_.http_requests, "/v1/completions 499"), 5u);
  EXPECT_EQ(of(metrics_.http_requests, "/v1/completions 400"), 5u);
}

TEST_F(RequestRecordsTest, an_answer_that_nobody_sent_is_a_500) {
  records_.begin(with_id("a"), "/v1/models", {}).reset();
  EXPECT_EQ(records_.find("a", Tenant{})->status, 500);
}

TEST_F(RequestRecordsTest, answers_that_nobody_reads_any_more_are_cancelled) {
  auto record = records_.begin(with_id("a"), "/v1/completions", {});
  record->read(1, 2, 10, true);
  record->answer_ended(engine::Finish::stop, usage(1, 0, 1), {});
  record.reset();
  EXPECT_EQ(records_.find("a", Tenant{})->reasons, "cancelled,stop");
}

TEST_F(RequestRecordsTest, generated_tokens_are_charged_as_they_come) {
  RateLimits limits;
  const Tenant tenant{.name = "t", .id = 1, .tokens_per_minute = 100};
  RequestRecords records(metrics_, {.rate_limits = &limits});
  auto record = records.begin({}, "/v1/completions", tenant);
  record->read(1, 1, 10, true);
  EXPECT_FALSE(limits.request(tenant, now_us()).refusal);
  record->tokens(60);
  record->tokens(60);
  EXPECT_TRUE(limits.request(tenant, now_us()).refusal);
}

TEST_F(RequestRecordsTest, only_the_last_1024_are_kept_and_the_youngest_of_an_id_is_found) {
  for (int i = 0; i < 1030; ++i) records_.begin(with_id("r" + std::to_string(i)), "/v1/models", {})->sent(200);
  EXPECT_FALSE(records_.find("r5", Tenant{}));
  EXPECT_TRUE(records_.find("r6", Tenant{}));
  EXPECT_TRUE(records_.find("r1029", Tenant{}));
  for (const int status : {200, 404}) records_.begin(with_id("same"), "/v1/models", {})->sent(status);
  EXPECT_EQ(records_.find("same", Tenant{})->status, 404);
  const auto live = records_.begin(with_id("same"), "/v1/models", {});
  EXPECT_EQ(records_.find("same", Tenant{})->status, 0);
}

TEST_F(RequestRecordsTest, reports_of_very_many_answers_are_not_all_kept) {
  auto record = records_.begin(with_id("a"), "/v1/completions", {});
  record->read(1, 100, 1, false);
  for (int i = 0; i < 100; ++i) record->answer_ended(engine::Finish::stop, usage(1, 0, 1), {});
  EXPECT_EQ(records_.find("a", Tenant{})->reports.size(), RequestRecords::kMostReports);
  EXPECT_EQ(records_.find("a", Tenant{})->answers_ended, 100);
}

TEST_F(RequestRecordsTest, a_tenant_sees_its_own_and_default_sees_all) {
  const Tenant a{.name = "a", .id = 1}, b{.name = "b", .id = 2};
  records_.begin(with_id("same"), "/v1/models", a)->sent(200);
  records_.begin(with_id("same"), "/v1/models", b)->sent(404);
  EXPECT_EQ(records_.find("same", a)->status, 200);
  EXPECT_EQ(records_.find("same", b)->status, 404);
  EXPECT_EQ(records_.find("same", Tenant{})->status, 404);
  EXPECT_FALSE(records_.find("same", Tenant{.name = "c"}));
  const auto live = records_.begin(with_id("live"), "/v1/models", a);
  EXPECT_EQ(records_.live(a).size(), 1u);
  EXPECT_EQ(records_.live(b).size(), 0u);
  EXPECT_EQ(records_.live(Tenant{}).size(), 1u);
  EXPECT_FALSE(records_.find("live", b));
}

TEST_F(RequestRecordsTest, a_record_outlives_the_book) {
  std::shared_ptr<RequestRecord> record;
  {
    RequestRecords records(metrics_, {});
    record = records.begin(with_id("a"), "/v1/models", {});
  }
  record->sent(200);
  record.reset();
  EXPECT_EQ(of(metrics_.http_requests, "/v1/models 200"), 1u);
}

TEST_F(RequestRecordsTest, many_threads_begin_end_and_look) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 300; ++i) {
        auto record = records_.begin(with_id("x"), "/v1/completions", {});
        record->read(2, 1, 3, true);
        record->tokens(1);
        record->answer_ended(engine::Finish::stop, usage(2, 0, 1), {});
        record->sent(200);
      }
    });
  for (int i = 0; i < 300; ++i) {
    EXPECT_LE(records_.live(Tenant{}).size(), 3u);
    const auto facts = records_.find("x", Tenant{});
    EXPECT_TRUE(!facts || facts->id == "x");
  }
  for (std::thread& one : threads) one.join();
  EXPECT_EQ(of(metrics_.tenant_generation_tokens, "default"), 900u);
  EXPECT_EQ(metrics_.live_requests.value(), 0);
}

/// Lines that go to standard error meanwhile.
std::string logged(LogFormat format, const std::function<void()>& what) {
  set_log_level(LogLevel::info);
  set_log_json(format == LogFormat::json);
  ::testing::internal::CaptureStderr();
  what();
  std::string out = ::testing::internal::GetCapturedStderr();
  set_log_json(false);
  set_log_level(LogLevel::warn);
  return out;
}

TEST_F(RequestRecordsTest, one_line_says_what_became_of_a_request) {
  const auto one = [&] {
    auto record = records_.begin(with_id("a"), "/v1/chat/completions", {.name = "t"});
    record->read(11, 1, 100, true);
    record->tokens(4);
    record->answer_ended(engine::Finish::stop, usage(11, 5, 4), {});
    record->sent(200);
  };
  const std::string text = logged(LogFormat::text, one);
  EXPECT_NE(text.find("request ended  id=a endpoint=/v1/chat/completions tenant=t status=200 reason=stop prompt_tokens=11 cached_tokens=5 completion_tokens=4 "
                      "queue_ms=0 ttft_ms=0 gap_max_ms=0 total_ms="),
            std::string::npos)
      << text;
  EXPECT_NE(text.find(" stream=1 peer=127.0.0.1:1\n"), std::string::npos) << text;
  const std::string json = logged(LogFormat::json, one);
  EXPECT_NE(json.find(R"("event":"request ended","id":"a","endpoint":"/v1/chat/completions","tenant":"t","status":200,"reason":"stop","prompt_tokens":11,)"), std::string::npos) << json;
  EXPECT_EQ(json[0], '{');
  EXPECT_EQ(json.substr(json.size() - 2), "}\n");
}

TEST_F(RequestRecordsTest, probes_do_not_fill_the_log) {
  EXPECT_EQ(logged(LogFormat::text, [&] { records_.begin({}, "/health", {})->sent(200); }), "");
}

TEST_F(RequestRecordsTest, prompts_and_keys_are_not_logged_unless_asked_for) {
  HttpRequest request = with_id("a");
  request.headers.push_back({"authorization", "Bearer secret-key"});
  request.body = R"({"prompt": "secret words"})";
  const std::string quiet = logged(LogFormat::text, [&] { records_.begin(request, "/v1/completions", {})->sent(200); });
  EXPECT_EQ(quiet.find("secret"), std::string::npos);
  RequestRecords open(metrics_, {.log_prompts = true});
  const std::string said = logged(LogFormat::text, [&] { open.begin(request, "/v1/completions", {})->sent(200); });
  EXPECT_NE(said.find("request body  id=a bytes=26 body=\"{\\\"prompt\\\": \\\"secret words\\\"}\""), std::string::npos) << said;
  EXPECT_EQ(said.find("secret-key"), std::string::npos);
}

}  // namespace
}  // namespace millrace::server
