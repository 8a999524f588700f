#include "cli/load_url.h"

#include <algorithm>
#include <charconv>

namespace millrace::cli {

std::string ServerUrl::authority() const { return (host.find(':') == host.npos ? host : "[" + host + "]") + ":" + port; }

Result<ServerUrl> parse_url(std::string_view text) {
  const std::string whole(text);
  const auto wrong = [&] { return error(Code::invalid_argument, "expected a URL like http://127.0.0.1:8080, got '{}'", whole); };
  if (text.starts_with("https://")) return error(Code::unsupported, "'{}': bench serve speaks http only", whole);
  if (text.starts_with("http://")) text.remove_prefix(7);
  else if (text.find("://") != text.npos) return wrong();

  ServerUrl url;
  const auto slash = std::min(text.find_first_of("/?#"), text.size());
  std::string_view authority = text.substr(0, slash);
  url.path = text.substr(slash);
  while (url.path.ends_with('/')) url.path.pop_back();
  if (url.path.ends_with("/v1")) url.path.resize(url.path.size() - 3);
  if (url.path.find_first_of("?# \r\n") != url.path.npos) return wrong();

  std::string_view port;
  if (authority.starts_with('[')) {  // IPv6
    const auto end = authority.find(']');
    if (end == authority.npos) return wrong();
    url.host = authority.substr(1, end - 1);
    if (end + 1 < authority.size()) {
      if (authority[end + 1] != ':') return wrong();
      port = authority.substr(end + 2);
      if (port.empty()) return wrong();
    }
  } else {
    const auto colon = authority.find(':');
    url.host = authority.substr(0, colon);
    if (colon != authority.npos) {
      port = authority.substr(colon + 1);
      if (port.empty()) return wrong();
    }
  }
  if (url.host.empty() || url.host.find_first_of("@ \t\r\n") != url.host.npos) return wrong();
  if (!port.empty()) {
    unsigned number = 0;
    const auto [stop, failure] = std::from_chars(port.data(), port.data() + port.size(), number);
    if (failure != std::errc{} || stop != port.data() + port.size() || number < 1 || number > 65535) return wrong();
    url.port = port;
  }
  return url;
}

}  // namespace millrace::cli
