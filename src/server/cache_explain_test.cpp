#include "server/cache_explain.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "server/testing/planner_fixture.h"

namespace millrace::server {
namespace {

using text::Json;

class CacheExplainTest : public testing::PlannerTest {
 protected:
  Json explain(const std::string& body) {
    RequestContext own = context();
    auto made = explain_prompt(*parse_body(body), own);
    EXPECT_TRUE(made) << made.error().message;
    return made ? *std::move(made) : Json();
  }
};

TEST_F(CacheExplainTest, a_prompt_is_looked_up_and_nothing_runs) {
  const std::string body = R"({"prompt": "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz"})";
  const Json before = explain(body);
  EXPECT_EQ(before["prompts"][0]["prompt_tokens"], 52);
  EXPECT_EQ(before["prompts"][0]["cached_tokens"], 0);
  EXPECT_EQ(before["prompts"][0]["computed"]["first_seen"], 52);
  EXPECT_EQ(engine_->metrics().requests_total.value(), 0u);

  auto planned = plan(plan_completion, body);
  ASSERT_TRUE(planned) << planned.error().message;
  engine::Request request = planned->prompts[0];
  request.max_new_tokens = 1;
  auto handle = engine_->submit(request);
  ASSERT_TRUE(handle) << handle.error().message;
  for (auto event = handle->next(std::chrono::seconds(60)); event && !event->finished; event = handle->next(std::chrono::seconds(60))) {
  }
  const Json after = explain(body);
  EXPECT_GT(after["prompts"][0]["cached_tokens"], 0);
  EXPECT_EQ(after["prompts"][0]["computed"]["first_seen"], 0);
}

TEST_F(CacheExplainTest, messages_go_through_the_template_and_what_is_wrong_is_said) {
  EXPECT_GT(explain(R"({"messages": [{"role": "user", "content": "abc"}]})")["prompts"][0]["prompt_tokens"], 3);
  EXPECT_EQ(explain(R"({"prompt": ["abc", "defg"]})")["prompts"].size(), 2u);
  RequestContext own = context();
  EXPECT_FALSE(explain_prompt(*parse_body(R"({"messages": 1})"), own));
  EXPECT_FALSE(explain_prompt(*parse_body(R"({})"), own));
}

TEST_F(CacheExplainTest, a_request_is_found_by_its_id_and_by_its_tenant_only) {
  ServerMetrics metrics;
  RequestRecords records(metrics, {});
  HttpRequest request;
  request.headers.push_back({"x-request-id", "r7"});
  {
    auto record = records.begin(request, "/v1/completions", {.name = "a"});
    record->read(9, 1, 1, false);
    record->answer_ended(engine::Finish::length, {.prompt_tokens = 9, .cached_tokens = 4}, {.cached = 4});
    record->sent(200);
  }
  const auto found = explain_request({{"request_id", "r7"}}, records, {.name = "a"});
  ASSERT_TRUE(found);
  EXPECT_EQ((*found)["answers"][0]["cached_tokens"], 4);
  const auto other = explain_request({{"request_id", "r7"}}, records, {.name = "b"});
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, Code::not_found);
  EXPECT_EQ(other.error().message, "request_id: 'r7' is none of the live requests and the last 1024");
  for (const std::vector<std::pair<std::string, std::string>>& query :
       {std::vector<std::pair<std::string, std::string>>{}, {{"request_id", ""}}, {{"id", "r7"}}, {{"request_id", "r7"}, {"request_id", "r8"}}})
    EXPECT_EQ(explain_request(query, records, {}).error().code, Code::invalid_argument);
}

}  // namespace
}  // namespace millrace::server
