#include "server/json_text.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>

#include "base/utf8.h"

namespace millrace::server {
namespace {

void append_escaped(std::string& out, char c) {
  switch (c) {
    case '"': out += "\\\""; return;
    case '\\': out += "\\\\"; return;
    case '\n': out += "\\n"; return;
    case '\r': out += "\\r"; return;
    case '\t': out += "\\t"; return;
    case '\b': out += "\\b"; return;
    case '\f': out += "\\f"; return;
    default: fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
  }
}

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
  if (!is_valid_utf8(text)) return append_json_string(out, repair_utf8(text));
  out += '"';
  std::size_t plain = 0;  // first byte that is not in `out` yet
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (static_cast<unsigned char>(c) >= 0x20 && c != '"' && c != '\\') continue;
    out.append(text, plain, i - plain);
    append_escaped(out, c);
    plain = i + 1;
  }
  out.append(text, plain);
  out += '"';
}

std::string json_string(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

void append_json_number(std::string& out, float value) {
  if (std::isfinite(value)) fmt::format_to(std::back_inserter(out), "{}", value);
  else out += "null";
}

void append_logprob(std::string& out, float logprob) {
  if (std::isinf(logprob) && logprob < 0) out += "-9999.0";
  else append_json_number(out, logprob);
}

void append_json_bytes(std::string& out, std::string_view text) {
  out += '[';
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (i > 0) out += ',';
    out += std::to_string(static_cast<unsigned>(static_cast<unsigned char>(text[i])));
  }
  out += ']';
}

}  // namespace millrace::server
