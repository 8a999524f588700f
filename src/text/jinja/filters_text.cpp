// Filters from text to text.

#include <algorithm>

#include "text/jinja/arithmetic.h"
#include "text/jinja/filters.h"
#include "text/jinja/params.h"
#include "text/jinja/print.h"
#include "text/jinja/str_tools.h"
#include "text/jinja/unicode.h"

namespace millrace::text::jinja {
namespace {

/// str(value), which unlike soft_str loses the mark of Markup.
Value plain_text(Workspace& ws, const Value& value) {
  return value.is_markup() ? ws.text(value.text()) : to_text(ws, value);
}

template <Case to>
Value change_case(Workspace& ws, const Value& value, Args& args) {
  const Params p("change of case", args, {});
  return in_case(ws, to_text(ws, value), to);
}

/// Every word's first letter large: words end at white space, - ( { [ <.
Value title(Workspace& ws, const Value& value, Args& args) {
  const Params p("title", args, {});
  const Value string = to_text(ws, value);
  const std::string_view bytes = string.bytes();
  ws.spend(bytes.size() / 16);
  TextBuilder out(ws);
  bool first = true;
  for (std::size_t at = 0; at < bytes.size();) {
    const Char c = char_at(bytes, at);
    out.add(first ? upper_of(c.code) : lower_of(c.code), string.text().origin_at(at));
    first = is_space(c.code) || (c.code < 0x80 && std::string_view("-({[<").find(static_cast<char>(c.code)) != std::string_view::npos);
    at = c.end;
  }
  return out.value(string.is_markup());
}

Value center(Workspace& ws, const Value& value, Args& args) {
  const Params p("center", args, {"width"});
  return centered(ws, to_text(ws, value), p.integer(0, 80), Text(" ", Origin::caller));
}

Value escape(Workspace& ws, const Value& value, Args& args) {
  const Params p("escape", args, {});
  return escaped(ws, value);
}

Value force_escape(Workspace& ws, const Value& value, Args& args) {
  const Params p("forceescape", args, {});
  return escaped(ws, plain_text(ws, value));
}

Value safe(Workspace& ws, const Value& value, Args& args) {
  const Params p("safe", args, {});
  return ws.text(to_text(ws, value).text(), true);
}

Value string(Workspace& ws, const Value& value, Args& args) {
  const Params p("string", args, {});
  return to_text(ws, value);
}

Value format(Workspace& ws, const Value& value, Args& args) {
  if (!args.positional.empty() && !args.named.empty()) raise("can't handle positional and keyword arguments at the same time");
  if (args.named.empty()) return percent_format(ws, to_text(ws, value), ws.tuple(args.positional));
  Dict& named = ws.dict();
  for (const auto& [name, given] : args.named) put(ws, named, name, given);
  return percent_format(ws, to_text(ws, value), Value(&named));
}

Value indent(Workspace& ws, const Value& value, Args& args) {
  const Params p("indent", args, {"width", "first", "blank"});
  defined(value);
  if (!value.is_string()) raise("unsupported operand type(s) for +=: '{}' and 'str'", type_name(value));
  TextBuilder one(ws);
  if (p.has(0) && p[0].is_string()) one.add(p[0].text());
  else one.add_repeated(Text(" ", Origin::caller), static_cast<std::size_t>(std::max<std::int64_t>(p.integer(0, 4), 0)));
  const Text indention = one.take();
  TextBuilder with_end(ws);  // so that an empty last line counts
  with_end.add(value.text());
  with_end.add("\n", Origin::caller);
  const auto lines = lines_of(ws, with_end.value(), false);
  TextBuilder out(ws);
  if (p.flag(1, false)) out.add(indention);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out.add("\n", Origin::caller);
    if (i > 0 && (p.flag(2, false) || !lines[i].text().empty())) out.add(indention);
    out.add(lines[i].text());
  }
  return out.value(value.is_markup());
}

Value replace(Workspace& ws, const Value& value, Args& args) {
  const Params p("replace", args, {"old", "new", "count"}, 2);
  return replaced(ws, plain_text(ws, value), plain_text(ws, p[0]), plain_text(ws, p[1]), p.has_some(2) ? p.integer(2, -1) : -1);
}

Value trim(Workspace& ws, const Value& value, Args& args) {
  const Params p("trim", args, {"chars"});
  return stripped(ws, to_text(ws, value), p.has_some(0) ? &p.string(0) : nullptr);
}

Value truncate(Workspace& ws, const Value& value, Args& args) {
  const Params p("truncate", args, {"length", "killwords", "end", "leeway"});
  const std::int64_t length = p.integer(0, 255), leeway = p.has_some(3) ? p.integer(3, 5) : 5;
  const Value end = p.has(2) ? p.string(2) : ws.text("...", Origin::caller);
  const auto end_chars = static_cast<std::int64_t>(end.str()->chars);
  if (length < end_chars) raise("expected length >= {}, got {}", end_chars, length);
  if (leeway < 0) raise("expected leeway >= 0, got {}", leeway);
  if (length_of(value) - leeway <= length) return value;
  if (!defined(value).is_string()) raise("truncate() needs a str, not {}", type_name(value));
  ws.spend(value.bytes().size() / 64);
  std::size_t cut = byte_of_char(value.bytes(), static_cast<std::size_t>(length - end_chars));
  if (!p.flag(1, false)) {
    const std::size_t blank = value.bytes().substr(0, cut).rfind(' ');
    if (blank != std::string_view::npos) cut = blank;
  }
  TextBuilder out(ws);
  out.add(value.text(), 0, cut);
  out.add(end.text());
  return out.value(value.is_markup());
}

Value wordcount(Workspace& ws, const Value& value, Args& args) {
  const Params p("wordcount", args, {});
  const Value string = to_text(ws, value);
  ws.spend(string.bytes().size() / 64);
  std::int64_t words = 0;
  bool inside = false;
  for (std::size_t at = 0; at < string.bytes().size(); at = char_at(string.bytes(), at).end) {
    const bool word = is_word(char_at(string.bytes(), at).code);
    words += word && !inside ? 1 : 0;
    inside = word;
  }
  return Value(words);
}

void write_url(TextBuilder& out, Workspace& ws, const Value& value, bool query) {
  const Value string = to_text(ws, value);
  ws.spend(string.bytes().size() / 16);
  for (std::size_t at = 0; at < string.bytes().size(); ++at) {
    const auto c = static_cast<unsigned char>(string.bytes()[at]);
    const bool letter = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (letter || std::string_view("_.-~").find(static_cast<char>(c)) != std::string_view::npos || (c == '/' && !query)) out.add(string.text(), at, at + 1);
    else if (c == ' ' && query) out.add("+", Origin::caller);
    else out.add(fmt::format("%{:02X}", c), Origin::caller);
  }
}

Value urlencode(Workspace& ws, const Value& value, Args& args) {
  const Params p("urlencode", args, {});
  TextBuilder out(ws);
  if (value.is_string() || !is_iterable(value)) {
    write_url(out, ws, value, false);
    return out.value();
  }
  const Value pairs = value.is(Kind::dict) ? Value(&ws.make<View>(0, value.as<Dict>(), View::What::items)) : value;
  for (const Value& entry : items_of(ws, pairs)) {
    const auto pair = items_of(ws, entry);
    if (pair.size() != 2) raise("urlencode() needs pairs, got {} values", pair.size());
    if (out.size() > 0) out.add("&", Origin::caller);
    write_url(out, ws, pair[0], true);
    out.add("=", Origin::caller);
    write_url(out, ws, pair[1], true);
  }
  return out.value();
}

constexpr MethodEntry kFilters[] = {
    {"capitalize", change_case<Case::capitalized>}, {"center", center}, {"e", escape}, {"escape", escape},
    {"forceescape", force_escape}, {"format", format}, {"indent", indent}, {"lower", change_case<Case::lower>},
    {"replace", replace}, {"safe", safe}, {"string", string}, {"striptags", nullptr}, {"title", title}, {"trim", trim},
    {"truncate", truncate}, {"upper", change_case<Case::upper>}, {"urlencode", urlencode}, {"urlize", nullptr},
    {"wordcount", wordcount}, {"wordwrap", nullptr}, {"xmlattr", nullptr}};

}  // namespace

std::span<const MethodEntry> text_filters() { return kFilters; }

}  // namespace millrace::text::jinja
