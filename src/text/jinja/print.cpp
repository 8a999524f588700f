#include "text/jinja/print.h"

#include <charconv>
#include <cmath>

#include "text/jinja/compare.h"
#include "text/jinja/macro.h"
#include "text/jinja/unicode.h"

namespace millrace::text::jinja {
namespace {

constexpr Origin kOurs = Origin::caller;

std::string hex(const char* prefix, unsigned code, int digits) { return fmt::format("{}{:0{}x}", prefix, code, digits); }

void write_quoted(TextBuilder& out, Workspace& ws, const Text& text) {
  ws.spend(text.size() / 64);
  const std::string_view bytes = text.bytes();
  const char quote = bytes.find('\'') != bytes.npos && bytes.find('"') == bytes.npos ? '"' : '\'';
  const std::string_view mark(&quote, 1);
  out.add(mark, kOurs);
  std::size_t done = 0;
  for (std::size_t at = 0; at < bytes.size();) {
    const Char c = char_at(bytes, at);
    std::string escape;
    if (c.code == '\\') escape = "\\\\";
    else if (c.code == static_cast<unsigned char>(quote)) escape = std::string("\\") + quote;
    else if (c.code == '\n') escape = "\\n";
    else if (c.code == '\r') escape = "\\r";
    else if (c.code == '\t') escape = "\\t";
    else if (!is_printable(c.code)) escape = c.code < 0x100 ? hex("\\x", c.code, 2) : c.code < 0x10000 ? hex("\\u", c.code, 4) : hex("\\U", c.code, 8);
    if (!escape.empty()) {
      out.add(text, done, at);
      out.add(escape, kOurs);
      done = c.end;
    }
    at = c.end;
  }
  out.add(text, done, bytes.size());
  out.add(mark, kOurs);
}

void write_items(TextBuilder& out, Workspace& ws, const Value& over) {
  Items items(ws, over);
  Value item;
  for (bool first = true; items.next(item); first = false) {
    if (!first) out.add(", ", kOurs);
    write_repr(out, ws, item);
  }
}

void write_dict(TextBuilder& out, Workspace& ws, const Dict& dict) {
  out.add("{", kOurs);
  ws.spend(dict.items.size());
  for (std::size_t i = 0; i < dict.items.size(); ++i) {
    if (i > 0) out.add(", ", kOurs);
    write_repr(out, ws, dict.items[i].first);
    out.add(": ", kOurs);
    write_repr(out, ws, dict.items[i].second);
  }
  out.add("}", kOurs);
}

}  // namespace

std::string print_real(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific).ptr;
  std::string digits(buffer, end);
  const std::size_t e = digits.find('e');
  const int power = std::stoi(digits.substr(e + 1));
  if (power < -4 || power >= 16) {  // 1e+16, 1.5e-07: at least two digits of exponent
    return digits.substr(0, e) + fmt::format("e{}{:02}", power < 0 ? '-' : '+', std::abs(power));
  }
  const auto fixed = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed).ptr;
  std::string out(buffer, fixed);
  if (out.find('.') == out.npos) out += ".0";
  return out;
}

void write_str(TextBuilder& out, Workspace& ws, const Value& value) {
  if (value.is_string()) out.add(value.text());
  else if (!value.is_undefined()) write_repr(out, ws, value);
}

void write_repr(TextBuilder& out, Workspace& ws, const Value& value) {
  Workspace::Nest nest(ws);
  switch (value.kind()) {
    case Kind::undefined: return out.add("Undefined", kOurs);
    case Kind::none: return out.add("None", kOurs);
    case Kind::boolean: return out.add(value.boolean() ? "True" : "False", kOurs);
    case Kind::integer: return out.add(std::to_string(value.integer()), kOurs);
    case Kind::real: return out.add(print_real(value.number()), kOurs);
    case Kind::string:
      if (value.is_markup()) out.add("Markup(", kOurs);
      write_quoted(out, ws, value.text());
      if (value.is_markup()) out.add(")", kOurs);
      return;
    case Kind::list:
      out.add("[", kOurs);
      write_items(out, ws, value);
      return out.add("]", kOurs);
    case Kind::tuple:
      out.add("(", kOurs);
      write_items(out, ws, value);
      return out.add(length_of(value) == 1 ? ",)" : ")", kOurs);
    case Kind::dict: return write_dict(out, ws, value.as<Dict>());
    case Kind::view:
      out.add(std::string(type_name(value)) + "([", kOurs);
      write_items(out, ws, value);
      return out.add("])", kOurs);
    case Kind::range: {
      const Range& range = value.as<Range>();
      return out.add(range.step == 1 ? fmt::format("range({}, {})", range.start, range.stop)
                                     : fmt::format("range({}, {}, {})", range.start, range.stop, range.step), kOurs);
    }
    case Kind::name_space:
      out.add("<Namespace ", kOurs);
      write_dict(out, ws, *value.as<NameSpace>().members);
      return out.add(">", kOurs);
    case Kind::macro: return out.add(describe_macro(value.as<Macro>()), kOurs);
    default: return out.add(fmt::format("<{} object>", type_name(value)), kOurs);  // Python prints an address
  }
}

Value to_text(Workspace& ws, const Value& value) {
  if (value.is_string()) return value;
  TextBuilder out(ws);
  write_str(out, ws, value);
  return out.value();
}

}  // namespace millrace::text::jinja
