#include "server/request_list.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "server/model_list.h"

namespace millrace::server {
namespace {

using text::Json;

TEST(RequestList, says_what_lives_and_how_far_it_is) {
  RequestFacts reading{.id = "a", .endpoint = "/v1/completions", .tenant = "t", .peer = "127.0.0.1:9", .arrived_us = 1000};
  RequestFacts generating = reading;
  generating.id = "b";
  generating.is_read = true;
  generating.prompt_tokens = 11;
  generating.answers = 2;
  generating.max_tokens = -1;
  generating.generated_tokens = 5;
  const RequestFacts live[] = {reading, generating};
  const Json body = requests_body(live, 251'000);
  EXPECT_EQ(body["count"], 2);
  EXPECT_EQ(body["data"][0].dump(), R"({"id":"a","tenant":"t","endpoint":"/v1/completions","state":"reading","age_ms":250.0,"peer":"127.0.0.1:9"})");
  EXPECT_EQ(body["data"][1]["state"], "generating");
  EXPECT_EQ(body["data"][1]["generated_tokens"], 5);
  EXPECT_TRUE(body["data"][1]["max_tokens"].is_null()) << "no limit of its own";
  EXPECT_EQ(requests_body({}, 0).dump(), R"({"object":"list","count":0,"data":[]})");
}

TEST(CacheReport, adds_up_and_spells_the_divergence) {
  engine::CacheReport report;
  report.cached = 16;
  report.computed[static_cast<std::size_t>(kv::MissCause::diverged)] = 4;
  report.computed[static_cast<std::size_t>(kv::MissCause::partial_block)] = 3;
  report.diverged_at = 19;
  report.own = "a\xC3";  // the first byte of a character
  report.known = "b";
  const Json body = report_body(report);
  EXPECT_EQ(body["prompt_tokens"], 23);
  EXPECT_EQ(body["cached_tokens"], 16);
  EXPECT_EQ(body["computed_tokens"], 7);
  EXPECT_EQ(body["computed"]["diverged"], 4);
  EXPECT_EQ(body["computed"]["evicted"], 0);
  EXPECT_EQ(body["diverged"].dump(), "{\"at\":19,\"own\":\"a\xEF\xBF\xBD\",\"known\":\"b\"}");
  EXPECT_TRUE(report_body({})["diverged"].is_null());
}

TEST(CacheReport, of_a_request_is_that_of_its_answers) {
  RequestFacts facts{.id = "a", .ended_us = 5, .is_read = true, .prompt_tokens = 9};
  facts.reports.resize(2);
  const Json body = explained_body(facts);
  EXPECT_EQ(body["request_id"], "a");
  EXPECT_EQ(body["state"], "ended");
  EXPECT_EQ(body["answers"].size(), 2u);
}

class ModelListTest : public ::testing::Test {
 protected:
  ModelListTest() {
    model_.names = {"m", "also"};
    model_.context_tokens = 512;
    model_.created_s = 86400;
    model_.fingerprint = "fp_1";
    model_.about = {{"architecture", "llama"}};
  }
  ServedModel model_;
};

TEST_F(ModelListTest, each_name_is_an_entry_that_both_dialects_can_read) {
  const Json body = models_body(model_);
  EXPECT_EQ(body["object"], "list");
  ASSERT_EQ(body["data"].size(), 2u);
  EXPECT_EQ(body["data"][1]["id"], "also");
  EXPECT_EQ(body["data"][1]["object"], "model");
  EXPECT_EQ(body["data"][1]["created"], 86400);
  EXPECT_EQ(body["data"][1]["created_at"], "1970-01-02T00:00:00Z");
  EXPECT_EQ(body["data"][1]["max_model_len"], 512);
  EXPECT_EQ(body["data"][1]["about"]["architecture"], "llama");
  EXPECT_EQ(body["last_id"], "also");
}

TEST_F(ModelListTest, a_name_that_is_not_served_is_none) {
  EXPECT_EQ((*model_body(model_, "also"))["id"], "also");
  EXPECT_FALSE(model_body(model_, "gpt-4"));
  EXPECT_FALSE(model_body(model_, ""));
}

}  // namespace
}  // namespace millrace::server
