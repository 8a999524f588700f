// Methods of str that cut, join and pad. Pieces keep the origin of every byte; a Markup gives Markup.

#include <algorithm>

#include "text/jinja/arithmetic.h"
#include "text/jinja/format.h"
#include "text/jinja/methods.h"
#include "text/jinja/params.h"
#include "text/jinja/print.h"
#include "text/jinja/str_tools.h"
#include "text/jinja/unicode.h"

namespace millrace::text::jinja {
namespace {

Value piece(Workspace& ws, const Value& self, std::size_t begin, std::size_t end) {
  return ws.text(self.text().slice(begin, std::max(begin, end)), self.is_markup());
}

/// string_view::rfind, which may compare all of `part` at every place: paid for as it goes.
std::size_t rfind_bytes(Workspace& ws, std::string_view in, std::string_view part) {
  if (part.size() > in.size()) return in.npos;
  for (std::size_t at = in.size() - part.size() + 1; at-- > 0;) {
    if (at % 64 == 0) ws.spend(1 + part.size() / 16);
    if (in.substr(at, part.size()) == part) return at;
  }
  return in.npos;
}

enum Side : unsigned char { kLeft = 1, kRight = 2, kBoth = 3 };

template <Side side>
Value strip(Workspace& ws, const Value& self, Args& args) {
  const Params p("strip", args, {""});
  return stripped(ws, self, p.has_some(0) ? &p.string(0) : nullptr, (side & kLeft) != 0, (side & kRight) != 0);
}

Value split(Workspace& ws, const Value& self, Args& args) {
  const Params p("split", args, {"sep", "maxsplit"});
  const std::string_view bytes = self.bytes();
  ws.spend(bytes.size() / 64);
  std::int64_t left = p.integer(1, -1);
  std::vector<Value> out;
  std::size_t at = 0;
  if (p.has_some(0)) {
    const std::string_view separator = p.string(0).bytes();
    if (separator.empty()) raise("empty separator");
    for (std::size_t found; left != 0 && (found = find_bytes(bytes, separator, at)) != bytes.npos; --left) {
      out.push_back(piece(ws, self, at, found));
      at = found + separator.size();
    }
    out.push_back(piece(ws, self, at, bytes.size()));
    return ws.list(std::move(out));
  }
  const auto skip = [&](bool space) {
    while (at < bytes.size() && is_space(char_at(bytes, at).code) == space) at = char_at(bytes, at).end;
  };
  for (skip(true); at < bytes.size(); skip(true), --left) {
    const std::size_t begin = at;
    if (left == 0) {
      out.push_back(piece(ws, self, begin, bytes.size()));
      break;
    }
    skip(false);
    out.push_back(piece(ws, self, begin, at));
  }
  return ws.list(std::move(out));
}

Value rsplit(Workspace& ws, const Value& self, Args& args) {
  const Params p("rsplit", args, {"sep", "maxsplit"});
  const std::string_view bytes = self.bytes();
  ws.spend(bytes.size() / 64);
  std::int64_t left = p.integer(1, -1);
  std::vector<Value> out;
  std::size_t end = bytes.size();
  if (p.has_some(0)) {
    const std::string_view separator = p.string(0).bytes();
    if (separator.empty()) raise("empty separator");
    for (; left != 0 && end >= separator.size(); --left) {
      const std::size_t found = rfind_bytes(ws, bytes.substr(0, end), separator);
      if (found == bytes.npos) break;
      out.push_back(piece(ws, self, found + separator.size(), end));
      end = found;
    }
    out.push_back(piece(ws, self, 0, end));
  } else {
    const auto skip = [&](bool space) {
      while (end > 0 && is_space(char_at(bytes, char_before(bytes, end)).code) == space) end = char_before(bytes, end);
    };
    for (skip(true); end > 0; skip(true), --left) {
      const std::size_t stop = end;
      if (left == 0) {
        out.push_back(piece(ws, self, 0, stop));
        break;
      }
      skip(false);
      out.push_back(piece(ws, self, end, stop));
    }
  }
  std::ranges::reverse(out);
  return ws.list(std::move(out));
}

Value splitlines(Workspace& ws, const Value& self, Args& args) {
  const Params p("splitlines", args, {"keepends"});
  return ws.list(lines_of(ws, self, p.flag(0, false)));
}

Value replace(Workspace& ws, const Value& self, Args& args) {
  const Params p("replace", args, {"", "", ""}, 2);
  const Value with = self.is_markup() ? escaped(ws, p.string(1)) : p.string(1);
  return replaced(ws, self, p.string(0), with, p.integer(2, -1));
}

template <bool from_right>
Value partition(Workspace& ws, const Value& self, Args& args) {
  const Params p("partition", args, {""}, 1);
  const std::string_view separator = p.string(0).bytes(), bytes = self.bytes();
  if (separator.empty()) raise("empty separator");
  const std::size_t at = from_right ? rfind_bytes(ws, bytes, separator) : find_bytes(bytes, separator);
  const Value none = ws.text(Text(), self.is_markup());
  if (at == bytes.npos) return ws.tuple(from_right ? std::vector{none, none, self} : std::vector{self, none, none});
  const std::size_t end = at + separator.size();
  return ws.tuple({piece(ws, self, 0, at), piece(ws, self, at, end), piece(ws, self, end, bytes.size())});
}

/// The byte range of [start:end] given as arguments `first` and `first + 1`; begin > end when start lies past the end.
struct Window { std::size_t begin, end; };

Window window(Workspace& ws, const Value& self, const Params& p, std::size_t first) {
  ws.spend(1 + self.bytes().size() / 256);
  const auto n = static_cast<std::int64_t>(self.str()->chars);
  const auto place = [&](std::size_t i, std::int64_t otherwise) {
    const std::int64_t at = p.has_some(i) ? p.integer(i, 0) : otherwise;
    return at < 0 ? std::max<std::int64_t>(at + n, 0) : at;
  };
  const std::int64_t begin = place(first, 0), end = std::min(place(first + 1, n), n);
  if (begin > n || begin > end) return {1, 0};
  return {byte_of_char(self.bytes(), static_cast<std::size_t>(begin)), byte_of_char(self.bytes(), static_cast<std::size_t>(end))};
}

template <bool at_end>
Value starts_or_ends(Workspace& ws, const Value& self, Args& args) {
  const char* name = at_end ? "endswith" : "startswith";
  const Params p(name, args, {"", "", ""}, 1);
  const Window w = window(ws, self, p, 1);
  const auto matches = [&](const Value& part) {
    if (!part.is_string()) raise("{} first arg must be str or a tuple of str, not {}", name, type_name(part));
    if (w.begin > w.end) return false;
    const std::string_view in = self.bytes().substr(w.begin, w.end - w.begin);
    return at_end ? in.ends_with(part.bytes()) : in.starts_with(part.bytes());
  };
  if (!p[0].is(Kind::tuple)) return Value(matches(p[0]));
  ws.spend(p[0].as<Sequence>().items.size());
  return Value(std::ranges::any_of(p[0].as<Sequence>().items, matches));
}

template <bool from_right, bool must>
Value find_part(Workspace& ws, const Value& self, Args& args) {
  const Params p("find", args, {"", "", ""}, 1);
  const std::string_view part = p.string(0).bytes();
  const Window w = window(ws, self, p, 1);
  if (w.begin <= w.end) {
    const std::string_view in = self.bytes().substr(w.begin, w.end - w.begin);
    const std::size_t at = from_right ? rfind_bytes(ws, in, part) : find_bytes(in, part);
    if (at != in.npos) return Value(static_cast<std::int64_t>(count_chars(self.bytes().substr(0, w.begin + at))));
  }
  if (must) raise("substring not found");
  return Value(std::int64_t{-1});
}

Value count(Workspace& ws, const Value& self, Args& args) {
  const Params p("count", args, {"", "", ""}, 1);
  const std::string_view part = p.string(0).bytes();
  const Window w = window(ws, self, p, 1);
  ws.spend(1 + self.bytes().size() / 64);
  if (w.begin > w.end) return Value(std::int64_t{0});
  const std::string_view in = self.bytes().substr(w.begin, w.end - w.begin);
  if (part.empty()) return Value(static_cast<std::int64_t>(count_chars(in)) + 1);
  std::int64_t n = 0;
  for (std::size_t at = find_bytes(in, part); at != in.npos; at = find_bytes(in, part, at + part.size())) ++n;
  return Value(n);
}

Value join(Workspace& ws, const Value& self, Args& args) {
  const Params p("join", args, {""}, 1);
  TextBuilder out(ws);
  Items items(ws, p[0]);
  Value item;
  for (std::size_t i = 0; items.next(item); ++i) {
    if (i > 0) out.add(self.text());
    if (self.is_markup()) item = escaped(ws, item);
    if (!item.is_string()) raise("sequence item {}: expected str instance, {} found", i, type_name(item));
    out.add(item.text());
  }
  return out.value(self.is_markup());
}

template <char align>
Value justify(Workspace& ws, const Value& self, Args& args) {
  const Params p("justify", args, {"", ""}, 1);
  FormatSpec spec;
  spec.width = std::max<std::int64_t>(p.integer(0, 0), 0);
  if (p.has(1)) {
    if (p.string(1).str()->chars != 1) raise("The fill character must be exactly one character long");
    spec.fill = p.string(1).text();
  }
  return align == '^' ? centered(ws, self, spec.width, spec.fill) : padded(ws, self, spec, align);
}

Value zfill(Workspace& ws, const Value& self, Args& args) {
  const Params p("zfill", args, {""}, 1);
  const std::string_view bytes = self.bytes();
  const std::size_t sign = !bytes.empty() && (bytes[0] == '+' || bytes[0] == '-') ? 1 : 0;
  const std::int64_t missing = std::max<std::int64_t>(p.integer(0, 0), 0) - static_cast<std::int64_t>(self.str()->chars);
  TextBuilder out(ws);
  out.add(self.text(), 0, sign);
  out.add_repeated(Text("0", Origin::caller), missing > 0 ? static_cast<std::size_t>(missing) : 0);
  out.add(self.text(), sign, bytes.size());
  return out.value(self.is_markup());
}

template <bool prefix>
Value remove(Workspace& ws, const Value& self, Args& args) {
  const Params p("remove", args, {""}, 1);
  const std::string_view part = p.string(0).bytes(), bytes = self.bytes();
  if (prefix) return bytes.starts_with(part) ? piece(ws, self, part.size(), bytes.size()) : self;
  return bytes.ends_with(part) ? piece(ws, self, 0, bytes.size() - part.size()) : self;
}

Value expandtabs(Workspace& ws, const Value& self, Args& args) {
  const Params p("expandtabs", args, {"tabsize"});
  const std::int64_t size = p.integer(0, 8);
  const std::string_view bytes = self.bytes();
  ws.spend(bytes.size() / 16);
  TextBuilder out(ws);
  std::int64_t column = 0;
  for (std::size_t at = 0; at < bytes.size();) {
    const Char c = char_at(bytes, at);
    if (c.code == '\t') {
      const std::int64_t blanks = size > 0 ? size - column % size : 0;
      out.add_repeated(Text(" ", self.text().origin_at(at)), static_cast<std::size_t>(blanks));
      column += blanks;
    } else {
      out.add(self.text(), at, c.end);
      column = c.code == '\n' || c.code == '\r' ? 0 : column + 1;
    }
    at = c.end;
  }
  return out.value(self.is_markup());
}

Value format(Workspace& ws, const Value& self, Args& args) { return brace_format(ws, self, args); }

Value format_map(Workspace& ws, const Value& self, Args& args) {
  const Params p("format_map", args, {""}, 1);
  if (!p[0].is(Kind::dict)) raise("format_map() needs a mapping, not {}", type_name(p[0]));
  Args named;
  for (const auto& [key, value] : p[0].as<Dict>().items)
    if (key.is_string()) named.named.emplace_back(key, value);
  return brace_format(ws, self, named);
}

template <Case to>
Value change_case(Workspace& ws, const Value& self, Args& args) {
  const Params p("change of case", args, {});
  return in_case(ws, self, to);
}

constexpr MethodEntry kMethods[] = {
    {"capitalize", change_case<Case::capitalized>}, {"casefold", change_case<Case::folded>}, {"center", justify<'^'>},
    {"count", count}, {"encode", nullptr}, {"endswith", starts_or_ends<true>}, {"expandtabs", expandtabs},
    {"find", find_part<false, false>}, {"format", format}, {"format_map", format_map}, {"index", find_part<false, true>},
    {"join", join}, {"ljust", justify<'<'>}, {"lower", change_case<Case::lower>}, {"lstrip", strip<kLeft>},
    {"maketrans", nullptr}, {"partition", partition<false>}, {"removeprefix", remove<true>},
    {"removesuffix", remove<false>}, {"replace", replace}, {"rfind", find_part<true, false>},
    {"rindex", find_part<true, true>}, {"rjust", justify<'>'>}, {"rpartition", partition<true>}, {"rsplit", rsplit},
    {"rstrip", strip<kRight>}, {"split", split}, {"splitlines", splitlines}, {"startswith", starts_or_ends<false>},
    {"strip", strip<kBoth>}, {"swapcase", change_case<Case::swapped>}, {"title", change_case<Case::titled>},
    {"translate", nullptr}, {"upper", change_case<Case::upper>}, {"zfill", zfill}};

}  // namespace

std::span<const MethodEntry> str_methods() { return kMethods; }

}  // namespace millrace::text::jinja
