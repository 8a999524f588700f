// The field table as JSON Schema.

#include <nlohmann/json.hpp>

#include "server/field_rows.h"
#include "server/field_table.h"

namespace millrace::server {
namespace {

using text::Json;

const Json kId = {{"type", "integer"}, {"minimum", 0}};

Json type_of(const Field& field) {
  switch (field.kind) {
    case Kind::boolean: return {{"type", "boolean"}};
    case Kind::integer: return {{"type", "integer"}, {"minimum", field.least}, {"maximum", field.most}};
    case Kind::number: return {{"type", "number"}, {"minimum", field.least}, {"maximum", field.most}};
    case Kind::positive: return {{"type", "number"}, {"exclusiveMinimum", 0}, {"maximum", field.most}};
    case Kind::string: return {{"type", "string"}};
    case Kind::choice: return {{"type", "string"}, {"enum", words_of(field.values)}};
    case Kind::strings: return {{"oneOf", {{{"type", "string"}}, {{"type", "array"}, {"maxItems", field.most}, {"items", {{"type", "string"}}}}}}};
    case Kind::ids: return {{"type", "array"}, {"items", kId}};
    case Kind::object: return {{"type", "object"}};
    case Kind::list: return {{"type", "array"}, {"items", Json::object()}};
    case Kind::prompt:
      return {{"oneOf", {{{"type", "string"}},
                         {{"type", "array"}, {"items", {{"type", "string"}}}},
                         {{"type", "array"}, {"items", kId}},
                         {{"type", "array"}, {"items", {{"type", "array"}, {"items", kId}}}}}}};
    case Kind::any: return Json::object();
  }
  return Json::object();
}

/// Null is as good as absent.
Json or_null(Json schema) {
  if (schema.contains("oneOf")) schema["oneOf"].push_back({{"type", "null"}});
  if (schema.contains("enum")) schema["enum"].push_back(nullptr);
  if (schema.contains("type")) schema["type"] = Json::array({schema["type"], "null"});
  return schema;
}

const char* name_of(Treatment treatment) {
  return treatment == Treatment::applied ? "applied" : treatment == Treatment::ignored ? "ignored" : "refused";
}

}  // namespace

Json body_schema(BodyOf body) {
  Json properties = Json::object();
  for (const Field& field : fields()) {
    if ((field.bodies & body) == 0) continue;
    Json one = or_null(type_of(field));
    one["description"] = field.doc;
    one["x-millrace-treatment"] = name_of(field.treatment);
    const std::string name = field.name;
    const std::size_t dot = name.find('.');
    if (dot == std::string::npos) properties[name] = std::move(one);
    else properties[name.substr(0, dot)]["properties"][name.substr(dot + 1)] = std::move(one);
  }
  return {{"type", "object"}, {"properties", std::move(properties)}};
}

}  // namespace millrace::server
