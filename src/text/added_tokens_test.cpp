#include "text/added_tokens.h"

#include <gtest/gtest.h>

namespace millrace::text {
namespace {

/// "text|[id]|text": the parts of a text.
std::string split(const AddedTokens& added, std::string_view text, const ControlRanges& control) {
  std::string out;
  std::size_t done = 0;
  for (const AddedTokens::Part& part : added.split(text, control)) {
    EXPECT_EQ(part.begin, done);
    EXPECT_LT(part.begin, part.end);
    done = part.end;
    if (!out.empty()) out += '|';
    out += part.token ? "[" + std::to_string(*part.token) + "]"
                      : std::string(text.substr(part.begin, part.end - part.begin));
  }
  EXPECT_EQ(done, text.size());
  return out;
}
std::string split(const AddedTokens& added, std::string_view text) {
  return split(added, text, ControlRanges::all(text.size()));
}

TEST(AddedTokens, leftmost_first_then_longest) {
  AddedTokens added;
  added.add({"ab", 1, false});
  added.add({"abcd", 2, false});
  added.add({"bcdef", 3, false});
  added.add({"ab", 9, false});
  added.add({"", 8, false});
  EXPECT_EQ(split(added, "xabcy"), "x|[1]|cy");
  EXPECT_EQ(split(added, "abcdef"), "[2]|ef");
  EXPECT_EQ(split(added, "bcdefab"), "[3]|[1]");
  EXPECT_EQ(split(added, ""), "");
}

TEST(AddedTokens, strip_takes_blanks_of_any_kind_but_none_that_belong_to_another) {
  AddedTokens added;
  added.add({"<l>", 1, true, /*lstrip=*/true});
  added.add({"<r>", 2, true, false, /*rstrip=*/true});
  EXPECT_EQ(split(added, "a \n\u3000<l> b"), "a|[1]| b");
  EXPECT_EQ(split(added, "a <r>\t\u00A0b"), "a |[2]|b");
  EXPECT_EQ(split(added, "<r>  <l>"), "[2]|[1]");
  EXPECT_EQ(split(added, "  <l>"), "[1]");
}

TEST(AddedTokens, a_single_word_does_not_touch_another) {
  AddedTokens added;
  added.add({"is", 1, false, false, false, /*single_word=*/true});
  EXPECT_EQ(split(added, "is this is_ é is-is"), "[1]| this is_ é |[1]|-|[1]");
  EXPECT_EQ(split(added, "éis"), "éis");
  EXPECT_EQ(split(added, "\xFFis"), "\xFF|[1]");
}

TEST(AddedTokens, a_special_token_needs_all_its_bytes_from_the_template) {
  AddedTokens added;
  added.add({"<end>", 1, true});
  added.add({"<end>!", 2, true});
  added.add({"<en", 3, false});
  MarkedText text;
  text.append("<end>", Origin::template_text);
  text.append("!<end>", Origin::caller);
  text.append("<e", Origin::template_text);
  text.append("nd>", Origin::caller);
  EXPECT_EQ(split(added, text.text, ControlRanges::of(text)), "[1]|!|[3]|d>|[3]|d>");
  EXPECT_EQ(split(added, "<end>!", ControlRanges::none()), "[3]|d>!");
  EXPECT_EQ(split(added, "<end>!"), "[2]");
}

}  // namespace
}  // namespace millrace::text
