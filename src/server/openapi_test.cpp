#include "server/openapi.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>

#include "base/testing/scratch_folder.h"
#include "server/field_table.h"

namespace millrace::server {
namespace {

using text::Json;

constexpr Route kSome[] = {
    {.method = "POST", .path = "/v1/chat/completions", .endpoint = nullptr, .what = "a chat"},
    {.method = "POST", .path = "/v1/messages", .endpoint = nullptr, .dialect = Dialect::anthropic, .what = "a chat"},
    {.method = "POST", .path = "/v1/embeddings", .endpoint = nullptr, .what = "vectors"},
    {.method = "GET", .path = "/v1/models", .endpoint = nullptr, .what = "models"},
    {.method = "GET", .path = "/v1/models/{}", .endpoint = nullptr, .what = "one"},
    {.method = "GET", .path = "/v1/responses/{}", .endpoint = nullptr, .needs_model = false, .what = "a stored response"},
    {.method = "DELETE", .path = "/v1/responses/{}", .endpoint = nullptr, .needs_model = false, .what = "forget it"},
    {.method = "GET", .path = "/v1/responses/{}/input_items", .endpoint = nullptr, .needs_model = false, .what = "its input"},
    {.method = "GET", .path = "/health", .endpoint = nullptr, .open = true, .needs_model = false, .what = "health"},
    {.method = "GET", .path = "/metrics", .endpoint = nullptr, .open = true, .needs_model = false, .what = "metrics"},
    {.method = "GET", .path = "/cache/explain", .endpoint = nullptr, .what = "why"},
    {.method = "POST", .path = "/cache/explain", .endpoint = nullptr, .what = "what"},
};

/// Every "$ref" in `value` must lead somewhere in `document`.
void expect_references(const Json& value, const Json& document) {
  if (value.is_object() && value.contains("$ref")) {
    const std::string target = value["$ref"].get<std::string>();
    ASSERT_EQ(target.substr(0, 2), "#/");
    EXPECT_TRUE(document.contains(Json::json_pointer(target.substr(1)))) << target;
  }
  if (value.is_structured())
    for (const Json& one : value) expect_references(one, document);
}

TEST(OpenApi, every_route_is_an_operation_with_what_the_specification_demands) {
  const Json document = openapi_document(kSome, "1.2.3");
  EXPECT_EQ(document["openapi"], "3.1.0");
  EXPECT_EQ(document["info"]["version"], "1.2.3");
  std::set<std::string> ids;
  std::size_t operations = 0;
  for (const auto& [path, methods] : document["paths"].items()) {
    EXPECT_EQ(path[0], '/');
    for (const auto& [method, operation] : methods.items()) {
      ++operations;
      EXPECT_TRUE(method == "get" || method == "post" || method == "delete") << method;
      EXPECT_TRUE(ids.insert(operation["operationId"].get<std::string>()).second) << "twice: " << operation["operationId"];
      EXPECT_TRUE(operation["responses"].contains("200"));
      for (const auto& [status, response] : operation["responses"].items()) EXPECT_TRUE(response.contains("description") || response.contains("$ref")) << status;
      std::set<std::string> named;
      for (const Json& one : operation.value("parameters", Json::array())) {
        if (one["in"] != "path") continue;
        named.insert(one["name"].get<std::string>());
        EXPECT_EQ(one["required"], true);
      }
      std::set<std::string> wanted;
      for (auto at = path.find('{'); at != path.npos; at = path.find('{', at + 1)) wanted.insert(path.substr(at + 1, path.find('}', at) - at - 1));
      EXPECT_EQ(named, wanted) << path;
    }
  }
  EXPECT_EQ(operations, std::size(kSome));
  EXPECT_TRUE(document["paths"].contains("/v1/models/{model}"));
  EXPECT_TRUE(document["paths"].contains("/v1/responses/{response_id}/input_items"));
  expect_references(document, document);
}

TEST(OpenApi, every_row_of_the_field_table_is_a_property_of_its_body) {
  const Json document = openapi_document(kSome, "1");
  const Json& chat = document["components"]["schemas"]["v1_chat_completions_request"];
  for (const Field& field : fields()) {
    if ((field.bodies & kChat) == 0) continue;
    std::string pointer = "/properties/" + std::string(field.name);
    if (const auto dot = pointer.find('.'); dot != pointer.npos) pointer.replace(dot, 1, "/properties/");
    ASSERT_TRUE(chat.contains(Json::json_pointer(pointer))) << field.name;
    const Json& row = chat.at(Json::json_pointer(pointer));
    EXPECT_TRUE(row.contains("description")) << field.name;
    EXPECT_FALSE(row.contains("nullable")) << "a word of OpenAPI 3.0";
  }
}

TEST(OpenApi, errors_are_in_the_words_of_their_dialect) {
  const Json document = openapi_document(kSome, "1");
  EXPECT_EQ(document["paths"]["/v1/chat/completions"]["post"]["responses"]["400"]["$ref"], "#/components/responses/OpenAIError");
  EXPECT_EQ(document["paths"]["/v1/messages"]["post"]["responses"]["429"]["$ref"], "#/components/responses/AnthropicError");
  EXPECT_TRUE(document["paths"]["/v1/chat/completions"]["post"]["responses"]["200"]["content"].contains("text/event-stream"));
  EXPECT_FALSE(document["paths"]["/v1/embeddings"]["post"]["responses"]["200"]["content"].contains("text/event-stream"));
}

TEST(OpenApi, the_public_validator_finds_nothing) {
  const char* named = std::getenv("MILLRACE_TEST_PYTHON");
  const std::string python = named != nullptr ? named : "python3";
  if (std::system((python + " -c 'import openapi_spec_validator' >/dev/null 2>&1").c_str()) != 0)
    GTEST_SKIP() << "no openapi-spec-validator for " << python << " (PyPI); MILLRACE_TEST_PYTHON names another";
  const millrace::testing::ScratchFolder folder;
  const std::string file = folder.file("openapi.json", openapi_document(kSome, "1").dump()), said = folder.file("said");
  const std::string check = "import json,sys; from openapi_spec_validator import validate; validate(json.load(open(sys.argv[1])))";
  const int status = std::system((python + " -c '" + check + "' '" + file + "' >'" + said + "' 2>&1").c_str());
  EXPECT_EQ(status, 0) << millrace::testing::bytes_of_file(said);
}

}  // namespace
}  // namespace millrace::server
