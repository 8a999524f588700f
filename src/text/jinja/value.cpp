#include "text/jinja/value.h"

#include "text/jinja/unicode.h"

namespace millrace::text::jinja {

Str::Str(Text t, bool is_markup, std::shared_ptr<std::size_t> live)
    : text(std::move(t)), chars(count_chars(text.bytes())), markup(is_markup), account(std::move(live)) {
  if (account) *account += text.memory();
}

Str::~Str() {
  if (account) *account -= text.memory();
}

const char* type_name(const Value& value) {
  switch (value.kind()) {
    case Kind::undefined: return "Undefined";
    case Kind::none: return "NoneType";
    case Kind::boolean: return "bool";
    case Kind::integer: return "int";
    case Kind::real: return "float";
    case Kind::string: return value.is_markup() ? "Markup" : "str";
    case Kind::list: return "list";
    case Kind::tuple: return "tuple";
    case Kind::dict: return "dict";
    case Kind::view:
      switch (value.as<View>().what) {
        case View::What::keys: return "dict_keys";
        case View::What::values: return "dict_values";
        default: return "dict_items";
      }
    case Kind::range: return "range";
    case Kind::generator: return "generator";
    case Kind::name_space: return "Namespace";
    case Kind::macro: return "Macro";
    case Kind::method: return "builtin_function_or_method";
    case Kind::function: return "function";
    case Kind::loop: return "LoopContext";
    case Kind::cycler: return "Cycler";
    case Kind::joiner: return "Joiner";
  }
  return "object";
}

}  // namespace millrace::text::jinja
