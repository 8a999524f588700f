#include "server/net/request_parser.h"

#include <gtest/gtest.h>

#include <string>

#include "server/net/out_queue.h"
#include "server/net/response_text.h"

namespace millrace::server::net {
namespace {

using State = RequestParser::State;

/// Feeds `bytes` in pieces of `step`, as a connection does; what was not used is in `rest`.
void feed_all(RequestParser& parser, std::string_view bytes, std::size_t step, std::string* rest = nullptr) {
  std::string unused;
  while (!bytes.empty() || !unused.empty()) {
    const std::size_t n = std::min(step, bytes.size());
    unused.append(bytes.substr(0, n));
    bytes.remove_prefix(n);
    for (std::size_t used = 1; used > 0 && (parser.state() == State::head || parser.state() == State::body);) {
      used = parser.feed(unused);
      unused.erase(0, used);
    }
    if (bytes.empty() || parser.state() == State::complete || parser.state() == State::refused) break;
  }
  if (rest) *rest = unused + std::string(bytes);
}

Refusal refusal_of(std::string_view bytes, ConnectionLimits limits = {}) {
  RequestParser whole(limits), single(limits);
  feed_all(whole, bytes, bytes.size());
  feed_all(single, bytes, 1);
  EXPECT_EQ(whole.state(), single.state()) << bytes;
  if (whole.state() != State::refused) return {};
  EXPECT_EQ(whole.refusal().status, single.refusal().status) << bytes;
  return whole.refusal();
}

int status_of(std::string_view bytes, ConnectionLimits limits = {}) { return refusal_of(bytes, limits).status; }

TEST(RequestParser, ReadsARequestInPiecesOfAnySizeAndLeavesTheNext) {
  const std::string request =
      "POST /v1/a%20b?x=1&y=a+b%2B&z HTTP/1.1\r\nHost: h\r\nX-Two: a \r\nX-BYTES: \xff\xfe\r\nContent-Length: 5\r\n\r\nhello";
  for (std::size_t step = 1; step <= request.size() + 7; ++step) {
    RequestParser parser(ConnectionLimits{});
    std::string rest;
    feed_all(parser, request + "GET / H", step, &rest);
    ASSERT_EQ(parser.state(), State::complete) << step;
    EXPECT_EQ(rest, "GET / H") << step;
    const HttpRequest& got = parser.request();
    EXPECT_EQ(got.method, "POST");
    EXPECT_EQ(got.path, "/v1/a b");
    ASSERT_EQ(got.query.size(), 3u);
    EXPECT_EQ(got.query[1], (std::pair<std::string, std::string>("y", "a b+")));
    EXPECT_EQ(got.query[2], (std::pair<std::string, std::string>("z", "")));
    EXPECT_EQ(*got.header("x-two"), "a");
    EXPECT_EQ(*got.header("x-bytes"), "\xff\xfe");
    EXPECT_EQ(got.body, "hello");
    EXPECT_TRUE(parser.keep_alive());
  }
}

// O8.11
TEST(RequestParser, ReadsChunksOfOneByteWithExtensionsAndDropsTrailers) {
  const std::string request =
      "POST / HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n1;a=b\r\nh\r\n1;c=\"d\"\r\ni\r\n0;e\r\nAuthorization: Bearer x\r\n\r\n";
  for (const std::size_t step : {1, 2, 3, 7, 1000}) {
    RequestParser parser(ConnectionLimits{});
    feed_all(parser, request, step);
    ASSERT_EQ(parser.state(), State::complete) << step << parser.refusal().message;
    EXPECT_EQ(parser.request().body, "hi");
    EXPECT_FALSE(parser.request().header("authorization"));
  }
  RequestParser empty(ConnectionLimits{});
  feed_all(empty, "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 1);
  EXPECT_EQ(empty.state(), State::complete);
}

// O8.11
TEST(RequestParser, RefusesLengthsThatTwoReadersCouldUnderstandDifferently) {
  const auto with = [](std::string_view headers) { return status_of("POST / HTTP/1.1\r\nHost: h\r\n" + std::string(headers) + "\r\n0\r\n\r\n"); };
  EXPECT_EQ(with("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"), 400);
  EXPECT_EQ(with("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"), 400);
  EXPECT_EQ(with("Content-Length: 5\r\nContent-Length: 6\r\n"), 400);
  EXPECT_EQ(with("Content-Length: 5, 6\r\n"), 400);
  EXPECT_EQ(with("Content-Length: -1\r\n"), 400);
  EXPECT_EQ(with("Content-Length: +1\r\n"), 400);
  EXPECT_EQ(with("Content-Length: 0x10\r\n"), 400);
  EXPECT_EQ(with("Content-Length:\r\n"), 400);
  EXPECT_EQ(with("Content-Length: 99999999999999999999\r\n"), 400);
  EXPECT_EQ(with("Content-Length : 5\r\n"), 400);
  EXPECT_EQ(with("Transfer-Encoding: xchunked\r\n"), 400);
  EXPECT_EQ(with("Transfer-Encoding: chunked, identity\r\n"), 400);
  EXPECT_EQ(with("Transfer-Encoding: identity\r\nContent-Length: 5\r\n"), 400);
  EXPECT_EQ(with("Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n"), 400);
  EXPECT_EQ(with("Transfer-Encoding: gzip, chunked\r\n"), 501);
  EXPECT_EQ(status_of("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 400);
  EXPECT_EQ(status_of("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n\r\n"), 400);
  EXPECT_EQ(status_of("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n"), 400);
  EXPECT_EQ(status_of("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n"), 400);
}

TEST(RequestParser, RefusesWhatIsNoRequest) {
  EXPECT_EQ(status_of("\x16\x03\x01\x02 is TLS\r\n\r\n"), 400);
  EXPECT_EQ(status_of("GET\r\n\r\n"), 400);
  EXPECT_EQ(status_of("GET / HTTP/2.0\r\n\r\n"), 505);
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\nno colon\r\n\r\n"), 400);
  RequestParser bare(ConnectionLimits{});  // byte by byte it has no end at all: the header's time-out is for that
  feed_all(bare, "GET / HTTP/1.1\nHost: h\n\n", 1000);
  EXPECT_EQ(bare.state(), State::refused);
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"), 400);
  EXPECT_EQ(status_of(std::string("GET / HTTP/1.1\r\nX: a") + '\0' + "b\r\n\r\n"), 400);
  EXPECT_EQ(status_of("METHOD-METHOD-METHOD-METHOD-METHOD-METHOD / HTTP/1.1\r\n\r\n"), 400);
}

TEST(RequestParser, RefusesPathsThatAreNoText) {
  const auto path = [](std::string_view target) { return status_of("GET " + std::string(target) + " HTTP/1.1\r\n\r\n"); };
  EXPECT_EQ(path("/%00"), 400);
  EXPECT_EQ(path("/%zz"), 400);
  EXPECT_EQ(path("/%4"), 400);
  EXPECT_EQ(path("/%ff"), 400);
  EXPECT_EQ(path("/\xff"), 400);
  EXPECT_EQ(path("/a?b=%ff"), 400);
  EXPECT_EQ(path("nothing"), 400);
  EXPECT_EQ(path("*"), 400);
  EXPECT_EQ(path("/a#b"), 400);
  EXPECT_EQ(path("/%C3%A9"), 0);
  EXPECT_EQ(path("/\xc3\xa9"), 0);
}

TEST(RequestParser, TakesTargetsOfProxiesAndOfOptions) {
  const auto path = [](std::string_view line) {
    RequestParser parser(ConnectionLimits{});
    feed_all(parser, std::string(line) + " HTTP/1.1\r\n\r\n", 1000);
    return parser.state() == State::complete ? parser.request().path : parser.refusal().message;
  };
  EXPECT_EQ(path("GET http://host:80/a/b?c"), "/a/b");
  EXPECT_EQ(path("GET http://host"), "/");
  EXPECT_EQ(path("GET http://host?c"), "/");
  EXPECT_EQ(path("OPTIONS *"), "*");
}

TEST(RequestParser, KeepsItsLimits) {
  ConnectionLimits limits;
  limits.header_bytes = 2000;
  limits.body_bytes = 10;
  const std::string long_value(3000, 'a');
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\nX: " + long_value + "\r\n\r\n", limits), 431);
  EXPECT_EQ(status_of("GET /" + long_value + " HTTP/1.1\r\n\r\n", limits), 431);
  EXPECT_EQ(status_of("GET /" + std::string(20'000, 'a') + " HTTP/1.1\r\n\r\n"), 414);
  EXPECT_EQ(status_of("POST / HTTP/1.1\r\nContent-Length: 11\r\n\r\n", limits), 413);
  EXPECT_EQ(status_of("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nabcdef\r\n6\r\nabcdef\r\n0\r\n\r\n", limits), 413);
  EXPECT_EQ(status_of("POST / HTTP/1.1\r\nContent-Length: 10\r\n\r\n0123456789", limits), 0);
  EXPECT_EQ(status_of("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1;" + std::string(20'000, 'e')), 400);
  std::string many = "GET / HTTP/1.1\r\n";
  for (int i = 0; i < 300; ++i) many += "a: b\r\n";
  EXPECT_EQ(status_of(many + "\r\n"), 431);
}

TEST(RequestParser, TheFirstLineAndTheHeadersShareOneBoundHoweverTheyCome) {
  const std::string first = "GET /health HTTP/1.1\r\n", header = "X: " + std::string(100, 'a') + "\r\n\r\n";
  ConnectionLimits limits;
  limits.header_bytes = first.size() + header.size();
  EXPECT_EQ(status_of(first + header, limits), 0);
  limits.header_bytes -= 1;
  EXPECT_EQ(status_of(first + header, limits), 431);
}

TEST(ResponseText, NoHeaderCanEndEarly) {
  std::string out;
  write_head(out, {.headers = {{"x-request-id", "a\r\nEvil: 1\n"}}}, {.content_length = 0, .date = "now"});
  EXPECT_EQ(out, "HTTP/1.1 200 OK\r\nDate: now\r\nContent-Type: application/json\r\nx-request-id: a  Evil: 1 \r\nContent-Length: 0\r\n\r\n");
  EXPECT_EQ(http_date(784111777), "Sun, 06 Nov 1994 08:49:37 GMT");
}

TEST(OutQueue, GathersInOrderAndForgetsWhatIsSent) {
  OutQueue queue;
  queue.add("ab");
  queue.add("cd");
  queue.add(std::string(20'000, 'x'));
  queue.add("ef");
  iovec pieces[8];
  ASSERT_EQ(queue.gather(pieces, 8), 3);
  EXPECT_EQ(std::string_view(static_cast<char*>(pieces[0].iov_base), pieces[0].iov_len), "abcd");
  EXPECT_EQ(queue.bytes(), 20'006u);
  queue.drop(3);
  ASSERT_EQ(queue.gather(pieces, 8), 3);
  EXPECT_EQ(*static_cast<char*>(pieces[0].iov_base), 'd');
  queue.drop(20'001);
  EXPECT_EQ(queue.bytes(), 2u);
  queue.drop(2);
  EXPECT_TRUE(queue.empty());
}

}  // namespace
}  // namespace millrace::server::net
