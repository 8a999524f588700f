#include "text/chat_template.h"

#include <nlohmann/json.hpp>

#include <algorithm>

#include "base/utf8.h"
#include "text/jinja/compare.h"
#include "text/jinja/globals.h"
#include "text/jinja/interpreter.h"

namespace millrace::text {
namespace {

using jinja::Raised;
using jinja::Value;

Error to_error(const Raised& raised) {
  if (raised.line == 0) return {raised.code, "chat template: " + raised.message};
  return error(raised.code, "chat template line {}: {}", raised.line, raised.message);
}

Value to_text(jinja::Workspace& ws, const std::string& bytes, Origin origin) {
  return is_valid_utf8(bytes) ? ws.text(bytes, origin) : ws.text(repair_utf8(bytes), origin);
}

Value to_value(jinja::Workspace& ws, const Json& json, Origin origin) {
  const jinja::Workspace::Nest nest(ws);
  switch (json.type()) {
    case Json::value_t::boolean: return Value(json.get<bool>());
    case Json::value_t::number_unsigned:
      if (json.get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX))
        jinja::raise("the number {} does not fit into 64 bits with a sign", json.get<std::uint64_t>());
      return Value(json.get<std::int64_t>());
    case Json::value_t::number_integer: return Value(json.get<std::int64_t>());
    case Json::value_t::number_float: return Value(json.get<double>());
    case Json::value_t::string: return to_text(ws, json.get_ref<const std::string&>(), origin);
    case Json::value_t::array: {
      std::vector<Value> items;
      items.reserve(json.size());
      for (const Json& item : json) items.push_back(to_value(ws, item, origin));
      return ws.list(std::move(items));
    }
    case Json::value_t::object: {
      jinja::Dict& dict = ws.dict();
      for (const auto& [key, item] : json.items()) {
        const Value name = to_text(ws, key, origin);
        jinja::put(ws, dict, name, to_value(ws, item, origin));
      }
      return Value(&dict);
    }
    default: return Value();
  }
}

}  // namespace

struct ChatTemplate::Impl {
  jinja::Block tree;
};

ChatTemplate::ChatTemplate(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

Result<ChatTemplate> ChatTemplate::parse(std::string source) {
  if (!is_valid_utf8(source)) return error(Code::corrupt_data, "chat template: its {} bytes are not valid UTF-8", source.size());
  try {
    return ChatTemplate(std::make_unique<Impl>(Impl{jinja::parse(source)}));
  } catch (const Raised& raised) {
    return to_error(raised);
  }
}

Result<MarkedText> ChatTemplate::render(const Json& variables, std::span<const std::string> trusted, std::int64_t now,
                                        const RenderLimits& limits) const {
  if (!variables.is_object()) return error(Code::invalid_argument, "chat template: its variables are {}, expected an object", variables.type_name());
  jinja::Workspace ws(limits, now);
  try {
    auto& builtin = ws.make<jinja::Scope>(0, nullptr);
    for (const jinja::MethodEntry& entry : jinja::globals()) builtin.set(entry.name, Value(&ws.make<jinja::Function>(0, entry.name, entry.run)));
    auto& root = ws.make<jinja::Scope>(0, &builtin);
    for (auto at = variables.begin(); at != variables.end(); ++at) {
      const bool is_trusted = std::ranges::find(trusted, at.key()) != trusted.end();
      root.variables.emplace_back(at.key(), to_value(ws, at.value(), is_trusted ? Origin::template_text : Origin::caller));
    }
    jinja::TextBuilder out(ws);
    jinja::Interpreter(ws, root).run(impl_->tree, out);
    return out.take().release();
  } catch (const Raised& raised) {
    return to_error(raised);
  }
}

}  // namespace millrace::text
