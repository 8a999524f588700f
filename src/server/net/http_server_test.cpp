#include "server/net/http_server.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "server/net/testing/raw_client.h"
#include "server/net/testing/test_server.h"

namespace millrace::server {
namespace {

using namespace std::chrono_literals;
using testing::quick_limits;
using testing::RawClient;
using testing::Response;
using testing::Signal;
using testing::TestServer;

constexpr std::string_view kGetEcho = "GET /echo HTTP/1.1\r\nHost: h\r\n\r\n";
constexpr std::string_view kGetWait = "GET /wait HTTP/1.1\r\nHost: h\r\n\r\n";
const HttpResponse kEvents{.content_type = "text/event-stream"};

TEST(HttpServer, OneConnectionServesManyRequests) {
  TestServer server;
  RawClient client(server.address());
  for (int i = 0; i < 3; ++i) {
    const auto got = client.ask("POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi");
    ASSERT_TRUE(got);
    EXPECT_EQ(got->status, 200);
    EXPECT_EQ(got->body, "POST /echo hi");
    EXPECT_TRUE(got->has("\r\nDate: "));
    EXPECT_TRUE(got->has("\r\nServer: millrace\r\n"));
    EXPECT_TRUE(got->has("\r\nContent-Type: text/plain\r\n"));
    EXPECT_FALSE(got->has("Connection:"));
  }
  EXPECT_EQ(server.metrics().connections_total.value(), 1u);
  EXPECT_EQ(server.metrics().connections.value(), 1);
}

TEST(HttpServer, TheBodiesOfAllClientsTogetherAreBounded) {
  ConnectionLimits limits;
  limits.all_body_bytes = 1000;
  TestServer server(limits);
  const std::string body = "Content-Length: 800\r\n\r\n" + std::string(800, 'x');
  RawClient first(server.address());
  first.send("POST /wait HTTP/1.1\r\n" + body);
  auto held = server.take();
  ASSERT_TRUE(held);
  RawClient second(server.address());
  EXPECT_EQ(second.ask("POST /echo HTTP/1.1\r\n" + body)->status, 503);
  held->respond({.body = "1"});
  EXPECT_EQ(first.read_response()->status, 200);
  held.reset();  // and the body with it
  for (int attempt = 0; attempt < 100; ++attempt) {
    RawClient third(server.address());
    if (third.ask("POST /echo HTTP/1.1\r\n" + body)->status == 200) return;
    std::this_thread::sleep_for(20ms);
  }
  FAIL() << "what the first took was never given back";
}

TEST(HttpServer, PipelinedRequestsAreAnsweredInOrderOneAtATime) {
  TestServer server;
  RawClient client(server.address());
  client.send("GET /wait?n=1 HTTP/1.1\r\n\r\nGET /wait?n=2 HTTP/1.1\r\n\r\nPOST /echo HTTP/1.1\r\nContent-Length: 1\r\n\r\nx");
  const auto first = server.take();
  ASSERT_TRUE(first);
  EXPECT_FALSE(server.take(50ms)) << "the second was handled beside the first";
  first->respond({.body = "1"});
  const auto second = server.take();
  ASSERT_TRUE(second);
  second->respond({.body = "2"});
  EXPECT_EQ(client.read_response()->body, "1");
  EXPECT_EQ(client.read_response()->body, "2");
  EXPECT_EQ(client.read_response()->body, "POST /echo x");
}

TEST(HttpServer, PipelinesOfAnyLengthAreTakenAsTheyAreAnswered) {
  TestServer server;
  RawClient client(server.address());
  constexpr int kRequests = 5000;
  std::thread sender([&] {
    std::string all;
    for (int i = 0; i < kRequests; ++i) all += kGetEcho;
    client.send(all);
  });
  int answered = 0;
  while (answered < kRequests && client.read_response()) ++answered;
  sender.join();
  EXPECT_EQ(answered, kRequests);
}

TEST(HttpServer, Http10ClosesUnlessAskedNotTo) {
  TestServer server;
  RawClient closing(server.address()), keeping(server.address());
  closing.send("GET /echo HTTP/1.0\r\n\r\n");
  const std::string all = closing.read_all();
  EXPECT_TRUE(all.ends_with("GET /echo ")) << all;
  EXPECT_NE(all.find("Connection: close\r\n"), all.npos);
  for (int i = 0; i < 2; ++i) {
    const auto got = keeping.ask("GET /echo HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    ASSERT_TRUE(got);
    EXPECT_TRUE(got->has("Connection: keep-alive\r\n"));
  }
}

TEST(HttpServer, ConnectionCloseIsRespected) {
  TestServer server;
  RawClient client(server.address());
  client.send("GET /echo HTTP/1.1\r\nConnection: close\r\n\r\n");
  const auto got = client.read_response();
  ASSERT_TRUE(got);
  EXPECT_TRUE(got->has("Connection: close\r\n"));
  EXPECT_TRUE(client.ends_within(2s));
}

TEST(HttpServer, HeadHasTheLengthAndNoBody) {
  TestServer server;
  RawClient client(server.address());
  client.send("HEAD /echo HTTP/1.1\r\n\r\n" + std::string(kGetEcho));
  const auto head = client.read_response(true);
  ASSERT_TRUE(head);
  EXPECT_TRUE(head->has("Content-Length: 11\r\n"));
  EXPECT_EQ(client.read_response()->body, "GET /echo ");
}

TEST(HttpServer, StreamsAreChunkedAndTheConnectionGoesOn) {
  TestServer server;
  RawClient client(server.address());
  client.send(kGetWait);
  const auto exchange = server.take();
  exchange->start_stream(kEvents);
  exchange->write("data: 1\n\n");
  EXPECT_TRUE(client.read_until("\r\n9\r\ndata: 1\n\n\r\n"));
  exchange->write("");
  exchange->write("data: 2\n\n");
  exchange->end_stream();
  EXPECT_EQ(client.read_until("0\r\n\r\n"), "9\r\ndata: 2\n\n\r\n0\r\n\r\n");
  EXPECT_EQ(client.ask(kGetEcho)->body, "GET /echo ");
}

TEST(HttpServer, AStreamOfHttp10EndsWithTheConnection) {
  TestServer server;
  RawClient client(server.address());
  client.send("GET /wait HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  const auto exchange = server.take();
  exchange->start_stream(kEvents);
  exchange->write("data: 1\n\n");
  exchange->end_stream();
  const std::string all = client.read_all();
  EXPECT_TRUE(all.ends_with("\r\n\r\ndata: 1\n\n")) << all;
  EXPECT_EQ(all.find("chunked"), all.npos);
}

TEST(HttpServer, HeadOfAStreamHasNoBody) {
  TestServer server;
  RawClient client(server.address());
  client.send("HEAD /wait HTTP/1.1\r\n\r\n");
  const auto exchange = server.take();
  exchange->start_stream(kEvents);
  exchange->write("data: 1\n\n");
  exchange->end_stream();
  ASSERT_TRUE(client.read_response(true));
  EXPECT_EQ(client.ask(kGetEcho)->body, "GET /echo ");
}

// O8.11
TEST(HttpServer, ChunkedBodiesAreRead) {
  TestServer server;
  RawClient client(server.address());
  std::string request = "POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (const char c : std::string("hello")) request += std::string("1;ext=\"v\"\r\n") + c + "\r\n";
  for (const char c : request + "0\r\n\r\n") client.send({&c, 1});
  EXPECT_EQ(client.read_response()->body, "POST /echo hello");
}

// O8.11
TEST(HttpServer, ContradictoryLengthsAreRefusedAndNothingIsSmuggled) {
  TestServer server;
  for (const std::string_view headers :
       {"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n", "Content-Length: 6\r\nContent-Length: 7\r\n", "Content-Length: -1\r\n",
        "Content-Length: 99999999999999999999\r\n"}) {
    RawClient client(server.address());
    client.send("POST /echo HTTP/1.1\r\nHost: h\r\n" + std::string(headers) + "\r\n0\r\n\r\nx" + std::string(kGetEcho));
    const auto got = client.read_response();
    ASSERT_TRUE(got) << headers;
    EXPECT_EQ(got->status, 400) << headers;
    EXPECT_TRUE(got->has("Connection: close\r\n"));
    EXPECT_EQ(client.read_all(), "") << headers;
  }
  EXPECT_EQ(server.requests(), 0);
  EXPECT_EQ(server.metrics().bad_requests_total.value(), 4u);
}

// O8.11
TEST(HttpServer, ABodyThatStopsIs408AndLeavesOthersAlone) {
  TestServer server(quick_limits());
  RawClient client(server.address()), other(server.address());
  client.send("POST /echo HTTP/1.1\r\nContent-Length: 100\r\n\r\nhalf");
  EXPECT_EQ(other.ask(kGetEcho)->status, 200);
  const auto got = client.read_response();
  ASSERT_TRUE(got);
  EXPECT_EQ(got->status, 408);
  EXPECT_TRUE(client.ends_within(2s));
  EXPECT_EQ(server.metrics().timeouts_total.value(), 1u);
}

TEST(HttpServer, ASlowHeaderIs408) {
  TestServer server(quick_limits());
  RawClient client(server.address());
  const auto begin = std::chrono::steady_clock::now();
  std::optional<std::string> got;
  for (int i = 0; i < 100 && !got; ++i) {  // progress does not buy time
    client.send(i == 0 ? "G" : "E");
    got = client.read_until("\r\n\r\n", 20ms);
  }
  ASSERT_TRUE(got);
  EXPECT_TRUE(got->starts_with("HTTP/1.1 408 ")) << *got;
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 3s);
}

TEST(HttpServer, ASlowBodyHasATotalTime) {
  ConnectionLimits limits = quick_limits();
  limits.body_total_timeout = 600ms;
  TestServer server(limits);
  RawClient client(server.address());
  client.send("POST /echo HTTP/1.1\r\nContent-Length: 1000\r\n\r\n");
  std::optional<std::string> got;
  for (int i = 0; i < 200 && !got; ++i) {
    client.send("x");
    got = client.read_until("\r\n\r\n", 20ms);
  }
  ASSERT_TRUE(got);
  EXPECT_TRUE(got->starts_with("HTTP/1.1 408 ")) << *got;
}

TEST(HttpServer, AnIdleConnectionIsClosedWithoutAWord) {
  ConnectionLimits limits;
  limits.idle_timeout = 300ms;
  TestServer server(limits);
  RawClient fresh(server.address()), used(server.address());
  ASSERT_TRUE(used.ask(kGetEcho));
  EXPECT_EQ(fresh.read_all(), "");
  EXPECT_TRUE(used.ends_within(3s));
  EXPECT_TRUE(server.server().wait_until_idle(2s));
}

// O8.11
TEST(HttpServer, ExpectIsAnsweredAtOnce) {
  HttpServerOptions options;
  options.limits.body_bytes = 1000;
  options.on_head = [](const HttpRequest& head) -> std::optional<HttpResponse> {
    if (head.path == "/echo") return std::nullopt;
    return HttpResponse{.status = 404, .body = "no"};
  };
  TestServer server(std::move(options));
  const auto first_line = [&](std::string_view path, std::string_view more) {
    RawClient client(server.address());
    client.send("POST " + std::string(path) + " HTTP/1.1\r\nExpect: 100-Continue\r\n" + std::string(more) + "\r\n");
    return client.read_until("\r\n", 900ms).value_or("nothing");
  };
  EXPECT_EQ(first_line("/echo", "Content-Length: 5\r\n"), "HTTP/1.1 100 Continue\r\n");
  EXPECT_EQ(first_line("/echo", "Transfer-Encoding: chunked\r\n"), "HTTP/1.1 100 Continue\r\n");
  EXPECT_EQ(first_line("/echo", "Content-Length: 2000000\r\n"), "HTTP/1.1 413 Content Too Large\r\n");
  EXPECT_EQ(first_line("/nothing", "Content-Length: 500\r\n"), "HTTP/1.1 404 Not Found\r\n");
  RawClient client(server.address());
  client.send("POST /echo HTTP/1.1\r\nExpect: tea\r\nContent-Length: 5\r\n\r\n");
  EXPECT_EQ(client.read_response()->status, 417);
  RawClient whole(server.address());
  whole.send("POST /echo HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
  ASSERT_TRUE(whole.read_until("100 Continue\r\n\r\n"));
  EXPECT_EQ(whole.ask("hello")->body, "POST /echo hello");
}

TEST(HttpServer, AVetoReadsASmallBodyAndClosesOnALargeOne) {
  HttpServerOptions options;
  options.on_head = [](const HttpRequest&) { return HttpResponse{.status = 401, .body = "key"}; };
  TestServer server(std::move(options));
  RawClient small(server.address()), large(server.address());
  EXPECT_EQ(small.ask("POST /echo HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello")->status, 401);
  EXPECT_EQ(small.ask(kGetEcho)->status, 200) << "the connection goes on";
  // All of a large body is sent before the answer is read, as simple clients do: it must not be lost to a reset.
  EXPECT_TRUE(large.send("POST /echo HTTP/1.1\r\nContent-Length: 8000000\r\n\r\n" + std::string(8'000'000, 'x')));
  const auto got = large.read_response();
  ASSERT_TRUE(got);
  EXPECT_EQ(got->status, 401);
  EXPECT_TRUE(got->has("Connection: close\r\n"));
  EXPECT_TRUE(large.ends_within(2s));
  EXPECT_EQ(server.requests(), 1);
}

TEST(HttpServer, ALargeAnswerGoesOutWhole) {
  TestServer server;
  RawClient client(server.address());
  client.send(kGetWait);
  const std::string body(20 << 20, 'b');  // more than max_unsent_bytes, which is for streams
  server.take()->respond({.body = body});
  EXPECT_EQ(client.read_response()->body, body);
}

TEST(HttpServer, DroppingAnExchangeIsAnError) {
  TestServer server;
  RawClient unanswered(server.address()), streaming(server.address());
  unanswered.send(kGetWait);
  server.take().reset();
  EXPECT_EQ(unanswered.read_response()->status, 500);
  EXPECT_EQ(unanswered.ask(kGetEcho)->status, 200);
  streaming.send(kGetWait);
  auto exchange = server.take();
  exchange->start_stream(kEvents);
  exchange->write("data: 1\n\n");
  ASSERT_TRUE(streaming.read_until("data: 1\n\n\r\n"));
  exchange.reset();
  EXPECT_EQ(streaming.read_all(), "") << "no last chunk: the client sees that it is not whole";
}

TEST(HttpServer, TooManyConnectionsAreTold) {
  ConnectionLimits limits;
  limits.max_connections = 2;
  TestServer server(limits);
  RawClient one(server.address()), two(server.address());
  ASSERT_TRUE(one.ask(kGetEcho));
  ASSERT_TRUE(two.ask(kGetEcho));
  RawClient three(server.address());
  const auto got = three.ask(kGetEcho);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->status, 503);
  EXPECT_TRUE(three.ends_within(2s));
  EXPECT_EQ(server.metrics().refused_connections_total.value(), 1u);
  one.close();
  for (int i = 0; i < 100; ++i) {
    RawClient again(server.address());
    if (const auto answer = again.ask(kGetEcho); answer && answer->status == 200) return;
    std::this_thread::sleep_for(20ms);
  }
  FAIL() << "no room after a client left";
}

TEST(HttpServer, PostRunsInOrderOnTheConnectionsThread) {
  TestServer server;
  RawClient client(server.address());
  client.send(kGetWait);
  const auto exchange = server.take();
  std::promise<std::thread::id> first, second;
  exchange->post([&] { first.set_value(std::this_thread::get_id()); });
  exchange->respond({});
  exchange->post([&] { second.set_value(std::this_thread::get_id()); });
  auto one = first.get_future(), two = second.get_future();
  ASSERT_EQ(one.wait_for(5s), std::future_status::ready);
  ASSERT_EQ(two.wait_for(5s), std::future_status::ready);
  EXPECT_EQ(one.get(), two.get());
}

TEST(HttpServer, ManyConnectionsOnManyThreads) {
  HttpServerOptions options;
  options.io_threads = 3;
  TestServer server(std::move(options));
  std::vector<std::thread> clients;
  std::atomic<int> right{0};
  for (int t = 0; t < 4; ++t)
    clients.emplace_back([&] {
      for (int i = 0; i < 20; ++i) {
        RawClient client(server.address());
        for (int k = 0; k < 3; ++k)
          if (const auto got = client.ask(kGetEcho); got && got->body == "GET /echo ") ++right;
      }
    });
  std::thread streamer([&] {
    for (int i = 0; i < 20; ++i) {
      RawClient client(server.address());
      client.send(kGetWait);
      const auto exchange = server.take();
      if (!exchange) return;
      exchange->start_stream(kEvents);
      for (int k = 0; k < 50; ++k) exchange->write("data: x\n\n");
      exchange->end_stream();
      if (const auto got = client.read_response(); got && got->body.size() == 450) ++right;
    }
  });
  for (std::thread& one : clients) one.join();
  streamer.join();
  EXPECT_EQ(right, 4 * 20 * 3 + 20);
}

// O12.2, O12.3
TEST(HttpServer, StopClosesIdleConnectionsAndLetsBusyOnesFinish) {
  TestServer server;
  RawClient idle(server.address()), waiting(server.address()), streaming(server.address());
  ASSERT_TRUE(idle.ask(kGetEcho));
  waiting.send(kGetWait);
  const auto answer = server.take();
  streaming.send(kGetWait);
  const auto stream = server.take();
  stream->start_stream(kEvents);
  ASSERT_TRUE(streaming.read_until("\r\n\r\n"));
  server.server().stop_accepting();
  EXPECT_TRUE(idle.ends_within(1s));
  EXPECT_FALSE(RawClient(server.address()).connected());
  EXPECT_FALSE(server.server().wait_until_idle(50ms));
  answer->respond({.body = "late"});
  const auto got = waiting.read_response();
  ASSERT_TRUE(got);
  EXPECT_EQ(got->body, "late");
  EXPECT_TRUE(got->has("Connection: close\r\n"));
  EXPECT_TRUE(waiting.ends_within(1s));
  stream->write("data: last\n\n");
  stream->end_stream();
  EXPECT_TRUE(streaming.read_until("data: last\n\n\r\n0\r\n\r\n"));
  EXPECT_TRUE(server.server().wait_until_idle(2s));
}

TEST(HttpServer, ExchangesOutliveTheServer) {
  TestServer server;
  RawClient client(server.address());
  client.send(kGetWait);
  const auto exchange = server.take();
  Signal gone;
  exchange->on_gone([&, exchange] { gone.add(); });
  exchange->post([&] { gone.add(); });
  ASSERT_TRUE(gone.reaches(1));
  server.end();
  EXPECT_EQ(gone.count(), 2);
  exchange->respond({.body = "to nobody"});
  exchange->post([] { FAIL(); });
}

}  // namespace
}  // namespace millrace::server
