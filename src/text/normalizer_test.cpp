#include "text/normalizer.h"

#include <gtest/gtest.h>
#include <utf8proc.h>

#include <cstdlib>
#include <random>

#include "base/utf8.h"

namespace millrace::text {
namespace {

std::string by_library(const std::string& text, int options) {
  utf8proc_uint8_t* out = nullptr;
  const auto size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                   &out, static_cast<utf8proc_option_t>(options | UTF8PROC_STABLE));
  EXPECT_GE(size, 0);
  std::string result(reinterpret_cast<const char*>(out), static_cast<std::size_t>(size));
  std::free(out);
  return result;
}

TEST(Normalizer, the_four_forms_are_the_librarys) {
  const std::pair<NormalForm, int> forms[] = {{NormalForm::nfc, UTF8PROC_COMPOSE},
                                              {NormalForm::nfd, UTF8PROC_DECOMPOSE},
                                              {NormalForm::nfkc, UTF8PROC_COMPOSE | UTF8PROC_COMPAT},
                                              {NormalForm::nfkd, UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT}};
  const char32_t some[] = {'e',    'q',    0x301,  0x323,  0x307,  0x345,  0xE9,   0x1100,
                           0x1161, 0x11A8, 0xAC00, 0xFB01, 0xFDFA, 0x2126, 0x1E0C, 0x0344};
  std::mt19937 random(5);
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (unsigned n = random() % 10; n > 0; --n)
      append_utf8(text, random() % 4 ? some[random() % std::size(some)] : 1 + random() % 0xD7FF);
    for (const auto& [form, options] : forms)
      ASSERT_EQ(to_normal_form(text, form), by_library(text, options)) << "round " << round;
  }
}

TEST(Normalizer, broken_bytes_pass_through_and_keep_their_neighbours_apart) {
  EXPECT_EQ(to_normal_form("e\u0301\xFF\u0301", NormalForm::nfc), "é\xFF\u0301");
  EXPECT_EQ(to_normal_form("\xE2\x82", NormalForm::nfkd), "\xE2\x82");
}

TEST(Normalizer, marks_that_pile_up_are_sorted_in_time) {
  // 300,000 marks of two classes in turn: 45 billion steps for a sort by neighbours.
  std::string text = "a", below, above;
  for (int i = 0; i < 150'000; ++i) text += "\u0301\u0323", below += "\u0323", above += "\u0301";
  EXPECT_EQ(to_normal_form(text, NormalForm::nfd), "a" + below + above);
}

TEST(Normalizer, steps_apply_in_order_and_nothing_is_put_before_nothing) {
  Normalizer steps;
  steps.add(Normalizer::Replace{"ab", "b"});
  steps.add(Normalizer::Prepend{"-"});
  steps.add(Normalizer::ReplaceMatches{*Regex::compile("[0-9]+"), "N"});
  Regex::Scratch scratch;
  EXPECT_EQ(steps.apply("aab12c3", scratch), "-abNcN");
  EXPECT_EQ(steps.apply("", scratch), "");
}

}  // namespace
}  // namespace millrace::text
