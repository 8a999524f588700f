// Clients that leave, or stop reading, in every state of a connection.

#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

#include "server/net/testing/raw_client.h"
#include "server/net/testing/test_server.h"

namespace millrace::server {
namespace {

using namespace std::chrono_literals;
using testing::quick_limits;
using testing::RawClient;
using testing::Signal;
using testing::TestServer;

constexpr std::string_view kGetWait = "GET /wait HTTP/1.1\r\nHost: h\r\n\r\n";
const HttpResponse kEvents{.content_type = "text/event-stream"};

/// A server with TCP and a UNIX socket: what both must do alike.
class Gone : public ::testing::TestWithParam<int> {
 protected:
  static HttpServerOptions options() {
    const std::string path = ::testing::TempDir() + "millrace-gone-" + std::to_string(::getpid());
    return {.at = {{}, {.unix_path = path}}, .limits = quick_limits()};
  }
  std::string address() const { return server_.address(static_cast<std::size_t>(GetParam())); }

  /// A request under way, its signal rings when the client is gone.
  ExchangePtr wait_for(RawClient& client, Signal& gone, std::string_view request = kGetWait) {
    client.send(request);
    ExchangePtr exchange = server_.take();
    if (exchange) exchange->on_gone([&gone] { gone.add(); });
    return exchange;
  }

  TestServer server_{options()};
};

INSTANTIATE_TEST_SUITE_P(TcpAndUnix, Gone, ::testing::Values(0, 1), [](const auto& i) { return i.param ? "Unix" : "Tcp"; });

// O8.6 b, c, d: within milliseconds, not at the next write.
TEST_P(Gone, BeforeTheAnswerBegins) {
  for (const bool reset : {false, true}) {
    Signal gone;
    RawClient client(address());
    const auto exchange = wait_for(client, gone);
    ASSERT_TRUE(exchange);
    EXPECT_EQ(gone.count(), 0);
    reset ? client.reset() : client.close();
    EXPECT_TRUE(gone.reaches(1, 1s)) << (reset ? "reset" : "closed");
    exchange->respond({.body = "to nobody"});
  }
  EXPECT_TRUE(server_.server().wait_until_idle(2s));
}

// O8.6 a
TEST_P(Gone, InTheMiddleOfAStream) {
  for (const bool reset : {false, true}) {
    Signal gone;
    RawClient client(address());
    const auto exchange = wait_for(client, gone);
    exchange->start_stream(kEvents);
    exchange->write("data: 1\n\n");
    ASSERT_TRUE(client.read_until("data: 1\n\n\r\n"));
    reset ? client.reset() : client.close();
    EXPECT_TRUE(gone.reaches(1, 1s)) << (reset ? "reset" : "closed");
    exchange->write("data: 2\n\n");
    exchange->end_stream();
  }
  EXPECT_TRUE(server_.server().wait_until_idle(2s));
}

TEST_P(Gone, InTheHeadAndInTheBody) {
  for (const std::string_view part : {"", "POST /wait", "POST /wait HTTP/1.1\r\nContent-Length: 10\r\n\r\nhalf"}) {
    RawClient client(address());
    client.send(part);
    client.close();
  }
  RawClient last(address());
  EXPECT_TRUE(last.ask("GET /echo HTTP/1.1\r\n\r\n"));
  last.close();
  EXPECT_TRUE(server_.server().wait_until_idle(2s));
  EXPECT_EQ(server_.requests(), 1);
}

TEST_P(Gone, HasHappenedBeforeAnybodyAsked) {
  Signal gone, late;
  RawClient client(address());
  const auto exchange = wait_for(client, gone);
  client.reset();
  ASSERT_TRUE(gone.reaches(1));
  exchange->on_gone([&] { late.add(); });
  EXPECT_TRUE(late.reaches(1));
}

TEST_P(Gone, IsForgottenWhenTheAnswerIsThrough) {
  Signal gone;
  RawClient client(address());
  auto exchange = wait_for(client, gone);
  auto held = std::make_shared<int>(1);
  exchange->on_gone([&gone, held] { gone.add(); });
  exchange->respond({});
  ASSERT_TRUE(client.read_response());
  client.close();
  ASSERT_TRUE(server_.server().wait_until_idle(2s));
  EXPECT_EQ(gone.count(), 0);
  EXPECT_EQ(held.use_count(), 1);
}

TEST_P(Gone, AHalfClosedClientGetsItsAnswer) {
  Signal gone;
  RawClient whole(address()), stream(address());
  const auto one = wait_for(whole, gone);
  whole.end_sending();
  EXPECT_FALSE(gone.reaches(1, 100ms));
  one->respond({.body = "late"});
  EXPECT_EQ(whole.read_response()->body, "late");
  EXPECT_TRUE(whole.ends_within(1s));

  const auto two = wait_for(stream, gone);
  two->start_stream(kEvents);
  ASSERT_TRUE(stream.read_until("\r\n\r\n"));
  stream.end_sending();
  EXPECT_TRUE(stream.read_until(":\n\n")) << "the comment that finds out if anybody is there";
  two->write("data: 1\n\n");
  two->end_stream();
  EXPECT_TRUE(stream.read_until("data: 1\n\n\r\n0\r\n\r\n"));
  EXPECT_EQ(gone.count(), 0);
}

TEST_P(Gone, AHalfClosedPipelineGetsAllItsAnswers) {
  RawClient client(address());
  client.send("GET /echo?1 HTTP/1.1\r\n\r\nGET /echo?2 HTTP/1.1\r\n\r\nGET /nothing HTTP/1.1\r\n\r\n");
  client.end_sending();
  EXPECT_EQ(client.read_response()->status, 200);
  EXPECT_EQ(client.read_response()->status, 200);
  EXPECT_EQ(client.read_response()->status, 404);
  EXPECT_TRUE(client.ends_within(1s));
}

// HTTP/1.0 has nothing that finds out: quick answers arrive, slow ones are given up.
TEST_P(Gone, AHalfClosedClientOfHttp10HasAShortTime) {
  Signal gone;
  RawClient quick(address()), slow(address());
  quick.send("GET /echo HTTP/1.0\r\n\r\n");
  quick.end_sending();
  EXPECT_TRUE(quick.read_all().ends_with("GET /echo "));
  const auto exchange = wait_for(slow, gone, "GET /wait HTTP/1.0\r\n\r\n");
  slow.end_sending();
  EXPECT_TRUE(gone.reaches(1, 3s));
}

TEST_P(Gone, ARequestThatEndsInTheMiddleIs400) {
  RawClient client(address());
  client.send("POST /echo HTTP/1.1\r\nContent-Length: 10\r\n\r\nhalf");
  client.end_sending();
  EXPECT_EQ(client.read_response()->status, 400);
  EXPECT_TRUE(client.ends_within(1s));
}

// O8.7
TEST_P(Gone, WhoDoesNotReadIsCutOffAfterTheWriteTimeout) {
  Signal gone;
  RawClient client(address(), 2048);
  const auto exchange = wait_for(client, gone);
  exchange->start_stream(kEvents);
  for (int i = 0; i < 18; ++i) exchange->write(std::string(100'000, 'x'));  // less than may be unsent, more than the kernel takes
  EXPECT_FALSE(gone.reaches(1, 100ms));
  EXPECT_TRUE(gone.reaches(1, 5s));
  EXPECT_EQ(server_.metrics().timeouts_total.value(), 1u);
}

// O8.7
TEST_P(Gone, WhoLeavesTooMuchUnreadIsCutOffAtOnce) {
  Signal gone;
  RawClient client(address(), 2048);
  const auto exchange = wait_for(client, gone);
  exchange->start_stream(kEvents);
  for (int i = 0; i < 200; ++i) exchange->write(std::string(100'000, 'x'));
  EXPECT_TRUE(gone.reaches(1, 5s));
  EXPECT_EQ(server_.metrics().timeouts_total.value(), 0u);
}

TEST_P(Gone, WhoReadsSlowlyIsServed) {
  Signal gone;
  RawClient client(address(), 2048);
  const auto exchange = wait_for(client, gone);
  exchange->start_stream(kEvents);
  constexpr std::size_t kBytes = 1'600'000, kPiece = 8000;
  exchange->write(std::string(kBytes, 'x'));
  exchange->end_stream();
  const auto begin = std::chrono::steady_clock::now();
  for (std::size_t read = 0; read < kBytes; read += kPiece) {
    ASSERT_TRUE(client.read_bytes(kPiece)) << read;
    // For three write timeouts so slowly that the kernel takes nothing new in one of them.
    if (std::chrono::steady_clock::now() - begin < 1200ms) std::this_thread::sleep_for(50ms);
  }
  EXPECT_EQ(gone.count(), 0);
}

}  // namespace
}  // namespace millrace::server
