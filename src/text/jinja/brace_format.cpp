// str.format: replacement fields in braces, with attribute and item access through the sandbox.

#include <algorithm>
#include <charconv>

#include "text/jinja/access.h"
#include "text/jinja/arithmetic.h"
#include "text/jinja/compare.h"
#include "text/jinja/format.h"
#include "text/jinja/print.h"
#include "text/jinja/unicode.h"

namespace millrace::text::jinja {
namespace {

bool all_digits(std::string_view text) {
  return !text.empty() && text.size() < 10 && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

std::int64_t to_number(std::string_view digits) {
  std::int64_t n = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), n);
  return n;
}

class BraceFormat {
 public:
  BraceFormat(Workspace& ws, const Value& format, const Args& args) : ws_(ws), markup_(format.is_markup()), args_(args) {}

  /// `level`: a format spec may hold fields itself, whose specs may not.
  Text run(const Text& format, int level) {
    if (level > 1) raise("Max string recursion exceeded");
    TextBuilder out(ws_);
    const std::string_view bytes = format.bytes();
    std::size_t at = 0;
    while (at < bytes.size()) {
      const std::size_t brace = bytes.find_first_of("{}", at);
      if (brace == bytes.npos) break;
      out.add(format, at, brace);
      if (brace + 1 < bytes.size() && bytes[brace + 1] == bytes[brace]) {
        out.add(format, brace, brace + 1);
        at = brace + 2;
        continue;
      }
      if (bytes[brace] == '}') raise("Single '}}' encountered in format string");
      const std::size_t close = closing(bytes, brace);
      field(out, format.slice(brace + 1, close), level);
      at = close + 1;
    }
    out.add(format, std::min(at, bytes.size()), bytes.size());
    return out.take();
  }

 private:
  static std::size_t closing(std::string_view bytes, std::size_t open) {
    int depth = 0;
    for (std::size_t i = open; i < bytes.size(); ++i) {
      if (bytes[i] == '{') ++depth;
      if (bytes[i] == '}' && --depth == 0) return i;
    }
    raise("expected '}}' before end of string");
  }

  void field(TextBuilder& out, const Text& inside, int level) {
    const std::string_view bytes = inside.bytes();
    std::size_t name_end = 0, bracket = 0;
    for (; name_end < bytes.size(); ++name_end) {
      const char c = bytes[name_end];
      if (c == '[') bracket = 1;
      if (c == ']') bracket = 0;
      if (bracket == 0 && (c == ':' || c == '!')) break;
    }
    std::size_t at = name_end;
    char conversion = 0;
    if (at < bytes.size() && bytes[at] == '!') {
      if (at + 1 >= bytes.size()) raise("end of string while looking for conversion specifier");
      conversion = bytes[at + 1];
      at += 2;
      if (at < bytes.size() && bytes[at] != ':') raise("expected ':' after conversion specifier");
    }
    Value value = lookup(bytes.substr(0, name_end));
    if (conversion == 'r' || conversion == 'a') {
      TextBuilder repr(ws_);
      write_repr(repr, ws_, value);
      value = repr.value();
    } else if (conversion == 's') {
      value = to_text(ws_, value);
    } else if (conversion != 0) {
      raise("Unknown conversion specifier {}", conversion);
    }
    const Text spec = at < bytes.size() ? run(inside.slice(at + 1, bytes.size()), level + 1) : Text();
    if (markup_) value = escaped(ws_, value);
    if (spec.empty()) return write_str(out, ws_, value);
    write_formatted(out, value, parse(spec));
  }

  /// `0.name[key]` or `.name` or nothing, which means the next argument.
  Value lookup(std::string_view path) {
    const std::size_t first_end = std::min(path.find_first_of(".["), path.size());
    const std::string_view first = path.substr(0, first_end);
    Value value;
    if (first.empty() || all_digits(first)) {
      const auto index = first.empty() ? automatic_++ : static_cast<std::size_t>(to_number(first));
      if (index >= args_.positional.size()) raise("Replacement index {} out of range for positional args tuple", index);
      value = args_.positional[index];
    } else {
      const auto named = std::ranges::find_if(args_.named, [&](const auto& arg) { return arg.first.bytes() == first; });
      if (named == args_.named.end()) raise("KeyError: '{}'", first);
      value = named->second;
    }
    for (std::size_t at = first_end; at < path.size();) {
      ws_.spend();
      if (path[at] == '.') {
        const std::size_t end = std::min(path.find_first_of(".[", at + 1), path.size());
        if (end == at + 1) raise("Empty attribute in format string");
        value = attribute(ws_, value, path.substr(at + 1, end - at - 1));
        at = end;
      } else if (path[at] == '[') {
        const std::size_t end = path.find(']', at);
        if (end == path.npos) raise("Missing ']' in format string");
        const std::string_view key = path.substr(at + 1, end - at - 1);
        if (key.empty()) raise("Empty attribute in format string");
        value = item(ws_, value, all_digits(key) ? Value(to_number(key)) : ws_.text(key, Origin::caller));
        at = end + 1;
      } else {
        raise("Only '.' or '[' may follow ']' in format field specifier");
      }
    }
    return value;
  }

  FormatSpec parse(const Text& text) {
    FormatSpec spec;
    const std::string_view bytes = text.bytes();
    const auto is_align = [&](std::size_t i) { return i < bytes.size() && std::string_view("<>=^").find(bytes[i]) != std::string_view::npos; };
    std::size_t at = 0;
    const std::size_t second = char_at(bytes, 0).end;
    if (is_align(second)) {
      spec.fill = text.slice(0, second);
      spec.align = bytes[second];
      at = second + 1;
    } else if (is_align(0)) {
      spec.align = bytes[at++];
    }
    const auto here = [&](std::string_view any) { return at < bytes.size() && any.find(bytes[at]) != std::string_view::npos; };
    if (here("+- ")) spec.sign = bytes[at++];
    if (here("#")) spec.alternate = true, ++at;
    if (here("0")) {
      if (spec.align == 0) spec.align = '=', spec.fill = Text("0", Origin::caller);
      ++at;
    }
    const auto number = [&] {
      std::int64_t n = 0;
      for (; here("0123456789"); ++at)
        if ((n = n * 10 + (bytes[at] - '0')) > INT32_MAX) raise("Too many decimal digits in format string");
      return n;
    };
    spec.width = number();
    if (here(",_")) spec.grouping = bytes[at++];
    if (here(".")) {
      ++at;
      if (!here("0123456789")) raise("Format specifier missing precision");
      spec.precision = number();
    }
    if (at < bytes.size()) spec.type = bytes[at++];
    if (at < bytes.size()) raise("Invalid format specifier");
    return spec;
  }

  Workspace& ws_;
  bool markup_;
  const Args& args_;
  std::size_t automatic_ = 0;
};

}  // namespace

Value brace_format(Workspace& ws, const Value& format, const Args& args) {
  return ws.text(BraceFormat(ws, format, args).run(format.text(), 0), format.is_markup());
}

}  // namespace millrace::text::jinja
