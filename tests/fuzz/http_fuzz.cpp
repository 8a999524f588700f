// Any bytes as what a client sends, whole and in small pieces, and then more than any bound allows: the same requests come
// of both, and both end refused. Which byte they are refused at may differ: a piece may leave a line unfinished that is wrong
// already, and a whole one may wait for the end of a quoted string that its line has not.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
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

server::ConnectionLimits narrow_limits() {
  server::ConnectionLimits limits;
  limits.header_bytes = 2048;
  limits.body_bytes = 4096;
  return limits;
}

/// One connection's side of the reading.
class Reader {
 public:
  void take(std::string_view bytes) {
    held_ += bytes;
    while (!read_.refused && !held_.empty()) {
      const std::size_t used = parser_->feed(held_);
      MILLRACE_CHECK(used <= held_.size(), "more was used than there is");
      held_.erase(0, used);
      read_.refused = parser_->state() == RequestParser::State::refused;
      if (parser_->state() == RequestParser::State::complete) {
        const server::HttpRequest& request = parser_->request();
        MILLRACE_CHECK(is_valid_utf8(request.path), "the path is not valid UTF-8");
        read_.requests += request.method + ' ' + request.path + ' ' + std::to_string(request.headers.size()) + ' ' + request.body + '\n';
        parser_ = std::make_unique<RequestParser>(limits_);
      } else if (used == 0) {
        break;
      }
    }
  }

  const Read& read() const { return read_; }

 private:
  const server::ConnectionLimits limits_ = narrow_limits();
  std::unique_ptr<RequestParser> parser_ = std::make_unique<RequestParser>(limits_);
  std::string held_;
  Read read_;
};

Read read_in(std::string_view bytes, std::size_t piece) {
  static const std::string flood(20 << 10, 'x');
  Reader reader;
  for (; !bytes.empty(); bytes.remove_prefix(std::min(piece, bytes.size()))) reader.take(bytes.substr(0, piece));
  reader.take(flood);
  return reader.read();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const Read whole = read_in(bytes, size), pieces = read_in(bytes, 1 + size % 7);
  MILLRACE_CHECK(whole.requests == pieces.requests, "pieces are read otherwise: " + pieces.requests + " instead of " + whole.requests);
  MILLRACE_CHECK(whole.refused && pieces.refused, "what has no end is waited for");
  return 0;
}
