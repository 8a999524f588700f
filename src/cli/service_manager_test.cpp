#include "cli/service_manager.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

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

TEST(ServiceManager, AStateArrivesAsOneDatagram) {
  sockaddr_un address{.sun_family = AF_UNIX};
  const std::string name = std::string(1, '\0') + "millrace-test-" + std::to_string(getpid());  // abstract: leaves no file
  std::memcpy(address.sun_path, name.data(), name.size());
  const int manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(bind(manager, reinterpret_cast<const sockaddr*>(&address), socklen_t(offsetof(sockaddr_un, sun_path) + name.size())), 0);
  const Variable variable("NOTIFY_SOCKET", "@" + name.substr(1));

  notify_service_manager("STATUS=loading 42 %");
  notify_service_manager("READY=1\nSTATUS=serving");

  char text[100];
  EXPECT_EQ(std::string(text, std::size_t(recv(manager, text, sizeof text, MSG_DONTWAIT))), "STATUS=loading 42 %");
  EXPECT_EQ(std::string(text, std::size_t(recv(manager, text, sizeof text, MSG_DONTWAIT))), "READY=1\nSTATUS=serving");
  close(manager);
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
