#include "cli/service_manager.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstddef>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace millrace::cli {
namespace {

struct Variable {
  Variable(const char* name, const std::string& value) : name(name) { setenv(name, value.c_str(), 1); }
  ~Variable() { unsetenv(name); }
  const char* name;
};

/// The status of a child that ran `what` with `descriptor` as its only inherited one.
template <class What>
int in_child_with(int descriptor, What what) {
  const pid_t child = fork();
  if (child == 0) {
    dup2(descriptor, 3);
    setenv("LISTEN_FDS", "1", 1);
    setenv("LISTEN_PID", std::to_string(getpid()).c_str(), 1);
    _exit(what());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(ServiceManager, WithoutAManagerNothingHappens) {
  notify_service_manager("READY=1");
  EXPECT_TRUE(inherited_descriptors()->empty());
  EXPECT_FALSE(watchdog_interval());
}

/// A manager's end: a datagram socket of a name that leaves no file.
struct Manager {
  Manager() {
    sockaddr_un address{.sun_family = AF_UNIX};
    const std::string name = std::string(1, '\0') + "millrace-test-" + std::to_string(getpid());
    std::memcpy(address.sun_path, name.data(), name.size());
    EXPECT_EQ(bind(descriptor, reinterpret_cast<const sockaddr*>(&address), socklen_t(offsetof(sockaddr_un, sun_path) + name.size())), 0);
    setenv("NOTIFY_SOCKET", ("@" + name.substr(1)).c_str(), 1);
  }
  ~Manager() {
    unsetenv("NOTIFY_SOCKET");
    close(descriptor);
  }

  /// The next state; "" when there is none.
  std::string next() const {
    char text[100];
    const auto n = recv(descriptor, text, sizeof text, MSG_DONTWAIT);
    return std::string(text, n > 0 ? std::size_t(n) : 0);
  }

  const int descriptor = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
};

TEST(ServiceManager, AStateArrivesAsOneDatagram) {
  const Manager manager;
  notify_service_manager("STATUS=loading 42 %");
  notify_service_manager("READY=1\nSTATUS=serving");
  EXPECT_EQ(manager.next(), "STATUS=loading 42 %");
  EXPECT_EQ(manager.next(), "READY=1\nSTATUS=serving");
}

TEST(ServiceManager, AManagerThatDoesNotKeepUpMissesNothingButWhatIsOutdated) {
  const Manager manager;
  for (int percent = 0; percent < 2000; ++percent) notify_service_manager("STATUS=loading");  // more than any queue has room for
  std::vector<std::string> states;
  std::thread reader([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while ((states.empty() || states.back() != "READY=1") && std::chrono::steady_clock::now() < until)
      if (std::string state = manager.next(); !state.empty()) states.push_back(std::move(state));
  });
  notify_service_manager("READY=1");
  reader.join();
  EXPECT_EQ(states.back(), "READY=1");
  EXPECT_LT(states.size(), 2000u);
}

TEST(ServiceManager, AManagerThatIsGoneIsNoError) {
  const Variable variable("NOTIFY_SOCKET", "/nonexistent/notify");
  notify_service_manager("READY=1");
}

TEST(ServiceManager, AListeningSocketIsTakenOnce) {
  const int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(listen(listening, 1), 0);  // binds to a free port
  EXPECT_EQ(in_child_with(listening, [] {
    const auto first = inherited_descriptors();
    if (!first || *first != std::vector<int>{3}) return 1;
    return inherited_descriptors()->empty() ? 0 : 2;
  }), 0);
  close(listening);
}

TEST(ServiceManager, WhatDoesNotListenIsRefused) {
  const int datagrams = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(in_child_with(datagrams, [] {
    const auto taken = inherited_descriptors();
    return !taken && taken.error().message == "descriptor 3 from the service manager is no listening stream socket" ? 0 : 1;
  }), 0);
  close(datagrams);
}

TEST(ServiceManager, SocketsOfAnotherProcessAreNotOurs) {
  const Variable fds("LISTEN_FDS", "1"), pid("LISTEN_PID", "1");
  EXPECT_TRUE(inherited_descriptors()->empty());
}

TEST(ServiceManager, TheWatchdogsIntervalIsRead) {
  const Variable usec("WATCHDOG_USEC", "30000000"), pid("WATCHDOG_PID", std::to_string(getpid()));
  EXPECT_EQ(watchdog_interval(), std::chrono::seconds(30));
}

}  // namespace
}  // namespace millrace::cli
