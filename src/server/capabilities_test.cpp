#include "server/capabilities.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "server/field_table.h"

namespace millrace::server {
namespace {

using text::Json;

constexpr Route kSome[] = {
    {.method = "POST", .path = "/v1/completions", .endpoint = nullptr, .what = "a raw prompt continued"},
    {.method = "GET", .path = "/health", .endpoint = nullptr, .open = true, .needs_model = false, .what = "health"},
};

TEST(Capabilities, say_what_becomes_of_each_field) {
  ServedModel model;
  model.names = {"m"};
  model.no_template_because = "the model has no chat template";
  const Json body = capabilities_body(model, {}, kSome);
  const Json& fields_of = body["fields"]["/v1/completions"];
  std::size_t rows = 0;
  for (const Field& field : fields()) rows += (field.bodies & kCompletion) != 0;
  EXPECT_EQ(fields_of["applied"].size() + fields_of["ignored"].size() + fields_of["refused"].size(), rows);
  EXPECT_FALSE(body["fields"].contains("/health"));
  ASSERT_EQ(body["endpoints"].size(), 2u);
  EXPECT_EQ(body["endpoints"][1]["needs_key"], false);
  EXPECT_EQ(body["features"]["chat"], false);
  EXPECT_EQ(body["features"]["no_chat_because"], "the model has no chat template");
  EXPECT_EQ(body["limits"]["body_bytes"], 16 << 20);
  EXPECT_EQ(body["limits"]["write_timeout_s"], 30);
  EXPECT_EQ(body["model"]["names"][0], "m");
}

}  // namespace
}  // namespace millrace::server
