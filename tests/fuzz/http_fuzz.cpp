// Any bytes as what a client sends, whole and in small pieces: the same requests come of it, and what is refused in pieces
// is refused whole. The other way round a piece may leave a line unfinished that is wrong already.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/utf8.h"
#include "server/net/request_parser.h"

namespace {

using namespace millrace;
using server::net::RequestParser;

struct Read { std::string requests; bool refused = false; };

/// What comes of `bytes` until they end or are refused.
Read read_all(std::string_view bytes, std::size_t piece) {
  server::ConnectionLimits limits;
  limits.header_bytes = 2048;
  limits.body_bytes = 4096;
  Read read;
  std::string held;
  auto parser = std::make_unique<RequestParser>(limits);
  while (!bytes.empty()) {
    held += bytes.substr(0, piece);
    bytes.remove_prefix(std::min(piece, bytes.size()));
    for (;;) {
      const std::size_t used = parser->feed(held);
      MILLRACE_CHECK(used <= held.size(), "more was used than there is");
      held.erase(0, used);
      if (parser->state() == RequestParser::State::refused) return read.refused = true, read;
      if (parser->state() == RequestParser::State::complete) {
        const server::HttpRequest& request = parser->request();
        MILLRACE_CHECK(is_valid_utf8(request.path), "the path is not valid UTF-8");
        read.requests += request.method + ' ' + request.path + ' ' + std::to_string(request.headers.size()) + ' ' + request.body + '\n';
        parser = std::make_unique<RequestParser>(limits);
      } else if (used == 0) {
        break;
      }
      if (held.empty()) break;
    }
  }
  return read;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const Read whole = read_all(bytes, size), pieces = read_all(bytes, 1 + size % 7);
  MILLRACE_CHECK(whole.requests == pieces.requests, "pieces are read otherwise: " + pieces.requests + " instead of " + whole.requests);
  MILLRACE_CHECK(whole.refused || !pieces.refused, "pieces are refused");
  return 0;
}
