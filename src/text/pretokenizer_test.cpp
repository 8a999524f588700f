#include "text/pretokenizer.h"

#include <gtest/gtest.h>

#include "text/regex_dialect.h"

namespace millrace::text {
namespace {

using Behavior = PreTokenizer::Behavior;
using Parts = std::vector<std::string>;

Parts parts_of(const Words& words) {
  Parts out;
  std::size_t begin = 0;
  for (const std::size_t end : words.ends) out.push_back(words.text.substr(begin, end - begin)), begin = end;
  return out;
}

Parts split(const char* pattern, Behavior behavior, const std::string& text, bool invert = false) {
  PreTokenizer steps;
  steps.add(PreTokenizer::Split{*Regex::compile(pattern), behavior, invert});
  Regex::Scratch scratch;
  return parts_of(steps.apply(text, true, scratch));
}

TEST(PreTokenizer, a_match_is_removed_isolated_or_joined_to_a_neighbour) {
  const std::string text = "a--b-";
  EXPECT_EQ(split("-", Behavior::removed, text), (Parts{"a", "b"}));
  EXPECT_EQ(split("-", Behavior::isolated, text), (Parts{"a", "-", "-", "b", "-"}));
  EXPECT_EQ(split("-", Behavior::merged_with_previous, text), (Parts{"a-", "-", "b-"}));
  EXPECT_EQ(split("-", Behavior::merged_with_next, text), (Parts{"a", "-", "-b", "-"}));
  EXPECT_EQ(split("-", Behavior::contiguous, text), (Parts{"a", "--", "b", "-"}));
  EXPECT_EQ(split("[a-z]+", Behavior::removed, text, /*invert=*/true), (Parts{"a", "b"}));
  EXPECT_EQ(split("-", Behavior::isolated, ""), Parts{});
}

TEST(PreTokenizer, a_step_sees_each_word_alone) {
  PreTokenizer steps;
  steps.add(PreTokenizer::Split{*Regex::compile("\\n"), Behavior::isolated, false});
  steps.add(PreTokenizer::Split{*Regex::compile(R"(\s+(?!\S)|b(?=\n))"), Behavior::isolated, false});
  Regex::Scratch scratch;
  EXPECT_EQ(parts_of(steps.apply("a  \nb\nc", true, scratch)), (Parts{"a", "  ", "\n", "b", "\n", "c"}));
}

TEST(PreTokenizer, broken_bytes_are_words_of_their_own_and_hide_nothing) {
  EXPECT_EQ(split(R"(\p{L}+|\d)", Behavior::isolated,
                  "ab\xFF"
                  "cd1\xE2\x82"),
            (Parts{"ab", "\xFF", "cd", "1", "\xE2\x82"}));
}

TEST(Regex, classes_are_those_of_unicode_as_the_reference_reads_them) {
  EXPECT_EQ(split(R"(\s)", Behavior::removed, "a\u00A0b\u3000c\u0085d\u180Ee"), (Parts{"a", "b", "c", "d\u180Ee"}));
  EXPECT_EQ(split(R"(\w+)", Behavior::isolated, "q\u0323\u0307 x_1\u203F2"),
            (Parts{"q\u0323\u0307", " ", "x_1\u203F2"}));
  EXPECT_EQ(split(R"([\s\h]+)", Behavior::isolated, "xyab 1z"), (Parts{"xy", "ab 1", "z"}));
  EXPECT_EQ(split(R"(\u00e9|(?i:k))", Behavior::isolated, "aéK\u212A"), (Parts{"a", "é", "K", "\u212A"}));
  EXPECT_EQ(split("^b|a$", Behavior::isolated, "ca\nbb"), (Parts{"c", "a", "\n", "b", "b"}));
}

TEST(Regex, what_would_mean_something_else_is_refused) {
  for (const char* pattern : {"[a&&b]", "[a[b]]", "[[:punct:]]", "(?m).", "\\p{N}{1,3}+", "[\\W]", "\\H", "[]a]",
                              "\\u12", "(", "[a", "a**", "\\p{Nope}"})
    EXPECT_FALSE(Regex::compile(pattern).ok()) << pattern;
  EXPECT_EQ(*pcre_from_oniguruma(R"(\p{L}+\d{2}\\s)"), R"(\p{L}+\d{2}\\s)");
}

TEST(Regex, a_quoted_text_finds_itself) {
  const std::string odd = R"(a.b*[c]\d(?:x){2}|$^-&/)";
  EXPECT_EQ(split(Regex::quoted(odd).c_str(), Behavior::isolated, "1" + odd + "2"), (Parts{"1", odd, "2"}));
}

TEST(Regex, a_search_that_backtracks_without_end_gives_up) {
  const std::string text(5000, 'a');
  EXPECT_EQ(split("(a+)+b", Behavior::isolated, text), Parts{text});
}

TEST(Regex, nested_repetition_over_a_long_text_needs_no_stack) {
  const std::string text(300'000, 'a');
  EXPECT_EQ(split("(?:a|b)+", Behavior::isolated, text), Parts{text});
}

TEST(Regex, empty_matches_are_passed_over) {
  EXPECT_EQ(split("x*", Behavior::isolated, "axxé"), (Parts{"a", "xx", "é"}));
}

}  // namespace
}  // namespace millrace::text
