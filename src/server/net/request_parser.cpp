// Beast asserts, in Debug builds, on a last chunk ("0\r\n\r\n") that comes byte by byte as the first one, though it reads it
// rightly. What a client sends must never abort, and this is the only file that includes Beast.
#define BOOST_DISABLE_ASSERTS

#include "server/net/request_parser.h"

#include <boost/beast/http/basic_parser.hpp>

#include <algorithm>

#include "base/ascii.h"
#include "server/net/request_target.h"

namespace millrace::server::net {
namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;

constexpr std::size_t kMaxMethodBytes = 32, kMaxTargetBytes = 16 << 10, kMaxHeaders = 256;

// A chunk's size line with its extensions, or the trailers: the only things in a body that are kept until they are whole.
constexpr std::size_t kMaxChunkHeaderBytes = 16 << 10;

std::string_view view_of(beast::string_view text) { return {text.data(), text.size()}; }

Refusal refusal_of(const beast::error_code& problem, const ConnectionLimits& limits) {
  using http::error;
  if (problem == error::body_limit) return {413, fmt::format("the body is larger than {} bytes", limits.body_bytes)};
  if (problem == error::bad_version) return {505, "the request line does not end with HTTP/1.0 or HTTP/1.1 and CR LF"};
  if (problem == error::bad_content_length) return {400, "Content-Length is no number, or contradicts another header"};
  if (problem == error::bad_transfer_encoding) return {400, "Transfer-Encoding contradicts another header"};
  if (problem == error::bad_chunk || problem == error::bad_chunk_extension) return {400, "the body has a malformed chunk"};
  return {400, fmt::format("the request is malformed ({})", problem.message())};
}

}  // namespace

class RequestParser::Impl final : public http::basic_parser<true> {
 public:
  explicit Impl(const ConnectionLimits& limits) : limits(limits) {
    header_limit(UINT32_MAX);  // feed() keeps it: Beast counts the first line apart or not, as the pieces come
    body_limit(limits.body_bytes);
  }

  const ConnectionLimits limits;
  HttpRequest request;
  std::size_t head_bytes = 0;
  State state = State::head;
  Refusal refusal;

  void refuse(Refusal why) {
    state = State::refused;
    refusal = std::move(why);
  }

 private:
  int transfer_encodings_ = 0;
  bool content_length_given_ = false;
  std::string transfer_encoding_;

  // Any error makes Beast stop; which one does not matter where a refusal was set.
  void refuse(Refusal why, beast::error_code& problem) {
    refuse(std::move(why));
    problem = http::error::bad_value;
  }

  void on_request_impl(http::verb, beast::string_view method, beast::string_view target, int version,
                       beast::error_code& problem) override {
    request.http_1_0 = version == 10;
    if (method.size() > kMaxMethodBytes)
      return refuse({400, fmt::format("the method is longer than {} bytes", kMaxMethodBytes)}, problem);
    request.method = view_of(method);
    if (target.size() > kMaxTargetBytes)
      return refuse({414, fmt::format("the target of the request is longer than {} bytes", kMaxTargetBytes)}, problem);
    if (const auto parsed = net::parse_target(view_of(target), request); !parsed) refuse({400, parsed.error().message}, problem);
  }

  void on_response_impl(int, beast::string_view, int, beast::error_code&) override {}

  void on_field_impl(http::field field, beast::string_view name, beast::string_view value, beast::error_code& problem) override {
    if (state != State::head) return;  // trailers: nothing here has a use for them, and they must not pass for headers
    if (request.headers.size() == kMaxHeaders)
      return refuse({431, fmt::format("the request has more than {} headers", kMaxHeaders)}, problem);
    if (field == http::field::host && request.header("host")) return refuse({400, "the request has two Host headers"}, problem);
    content_length_given_ |= field == http::field::content_length;
    if (field == http::field::transfer_encoding) {
      ++transfer_encodings_;
      transfer_encoding_ = ascii_lower(view_of(value));
    }
    request.headers.push_back({ascii_lower(view_of(name)), std::string(view_of(value))});
  }

  // Beast takes any list of codings that ends in "chunked", and one that does not as if there was no body.
  void on_header_impl(beast::error_code& problem) override {
    if (transfer_encodings_ == 0) return;
    if (content_length_given_) return refuse({400, "the request has both Content-Length and Transfer-Encoding"}, problem);
    if (request.http_1_0) return refuse({400, "HTTP/1.0 has no Transfer-Encoding"}, problem);
    if (transfer_encodings_ > 1 || !chunked())
      return refuse({400, "the last Transfer-Encoding is not chunked, so the body has no end"}, problem);
    if (transfer_encoding_ != "chunked") refuse({501, "no Transfer-Encoding but chunked is supported"}, problem);
  }

  // Room is made as bytes arrive, not by what the header promises: 1000 promises of 16 MiB cost nothing.
  void on_body_init_impl(const boost::optional<std::uint64_t>&, beast::error_code&) override {}
  std::size_t on_body_impl(beast::string_view body, beast::error_code&) override {
    request.body.append(body.data(), body.size());
    return body.size();
  }
  void on_chunk_header_impl(std::uint64_t, beast::string_view, beast::error_code&) override {}
  std::size_t on_chunk_body_impl(std::uint64_t, beast::string_view body, beast::error_code&) override {
    request.body.append(body.data(), body.size());
    return body.size();
  }
  void on_finish_impl(beast::error_code&) override {}
};

RequestParser::RequestParser(const ConnectionLimits& limits) : impl_(std::make_unique<Impl>(limits)) {}
RequestParser::~RequestParser() = default;

std::size_t RequestParser::feed(std::string_view bytes) {
  Impl& it = *impl_;
  std::size_t used = 0;
  while (used < bytes.size() && (it.state == State::head || it.state == State::body)) {
    const bool head = it.state == State::head;
    const std::size_t room = head ? it.limits.header_bytes - it.head_bytes : bytes.size();
    const std::string_view next = bytes.substr(used, room);
    beast::error_code problem;
    const std::size_t taken = it.put({next.data(), next.size()}, problem);
    used += taken;
    if (head) it.head_bytes += taken;
    if (problem == http::error::need_more) {
      if (head && next.size() == room) it.refuse({431, fmt::format("the header is larger than {} bytes", it.limits.header_bytes)});
      if (it.state == State::body && bytes.size() - used > kMaxChunkHeaderBytes)
        it.refuse({400, fmt::format("a chunk's header or the trailers are longer than {} bytes", kMaxChunkHeaderBytes)});
      break;
    }
    if (problem) {
      if (it.state != State::refused) it.refuse(refusal_of(problem, it.limits));
      break;
    }
    if (it.is_done()) {
      it.state = State::complete;
    } else if (it.state == State::head && it.is_header_done()) {
      it.state = State::body;
      break;
    }
  }
  return used;
}

RequestParser::State RequestParser::state() const { return impl_->state; }
const Refusal& RequestParser::refusal() const { return impl_->refusal; }
HttpRequest& RequestParser::request() { return impl_->request; }
bool RequestParser::keep_alive() const { return impl_->keep_alive(); }
std::optional<std::uint64_t> RequestParser::content_length() const {
  const auto length = impl_->content_length();
  return length ? std::optional<std::uint64_t>(*length) : std::nullopt;
}

}  // namespace millrace::server::net
