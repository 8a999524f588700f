#pragma once

// An exchange without a socket: the test's thread is the connection's. And a record that remembers what it was told.

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "server/http.h"
#include "server/request_record.h"

namespace millrace::server::testing {

/// What is posted holds who posted it, who holds the exchange: a real one's mailbox closes, these are emptied when a test has ended.
class FakeExchange : public Exchange {
 public:
  FakeExchange() {
    const std::lock_guard lock(all_mutex_);
    all_.insert(this);
  }
  ~FakeExchange() override {
    const std::lock_guard lock(all_mutex_);
    all_.erase(this);
  }
  static void empty_all() {
    std::vector<std::deque<std::function<void()>>> tasks;  // go after the lock: they may hold an exchange for the last time
    std::vector<std::function<void()>> callbacks;
    const std::lock_guard lock(all_mutex_);
    for (FakeExchange* one : all_) {
      tasks.push_back(std::exchange(one->tasks_, {}));
      callbacks.push_back(std::exchange(one->tell_gone_, nullptr));
    }
  }

  const HttpRequest& request() const override { return request_; }
  void respond(HttpResponse response) override {
    response_ = std::move(response);
    ++answers_;
  }
  void start_stream(HttpResponse head) override {
    response_ = std::move(head);
    streams_ = true;
  }
  void write(std::string data) override {
    if (gone_) return;
    response_.body += data;
    ++writes_;
  }
  void end_stream() override { ++answers_; }
  void on_gone(std::function<void()> gone) override {
    if (gone_) gone();
    else tell_gone_ = std::move(gone);
  }
  void post(std::function<void()> task) override {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    posted_.notify_one();
  }

  /// Runs one task; false: none came in time.
  bool run_one(std::chrono::milliseconds timeout = std::chrono::seconds(60)) {
    std::function<void()> task;
    {
      std::unique_lock lock(mutex_);
      if (!posted_.wait_for(lock, timeout, [&] { return !tasks_.empty(); })) return false;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
    return true;
  }
  /// Until it is answered.
  const HttpResponse& answer() {
    while (answers_ == 0 && run_one()) {
    }
    tell_gone_ = nullptr;
    return response_;
  }
  void leave() {
    gone_ = true;
    if (tell_gone_) std::exchange(tell_gone_, nullptr)();
  }

  HttpRequest request_;
  HttpResponse response_;
  bool streams_ = false, gone_ = false;
  int answers_ = 0, writes_ = 0;

 private:
  static inline std::mutex all_mutex_;
  static inline std::set<FakeExchange*> all_;

  std::function<void()> tell_gone_;
  std::mutex mutex_;
  std::condition_variable posted_;
  std::deque<std::function<void()>> tasks_;
};

class EmptyExchanges : public ::testing::EmptyTestEventListener {
  void OnTestEnd(const ::testing::TestInfo&) override { FakeExchange::empty_all(); }
};
inline const bool kEmptiesExchanges = (::testing::UnitTest::GetInstance()->listeners().Append(new EmptyExchanges), true);

class FakeRecord : public RequestRecord {
 public:
  const std::string& id() const override { return id_; }
  const Tenant& tenant() const override { return tenant_; }
  void read(int prompt_tokens, int answers, int max_tokens, bool stream) override {
    said_ += fmt::format("read {} {} {} {};", prompt_tokens, answers, max_tokens, stream);
  }
  void tokens(int count) override { tokens_ += count; }
  void answer_ended(engine::Finish finish, const engine::Usage&, const engine::CacheReport&) override {
    said_ += fmt::format("ended {};", engine::to_string(finish));
    ++ended_;
  }
  void refused(int status, const std::string& reason) override { said_ += fmt::format("refused {} {};", status, reason); }
  void sent(int status) override { said_ += fmt::format("sent {};", status); }
  void client_gone() override { said_ += "gone;"; }

  std::string id_ = "r1", said_;
  Tenant tenant_;
  int tokens_ = 0, ended_ = 0;
};

}  // namespace millrace::server::testing
