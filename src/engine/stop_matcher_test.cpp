#include "engine/stop_matcher.h"

#include <gtest/gtest.h>

#include <random>

namespace millrace::engine {
namespace {

/// By trying every end and every stop string.
std::string cut_by_hand(const std::string& text, const std::vector<std::string>& stops) {
  for (std::size_t end = 1; end <= text.size(); ++end) {
    std::size_t longest = 0;
    for (const auto& stop : stops)
      if (std::string_view(text).substr(0, end).ends_with(stop)) longest = std::max(longest, stop.size());
    if (longest > 0) return text.substr(0, end - longest);
  }
  return text;
}

TEST(StopMatcher, a_stop_string_is_found_across_pieces_and_never_shown) {  // A18
  const std::vector<std::string> stops = {"STOP"};
  StopMatcher matcher(stops);
  EXPECT_EQ(matcher.push("so S"), "so ");
  EXPECT_EQ(matcher.push("TA S"), "STA ");  // it was none: what was held comes out
  EXPECT_EQ(matcher.push("TO"), "");
  EXPECT_EQ(matcher.push("P and more"), "");
  EXPECT_TRUE(matcher.matched());
  EXPECT_EQ(matcher.push("later"), "");
  EXPECT_EQ(matcher.finish(), "");
}

TEST(StopMatcher, what_was_held_back_comes_out_at_the_end) {
  const std::vector<std::string> stops = {"\n\n"};
  StopMatcher matcher(stops);
  EXPECT_EQ(matcher.push("end\n"), "end");
  EXPECT_EQ(matcher.finish(), "\n");
}

TEST(StopMatcher, without_stops_everything_passes_at_once) {
  StopMatcher matcher({});
  EXPECT_EQ(matcher.push("anything"), "anything");
  EXPECT_FALSE(matcher.matched());
}

TEST(StopMatcher, a_match_in_a_piece_where_none_counts_is_passed_on_and_a_later_one_may_begin_in_it) {
  const std::vector<std::string> stops = {"aba"};
  StopMatcher matcher(stops);
  EXPECT_EQ(matcher.push("xaba", StopMatcher::Match::ignored), "xab");
  EXPECT_EQ(matcher.push("b"), "");
  EXPECT_EQ(matcher.push("a"), "");
  EXPECT_EQ(matcher.match(), 0);
}

TEST(StopMatcher, any_cutting_into_pieces_gives_what_trying_everything_gives_2000_seeds) {
  for (unsigned seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 rng(seed);
    const auto word = [&](unsigned most) {
      std::string text(1 + rng() % most, 'a');
      for (char& c : text) c = static_cast<char>('a' + rng() % 2);
      return text;
    };
    std::vector<std::string> stops(1 + rng() % 3);
    for (auto& stop : stops) stop = word(6) + (rng() % 2 ? "c" : "");
    std::string text = word(40) + (rng() % 2 ? "c" : "") + word(20);
    const std::string want = cut_by_hand(text, stops);
    StopMatcher matcher(stops);
    std::string got;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t n = 1 + rng() % 7;
      got += matcher.push(std::string_view(text).substr(at, n));
      ASSERT_TRUE(want.starts_with(got)) << "leaked: " << got << " of " << text;
      at += n;
    }
    ASSERT_EQ(matcher.matched(), want.size() < text.size());
    if (matcher.matched()) {
      const std::string& stop = stops[static_cast<std::size_t>(matcher.match())];
      ASSERT_TRUE(text.substr(want.size()).starts_with(stop));
      StopMatcher keeps(stops, StopMatcher::Ends::after_match);
      ASSERT_EQ(keeps.push(text), want + stop);
    }
    if (!matcher.matched()) got += matcher.finish();
    ASSERT_EQ(got, want);
  }
}

}  // namespace
}  // namespace millrace::engine
