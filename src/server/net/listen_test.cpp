// Where a server listens, and what it says when it cannot.

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <ctime>

#include "base/testing/scratch_folder.h"
#include "server/net/testing/raw_client.h"
#include "server/net/testing/test_server.h"

namespace millrace::server {
namespace {

using namespace std::chrono_literals;
using millrace::testing::ScratchFolder;
using testing::RawClient;
using testing::TestServer;

constexpr std::string_view kGetEcho = "GET /echo HTTP/1.1\r\nHost: h\r\n\r\n";

int port_of(const std::string& address) { return std::atoi(address.c_str() + address.rfind(':') + 1); }

/// The sentence of the error, or where it listens after all.
std::string attempt(ListenAt at) {
  auto server = HttpServer::listen({.at = {std::move(at)}});
  return server ? "listens on " + (*server)->addresses().front() : server.error().message;
}

// O12.1
TEST(Listen, SaysWhyItCannot) {
  TestServer first;
  const int port = port_of(first.address());
  EXPECT_EQ(attempt({.port = port}), "cannot listen on 127.0.0.1:" + std::to_string(port) + ": the port is in use");
  EXPECT_EQ(attempt({.host = "203.0.113.1", .port = 8080}), "cannot listen on 203.0.113.1:8080: not an address of this machine");
  const auto begin = std::chrono::steady_clock::now();
  const std::string unresolved = attempt({.host = "nosuch.invalid", .port = 8080});
  EXPECT_TRUE(unresolved.starts_with("cannot listen on nosuch.invalid:8080: the name does not resolve (")) << unresolved;
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 2s);
  EXPECT_EQ(attempt({.port = 70'000}), "cannot listen on 127.0.0.1:70000: a port is 0 to 65535");
  EXPECT_EQ(attempt({.descriptor = 0}), "descriptor 0 is no socket that listens");
  EXPECT_EQ(RawClient(first.address()).ask(kGetEcho)->status, 200) << "the first is undisturbed";
}

// O12.2
TEST(Listen, ThePortIsFreeAtOnceAgain) {
  auto first = std::make_unique<TestServer>();
  const int port = port_of(first->address());
  RawClient client(first->address());
  ASSERT_TRUE(client.ask(kGetEcho));
  first.reset();  // the server closes first, so its side of the connection waits for a while
  TestServer second(HttpServerOptions{.at = {{.port = port}}});
  EXPECT_EQ(RawClient(second.address()).ask(kGetEcho)->status, 200);
}

TEST(Listen, LocalhostIsAllOfLoopbackOnOnePort) {
  TestServer server(HttpServerOptions{.at = {{.host = "localhost"}}});
  const auto addresses = server.server().addresses();
  for (const std::string& address : addresses) EXPECT_EQ(port_of(address), port_of(addresses.front()));
  for (const std::string& address : addresses) {
    if (address.starts_with("127.")) {
      EXPECT_EQ(RawClient(address).ask(kGetEcho)->status, 200);
    }
  }
}

TEST(Listen, TakesAnIpv6AddressInBrackets) {
  auto server = HttpServer::listen({.at = {{.host = "[::1]"}}});
  if (!server) GTEST_SKIP() << "no IPv6 here: " << server.error().message;
  EXPECT_TRUE((*server)->addresses().front().starts_with("[::1]:"));
}

TEST(Listen, UnixSocketsComeAndGo) {
  const ScratchFolder folder;
  const std::string path = folder.file("m.sock");
  {
    TestServer server(HttpServerOptions{.at = {{.unix_path = path}}});
    EXPECT_EQ(server.address(), "unix:" + path);
    EXPECT_EQ(RawClient(server.address()).ask(kGetEcho)->body, "GET /echo ");
    EXPECT_EQ(attempt({.unix_path = path}), "cannot listen on unix:" + path + ": another server is there");
    EXPECT_EQ(RawClient(server.address()).ask(kGetEcho)->status, 200) << "the first is undisturbed";
  }
  EXPECT_TRUE(folder.files().empty()) << "the file is removed at the end";

  // What a server leaves that was killed.
  const int dead = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  path.copy(name.sun_path, sizeof name.sun_path - 1);
  ASSERT_EQ(::bind(dead, reinterpret_cast<const sockaddr*>(&name), sizeof name), 0);
  ::close(dead);
  EXPECT_EQ(attempt({.unix_path = path}), "listens on unix:" + path);

  millrace::testing::write_file(path, "precious");
  EXPECT_EQ(attempt({.unix_path = path}), "cannot listen on unix:" + path + ": a file that is no socket is there");
  EXPECT_EQ(millrace::testing::bytes_of_file(path), "precious");
  EXPECT_NE(attempt({.unix_path = std::string(200, 'p')}).find("a socket's path has at most 107 bytes, this one has 200"), std::string::npos);
}

TEST(Listen, TheNextServersFileIsNotRemoved) {
  const ScratchFolder folder;
  const std::string path = folder.file("m.sock");
  TestServer first(HttpServerOptions{.at = {{.unix_path = path}}});
  ::unlink(path.c_str());
  TestServer second(HttpServerOptions{.at = {{.unix_path = path}}});
  first.end();
  EXPECT_EQ(RawClient(second.address()).ask(kGetEcho)->status, 200);
}

// Socket activation
TEST(Listen, TakesADescriptorThatListens) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::bind(fd, reinterpret_cast<const sockaddr*>(&name), sizeof name), 0);
  EXPECT_EQ(attempt({.descriptor = fd}), "descriptor " + std::to_string(fd) + " is no socket that listens");
  ASSERT_EQ(::listen(fd, 10), 0);
  TestServer server(HttpServerOptions{.at = {{.descriptor = fd}, {}}});
  EXPECT_EQ(RawClient(server.address(0)).ask(kGetEcho)->status, 200);
  EXPECT_EQ(RawClient(server.address(1)).ask(kGetEcho)->status, 200);
}

TEST(Listen, WithoutDescriptorsItWaitsAndDoesNotSpin) {
  TestServer server;
  ASSERT_EQ(RawClient(server.address()).ask(kGetEcho)->status, 200);
  ASSERT_TRUE(server.server().wait_until_idle(2s));
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const int next = ::dup(0);
  ::close(next);
  const rlimit one_more{static_cast<rlim_t>(next) + 1, limit.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &one_more);
  RawClient client(server.address());  // takes the last one
  ASSERT_TRUE(client.connected());
  client.send(kGetEcho);
  const std::clock_t before = std::clock();  // CPU time of the process
  EXPECT_TRUE(client.silent_for(400ms));
  EXPECT_LT(std::clock() - before, CLOCKS_PER_SEC / 10);
  ::setrlimit(RLIMIT_NOFILE, &limit);
  EXPECT_EQ(client.read_response()->status, 200);
}

}  // namespace
}  // namespace millrace::server
