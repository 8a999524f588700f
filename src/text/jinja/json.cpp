#include <algorithm>
#include <cmath>

#include "text/jinja/compare.h"
#include "text/jinja/print.h"
#include "text/jinja/unicode.h"

namespace millrace::text::jinja {
namespace {

constexpr Origin kOurs = Origin::caller;

void write_string(TextBuilder& out, Workspace& ws, const Text& text, bool ensure_ascii) {
  ws.spend(text.size() / 64);
  const std::string_view bytes = text.bytes();
  out.add("\"", kOurs);
  std::size_t done = 0;
  for (std::size_t at = 0; at < bytes.size();) {
    const Char c = char_at(bytes, at);
    std::string escape;
    constexpr std::string_view kFrom = "\"\\\b\f\n\r\t", kTo = "\"\\bfnrt";
    if (const auto simple = c.code < 0x80 ? kFrom.find(static_cast<char>(c.code)) : kFrom.npos; simple != kFrom.npos)
      escape = std::string("\\") + kTo[simple];
    else if (c.code < 0x20 || (ensure_ascii && c.code > 0x7E && c.code < 0x10000))
      escape = fmt::format("\\u{:04x}", static_cast<unsigned>(c.code));
    else if (ensure_ascii && c.code >= 0x10000)
      escape = fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + ((c.code - 0x10000) >> 10), 0xDC00 + ((c.code - 0x10000) & 0x3FF));
    if (!escape.empty()) {
      out.add(text, done, at);
      out.add(escape, kOurs);
      done = c.end;
    }
    at = c.end;
  }
  out.add(text, done, bytes.size());
  out.add("\"", kOurs);
}

std::string scalar(const Value& value) {
  if (value.is_none()) return "null";
  if (value.is(Kind::boolean)) return value.boolean() ? "true" : "false";
  if (value.is(Kind::integer)) return std::to_string(value.integer());
  if (std::isnan(value.number())) return "NaN";
  if (std::isinf(value.number())) return value.number() < 0 ? "-Infinity" : "Infinity";
  return print_real(value.number());
}

void break_line(TextBuilder& out, const JsonStyle& style, int level) {
  if (!style.indent) return;
  out.add("\n", kOurs);
  out.add_repeated(*style.indent, static_cast<std::size_t>(level));
}

void write_object(TextBuilder& out, Workspace& ws, const Dict& dict, const JsonStyle& style, int level) {
  if (dict.items.empty()) return out.add("{}", kOurs);
  auto items = dict.items;
  ws.spend(items.size());
  if (style.sort_keys) std::stable_sort(items.begin(), items.end(), [&](const auto& a, const auto& b) { return less(ws, a.first, b.first); });
  out.add("{", kOurs);
  bool first = true;
  for (const auto& [key, value] : items) {
    if (!first) out.add(style.item_separator);
    first = false;
    break_line(out, style, level + 1);
    if (key.is_string()) write_string(out, ws, key.text(), style.ensure_ascii);
    else if (key.is_none() || key.is_number()) out.add("\"" + scalar(key) + "\"", kOurs);
    else raise("keys must be str, int, float, bool or None, not {}", type_name(key));
    out.add(style.key_separator);
    write_json(out, ws, value, style, level + 1);
  }
  break_line(out, style, level);
  out.add("}", kOurs);
}

}  // namespace

void write_json(TextBuilder& out, Workspace& ws, const Value& value, const JsonStyle& style, int level) {
  Workspace::Nest nest(ws);
  if (value.is_none() || value.is_number()) return out.add(scalar(value), kOurs);
  if (value.is_string()) return write_string(out, ws, value.text(), style.ensure_ascii);
  if (value.is(Kind::dict)) return write_object(out, ws, value.as<Dict>(), style, level);
  if (!value.is_sequence()) raise("Object of type {} is not JSON serializable", type_name(value));
  const auto& items = value.as<Sequence>().items;
  if (items.empty()) return out.add("[]", kOurs);
  ws.spend(items.size());
  out.add("[", kOurs);
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out.add(style.item_separator);
    break_line(out, style, level + 1);
    write_json(out, ws, items[i], style, level + 1);
  }
  break_line(out, style, level);
  out.add("]", kOurs);
}

}  // namespace millrace::text::jinja
