#include "server/net/request_target.h"

#include "base/utf8.h"

namespace millrace::server::net {
namespace {

enum class Plus { is_plus, is_space };

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

Result<std::string> decode(std::string_view text, Plus plus, const char* what) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%') {
      const int high = i + 2 < text.size() ? hex_digit(text[i + 1]) : -1;
      const int low = i + 2 < text.size() ? hex_digit(text[i + 2]) : -1;
      if (high < 0 || low < 0) return error(Code::invalid_argument, "the {} has a '%' without two hexadecimal digits", what);
      out.push_back(static_cast<char>(high * 16 + low));
      i += 2;
    } else {
      out.push_back(text[i] == '+' && plus == Plus::is_space ? ' ' : text[i]);
    }
  }
  if (out.find('\0') != out.npos) return error(Code::invalid_argument, "the {} has a zero byte", what);
  if (!is_valid_utf8(out)) return error(Code::invalid_argument, "the {} is not valid UTF-8", what);
  return out;
}

/// "http://host:1/path" without what a request to a proxy has in front.
std::string_view origin_form(std::string_view target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!target.starts_with(scheme)) continue;
    const auto path = target.find_first_of("/?", scheme.size());
    return path == target.npos ? "/" : target.substr(path);
  }
  return target;
}

}  // namespace

Result<void> parse_target(std::string_view target, HttpRequest& request) {
  if (target == "*" && request.method == "OPTIONS") {
    request.path = "*";
    return {};
  }
  target = origin_form(target);
  const auto mark = target.find('?');
  const std::string_view path = target.substr(0, mark);
  if (!path.starts_with('/') && !(path.empty() && mark == 0))
    return error(Code::invalid_argument, "the target of the request is no path that begins with '/'");
  if (target.find('#') != target.npos) return error(Code::invalid_argument, "the target of the request has a '#'");
  MILLRACE_TRY(decoded, decode(path.empty() ? "/" : path, Plus::is_plus, "path"));
  request.path = std::move(decoded);

  std::string_view rest = mark == target.npos ? "" : target.substr(mark + 1);
  while (!rest.empty()) {
    const auto end = rest.find('&');
    const std::string_view pair = rest.substr(0, end);
    rest = end == rest.npos ? "" : rest.substr(end + 1);
    if (pair.empty()) continue;
    const auto equals = pair.find('=');
    MILLRACE_TRY(name, decode(pair.substr(0, equals), Plus::is_space, "query"));
    MILLRACE_TRY(value, decode(equals == pair.npos ? "" : pair.substr(equals + 1), Plus::is_space, "query"));
    request.query.emplace_back(std::move(name), std::move(value));
  }
  return {};
}

}  // namespace millrace::server::net
