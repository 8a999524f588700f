#include "engine/event_channel.h"

#include <gtest/gtest.h>

namespace millrace::engine {
namespace {

using namespace std::chrono_literals;

Event event_of(std::string text, int tokens) {
  Event event{.text = std::move(text), .tokens = {}, .finished = {}, .stop_reason = {}, .error = {}, .usage = {}, .cache = {}};
  for (int i = 0; i < tokens; ++i) event.tokens.push_back({{i}, 0, 0, {}});
  return event;
}

TEST(EventChannel, what_is_not_read_becomes_one_event) {
  EventChannel channel;
  EXPECT_FALSE(channel.next(0ms));
  Event event = event_of("a", 1);
  event.usage.completion_tokens = 1;
  EXPECT_TRUE(channel.push(event).first);
  EXPECT_TRUE(event.text.empty() && event.tokens.empty()) << "taken";
  event.text = "b";
  event.tokens = event_of("", 2).tokens;
  event.usage.completion_tokens = 3;
  const auto pushed = channel.push(event);
  EXPECT_FALSE(pushed.first);
  EXPECT_EQ(pushed.unread, 3u);
  const auto read = channel.next(0ms);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->text, "ab");
  EXPECT_EQ(read->tokens.size(), 3u);
  EXPECT_EQ(read->usage.completion_tokens, 3);
  EXPECT_FALSE(read->finished);
  EXPECT_FALSE(channel.next(0ms)) << "each is read once";
  EXPECT_TRUE(channel.push(event).first);
}

TEST(EventChannel, what_belongs_to_the_end_comes_with_it_and_nothing_after) {
  EventChannel channel;
  Event event = event_of("a", 1);
  event.cache.cached = 7;
  event.stop_reason = StopString{2};
  channel.push(event);
  const auto first = channel.next(0ms);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->cache.cached, 0);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(first->stop_reason));
  event.finished = Finish::stop;
  channel.push(event);
  const auto last = channel.next(0ms);
  ASSERT_TRUE(last);
  EXPECT_EQ(last->finished, Finish::stop);
  EXPECT_EQ(last->cache.cached, 7);
  EXPECT_TRUE(std::holds_alternative<StopString>(last->stop_reason));
  EXPECT_FALSE(channel.next(0ms));
  EXPECT_DEATH(channel.push(event), "an event follows the last one");
}

}  // namespace
}  // namespace millrace::engine
