// Every row of the table is walked: the right value is taken, a wrong one is a 400 that names the field, a refused one is refused.

#include "server/field_table.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "server/testing/planner_fixture.h"

namespace millrace::server {
namespace {

using testing::Json;

Json body_with(const std::string& name, const Json& value) {
  const std::size_t dot = name.find('.');
  if (dot == std::string::npos) return {{name, value}};
  return {{name.substr(0, dot), {{name.substr(dot + 1), value}}}};
}

Result<void> check(const Json& body, BodyOf of, bool strict = false) {
  RequestContext context;
  context.strict = strict;
  return check_fields(body, of, context);
}

std::vector<Json> wrong_values(const Field& field) {
  switch (field.kind) {
    case Kind::boolean: return {"yes", 1};
    case Kind::integer: return {"1", 1.5, true, field.least - 1, field.most + 1e6, 1e30, std::uint64_t{1} << 63};
    case Kind::number: return {"hot", true, field.least - 0.5, field.most + 1};
    case Kind::positive: return {0, -1, "0.5", field.most + 0.5};
    case Kind::string: return {5, Json::array(), true};
    case Kind::choice: return {"never heard of", 5};
    case Kind::strings: return {5, "", Json::array({1}), Json::array({"a", ""}), Json::object({{"a", 1}}), std::string(1 << 20, 'a')};
    case Kind::ids: return {7, Json::array({"a"}), Json::array({-1}), Json::array({1.5}), Json::array({1e12})};
    case Kind::object: return {5, "x", Json::array()};
    case Kind::list: return {5, "x", Json::object()};
    case Kind::prompt: return {true, 5, Json::object()};
    case Kind::any: return {};
  }
  return {};
}

TEST(FieldTable, each_row_takes_its_example_and_names_itself_where_a_value_is_wrong) {
  int walked = 0;
  for (const BodyOf of : kBodies)
    for (const Field& field : fields()) {
      if ((field.bodies & of) == 0) continue;
      ++walked;
      const std::string name = field.name;
      SCOPED_TRACE(name);
      EXPECT_NE(std::string_view(field.doc), "");
      EXPECT_TRUE(check(body_with(name, nullptr), of));
      const auto example = check(body_with(name, Json::parse(field.example)), of, /*strict=*/true);
      if (field.treatment == Treatment::refused) {
        ASSERT_FALSE(example);
        EXPECT_EQ(example.error().where, name);
        EXPECT_EQ(example.error().code, Code::invalid_argument);
        continue;
      }
      EXPECT_TRUE(example) << example.error().message;
      for (const Json& wrong : wrong_values(field)) {
        const auto refused = check(body_with(name, wrong), of);
        ASSERT_FALSE(refused) << shown(wrong);
        EXPECT_EQ(refused.error().where, name);
        EXPECT_NE(refused.error().message.find(": expected "), std::string::npos) << refused.error().message;
      }
    }
  EXPECT_GT(walked, 150);
}

TEST(FieldTable, neutral_values_of_refused_fields_ask_for_nothing) {
  EXPECT_TRUE(check(Json::parse(R"({"tools":[],"tool_choice":"none","functions":null,"response_format":{"type":"text"},"store":false,"modalities":["text"]})"), kChat));
  EXPECT_FALSE(check(Json::parse(R"({"response_format":{"type":"text","x":1}})"), kChat));
}

TEST(FieldTable, a_body_has_each_name_once) {
  for (const BodyOf of : kBodies) {
    std::set<std::string> names;
    for (const Field& field : fields())
      if ((field.bodies & of) != 0) {
        EXPECT_TRUE(names.insert(field.name).second) << field.name;
      }
    EXPECT_EQ(body_schema(of)["type"], "object");
  }
}

TEST(FieldTable, what_is_too_long_to_show_is_counted) {
  Json stops = Json::array();
  for (int i = 0; i < 17; ++i) stops.push_back("s" + std::to_string(i));
  const auto many = check({{"stop", stops}}, kChat);
  ASSERT_FALSE(many);
  EXPECT_EQ(many.error().message, "stop: expected a string or a list of at most 16, each of 1 to 4096 bytes, got a list of 17 elements");
  EXPECT_EQ(shown(Json::array({std::string(100, 'a')})), "a list of 1 element");
  EXPECT_EQ(shown({{"a", std::string(100, 'a')}, {"b", 1}}), "an object of 2 members");
  EXPECT_EQ(shown(Json::array({1, 2})), "[1,2]");
  EXPECT_EQ(shown(std::string(100, 'a')), "a string of 100 bytes");
}

TEST(FieldTable, unknown_fields_are_told_or_refused_and_fit_a_header) {
  RequestContext context;
  ASSERT_TRUE(check_fields(Json::parse(R"({"foo":1,"a\r\nb: c":2,"stream_options":{"bar":1},"temperature":1})"), kChat, context));
  EXPECT_EQ(context.unknown_fields, (std::vector<std::string>{"foo", "a??b??c", "stream_options.bar"}));
  const auto strict = check(Json::parse(R"({"foo":1})"), kChat, true);
  ASSERT_FALSE(strict);
  EXPECT_EQ(strict.error().where, "foo");

  Json many = Json::object();
  for (int i = 0; i < 1000; ++i) many["f" + std::to_string(i) + std::string(100, 'x')] = i;
  context.unknown_fields.clear();
  ASSERT_TRUE(check_fields(many, kChat, context));
  EXPECT_EQ(context.unknown_fields.size(), 20U);
  EXPECT_EQ(context.unknown_fields[0].size(), 64U);
}

TEST(FieldTable, whole_numbers_may_be_written_as_floats) {
  EXPECT_EQ(as_integer(Json(5.0)), 5);
  EXPECT_EQ(as_integer(Json(5.5)), std::nullopt);
  EXPECT_EQ(as_integer(Json("5")), std::nullopt);
  EXPECT_EQ(as_integer(Json(std::uint64_t{1} << 63)), std::nullopt);
  EXPECT_EQ(as_integer(Json(-7)), -7);
}

class PlannedFields : public testing::PlannerTest {};

TEST_F(PlannedFields, planners_take_every_right_value) {
  model_.embedding_dim = 896;
  const auto walk = [&](BodyOf of, testing::Planner planner, const Json& base) {
    for (const Field& field : fields()) {
      if ((field.bodies & of) == 0 || std::string_view(field.name).find('.') != std::string_view::npos) continue;
      Json body = base;
      body[field.name] = Json::parse(field.example);
      if (std::string_view(field.name) == "stream_options") body["stream"] = true;
      const std::string said = refusal(planner, body.dump());
      if (field.treatment == Treatment::refused) {
        EXPECT_EQ(said.rfind(field.name, 0), 0U) << said;
      } else {
        EXPECT_EQ(said, "") << field.name;
      }
    }
  };
  walk(kChat, plan_chat_completion, Json::parse(R"({"messages":[{"role":"user","content":"hi"}]})"));
  walk(kCompletion, plan_completion, Json::parse(R"({"prompt":"abc"})"));
  walk(kEmbedding, plan_embedding, Json::parse(R"({"input":"abc"})"));
}

}  // namespace
}  // namespace millrace::server
