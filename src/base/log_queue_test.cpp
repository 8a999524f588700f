#include "base/log_queue.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <future>
#include <sstream>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace millrace {
namespace {

using namespace std::chrono_literals;

/// A pipe of one page: nobody reads it before drain().
class Pipe {
 public:
  Pipe() {
    EXPECT_EQ(::pipe2(ends_, O_CLOEXEC), 0);
    EXPECT_GE(::fcntl(ends_[1], F_SETPIPE_SZ, 4096), 0);
  }
  ~Pipe() {
    close_writer();
    ::close(ends_[0]);
  }
  int writer() const { return ends_[1]; }
  void close_writer() {
    if (ends_[1] >= 0) ::close(std::exchange(ends_[1], -1));
  }

  /// Reads beside whoever writes, until the last writer is closed.
  std::future<std::vector<std::string>> drain() {
    return std::async(std::launch::async, [fd = ends_[0]] {
      std::string all;
      char piece[4096];
      for (ssize_t n; (n = ::read(fd, piece, sizeof piece)) > 0;) all.append(piece, static_cast<std::size_t>(n));
      std::vector<std::string> lines;
      std::istringstream in(all);
      for (std::string line; std::getline(in, line);) lines.push_back(line);
      return lines;
    });
  }

 private:
  int ends_[2] = {-1, -1};
};

std::string line(int i) { return fmt::format("line {:03} {}\n", i, std::string(90, 'x')); }

TEST(LogQueue, who_logs_never_waits_and_what_found_no_room_is_told) {
  Pipe pipe;
  LogQueue queue(pipe.writer(), 10'000);
  queue.start();
  for (int i = 0; i < 500; ++i) queue.add(line(i));  // 50 KB: 4 in the pipe, 10 in the queue
  const auto dropped = queue.dropped();
  EXPECT_GT(dropped, 300u);
  EXPECT_LT(dropped, 420u);

  auto read = pipe.drain();
  ASSERT_TRUE(queue.end(10s, 20s));
  pipe.close_writer();
  const auto lines = read.get();
  EXPECT_EQ(queue.dropped(), dropped);
  // In order, and where some are missing stands how many. Mostly that is once, at the end.
  constexpr std::string_view kTold = "log lines dropped  lines=";
  int next = 0, told = 0;
  for (const std::string& got : lines) {
    if (const auto at = got.find(kTold); at != got.npos) {
      const int n = std::stoi(got.substr(at + kTold.size()));
      next += n;
      told += n;
    } else {
      EXPECT_EQ(got + "\n", line(next++));
    }
  }
  EXPECT_EQ(next, 500);
  EXPECT_EQ(told, static_cast<int>(dropped));
}

TEST(LogQueue, the_end_is_bounded_where_nobody_reads) {
  Pipe pipe;
  LogQueue queue(pipe.writer(), 100'000);
  queue.start();
  for (int i = 0; i < 100; ++i) queue.add(line(i));
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_FALSE(queue.end(50ms, 1s));
  EXPECT_FALSE(queue.end(50ms, 1s));
  EXPECT_LT(std::chrono::steady_clock::now() - begun, 5s);
  EXPECT_EQ(queue.dropped(), 0u);
  auto read = pipe.drain();  // somebody does
  ASSERT_TRUE(queue.end(10s, 20s));
  pipe.close_writer();
  EXPECT_EQ(read.get().size(), 100u);
}

TEST(LogQueue, one_line_may_always_wait_and_without_a_thread_none_does) {
  Pipe pipe;
  LogQueue queue(pipe.writer(), 10);
  queue.add(line(0));
  queue.start();
  auto read = pipe.drain();
  queue.add(fmt::format("{:y<20000}\n", ""));
  ASSERT_TRUE(queue.end(10s, 20s));
  queue.add(line(1));
  queue.start();
  ASSERT_TRUE(queue.end(10s, 20s));
  pipe.close_writer();
  const auto lines = read.get();
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0] + "\n", line(0));
  EXPECT_EQ(lines[1].size(), 20'000u);
  EXPECT_EQ(lines[2] + "\n", line(1));
}

TEST(LogQueue, nothing_is_lost_where_somebody_reads) {
  Pipe pipe;
  LogQueue queue(pipe.writer(), 1 << 20);
  auto read = pipe.drain();
  queue.start();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) queue.add(line(i));
    });
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(queue.end(10s, 20s));
  pipe.close_writer();
  EXPECT_EQ(read.get().size(), 800u);
  EXPECT_EQ(queue.dropped(), 0u);
}

}  // namespace
}  // namespace millrace
