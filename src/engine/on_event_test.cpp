// Readers that are told instead of waiting: one thread reads many requests, and none of its reads waits.

#include <gtest/gtest.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "engine/testing/engine_fixture.h"

namespace millrace::engine {
namespace {

using namespace std::chrono_literals;
using namespace testing;

using OnEventTest = EngineTest;

/// What stands for an event loop: numbers posted by the engine thread.
class Inbox {
 public:
  void post(int number) {
    const std::lock_guard lock(mutex_);
    numbers_.push_back(number);
    ++posted_;
    some_.notify_one();
  }
  /// nullopt: nothing within a minute.
  std::optional<int> take() {
    std::unique_lock lock(mutex_);
    if (!some_.wait_for(lock, 60s, [&] { return !numbers_.empty(); })) return std::nullopt;
    const int number = numbers_.front();
    numbers_.pop_front();
    return number;
  }
  int posted() {
    const std::lock_guard lock(mutex_);
    return posted_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable some_;
  std::deque<int> numbers_;
  int posted_ = 0;
};

TEST_F(OnEventTest, a_reader_that_reads_only_when_told_gets_all_of_many_requests) {
  start({.workers = 2}, {.max_running = 4, .check_invariants = true});
  constexpr int kMany = 12;
  Inbox inbox;
  std::vector<Request> requests;
  std::vector<Handle> handles;
  std::vector<Answer> answers(kMany);
  for (int i = 0; i < kMany; ++i) {
    requests.push_back(story(20 + i, static_cast<std::uint64_t>(i)));
    requests.back().on_event = [&inbox, i](int answer) { inbox.post(i + answer); };
    handles.push_back(submit(requests.back()));
  }
  std::thread reader([&] {
    for (int open = kMany; open > 0;) {
      const auto number = inbox.take();
      ASSERT_TRUE(number);
      auto& answer = answers[static_cast<std::size_t>(*number)];
      // Told twice, for the last event came before the one before was read: the second time nothing is there.
      const auto event = handles[static_cast<std::size_t>(*number)].next(0ms);
      if (!event) continue;
      answer.text += event->text;
      answer.finished = event->finished;
      if (event->finished) --open;
    }
  });
  reader.join();
  for (std::size_t i = 0; i < kMany; ++i) {
    EXPECT_EQ(answers[i].text, answer_alone(requests[i], tokenizer_).text);
    EXPECT_EQ(answers[i].finished, Finish::length);
  }
}

TEST_F(OnEventTest, is_told_once_while_nothing_is_read_and_once_more_at_the_end) {
  Engine& engine = start();
  Inbox inbox;
  Request request = story(60);
  request.on_event = [&](int) { inbox.post(0); };
  Handle handle = submit(request);
  EXPECT_EQ(engine.drain(60s), 0);
  EXPECT_EQ(inbox.posted(), 2);
  const auto event = handle.next(0ms);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->finished, Finish::length);
  EXPECT_EQ(event->tokens.size(), 60u);
  EXPECT_FALSE(handle.next(0ms));
}

TEST_F(OnEventTest, is_told_of_the_end_of_a_request_that_never_had_a_token) {
  Engine& engine = start({.step_time = 1ms}, {.max_running = 1});
  Inbox inbox;
  Handle running = submit(story(150));
  Request request = story(150);
  request.on_event = [&](int) { inbox.post(0); };
  std::optional<Handle> waiting = submit(request);
  waiting->cancel();
  EXPECT_TRUE(inbox.take());
  EXPECT_EQ(waiting->next(0ms)->finished, Finish::cancelled);

  waiting = submit(request);
  waiting.reset();  // nobody can read it any more
  EXPECT_TRUE(inbox.take());

  request.max_new_tokens = 0;
  running.cancel();
  waiting = submit(request);
  EXPECT_TRUE(inbox.take());
  EXPECT_EQ(waiting->next(0ms)->finished, Finish::length);
  EXPECT_EQ(engine.drain(60s), 0);
  EXPECT_EQ(inbox.posted(), 3);
}

TEST_F(OnEventTest, says_which_answer_it_is) {
  Engine& engine = start();
  Inbox inbox;
  Request request = story(10);
  request.on_event = [&](int answer) { inbox.post(answer); };
  auto handles = engine.submit(request, 3);
  ASSERT_TRUE(handles);
  EXPECT_EQ(engine.drain(60s), 0);
  std::vector<int> told(3);
  for (int left = inbox.posted(); left > 0; --left) ++told[static_cast<std::size_t>(*inbox.take())];
  EXPECT_EQ(told, (std::vector<int>{2, 2, 2}));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(read_all((*handles)[static_cast<std::size_t>(i)]).text, answer_alone(request, tokenizer_, static_cast<std::uint64_t>(i)).text);
}

TEST_F(OnEventTest, who_asks_hears_how_far_its_prompt_has_come) {
  start({.slices = 2}, {.step_tokens = 8, .max_running = 2, .check_invariants = true});
  Request request = story(3);
  request.prompt.clear();
  for (int i = 0; i < 30; ++i) request.prompt.push_back(10 + i % 8);
  const std::string want = answer_alone(request, tokenizer_).text;
  request.tell_progress = true;
  std::vector<int> done;  // on the engine thread, which reads at each step
  std::string text;
  std::mutex mutex;
  std::optional<Handle> handle;
  Inbox inbox;
  request.on_event = [&](int) {
    const std::lock_guard lock(mutex);
    while (const auto event = handle->next(0ms)) {
      if (event->tokens.empty() && !event->finished) done.push_back(event->usage.prompt_done);
      text += event->text;
      if (event->finished) inbox.post(0);
    }
  };
  {
    const std::lock_guard lock(mutex);
    handle = submit(request);
  }
  ASSERT_TRUE(inbox.take());
  engine_.reset();
  EXPECT_EQ(done, (std::vector<int>{8, 16, 24}));
  EXPECT_EQ(text, want);
}

TEST_F(OnEventTest, the_reader_may_read_and_cancel_where_it_is_told) {
  start({.step_time = 1ms});
  std::mutex mutex;
  std::optional<Handle> handle;
  Inbox inbox;
  Request request = story(150);
  request.on_event = [&](int) {
    const std::lock_guard lock(mutex);
    const auto event = handle->next(0ms);
    if (!event) return;
    if (event->finished) inbox.post(static_cast<int>(*event->finished));
    else handle->cancel();
  };
  {
    const std::lock_guard lock(mutex);
    handle = submit(request);
  }
  EXPECT_EQ(inbox.take(), static_cast<int>(Finish::cancelled));
  engine_.reset();
}

}  // namespace
}  // namespace millrace::engine
