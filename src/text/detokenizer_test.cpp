#include <gtest/gtest.h>

#include <random>

#include "base/utf8.h"
#include "text/testing/small_vocabulary.h"
#include "text/tokenizer.h"

namespace millrace::text {
namespace {

using Ids = std::vector<TokenId>;

std::unique_ptr<Tokenizer> byte_level() { return *make_tokenizer(testing::byte_level_gguf().metadata()); }
std::unique_ptr<Tokenizer> sentencepiece() { return *make_tokenizer(testing::sentencepiece_gguf().metadata()); }

/// What a client sees, one string per token and the rest at the end.
std::vector<std::string> stream(const Tokenizer& tokenizer, const Ids& ids, bool continues) {
  Detokenizer detokenizer(tokenizer, continues);
  std::vector<std::string> out;
  for (const TokenId id : ids) out.push_back(detokenizer.push(id));
  out.push_back(detokenizer.finish());
  return out;
}

std::string joined(const std::vector<std::string>& parts) {
  std::string out;
  for (const std::string& part : parts) out += part;
  return out;
}

TEST(Detokenizer, a_character_of_several_tokens_comes_whole) {  // O3.1
  const auto tokenizer = byte_level();
  EXPECT_EQ(stream(*tokenizer, {270, 271, 240, 159, 152, 128}, true),
            (std::vector<std::string>{"ST", "OP", "", "", "", "😀", ""}));
}

TEST(Detokenizer, a_limit_within_a_character_leaves_one_replacement) {  // O3.2
  const auto tokenizer = byte_level();
  for (const Ids& ids : {Ids{270, 271, 240}, Ids{270, 271, 240, 159}, Ids{270, 271, 240, 159, 152}}) {
    EXPECT_EQ(joined(stream(*tokenizer, ids, true)), "STOP\uFFFD");
    EXPECT_EQ(tokenizer->decode(ids, false), "STOP\uFFFD");
  }
}

TEST(Detokenizer, bytes_that_never_become_a_character_turn_into_replacements_at_once) {  // O3.3
  const auto tokenizer = byte_level();
  for (const Ids& ids : {Ids{255, 65}, Ids{240, 65}, Ids{240, 159, 65}, Ids{128, 65}})
    EXPECT_EQ(joined(stream(*tokenizer, ids, true)), "\uFFFDA");
  EXPECT_EQ(joined(stream(*tokenizer, {237, 160, 128}, true)), "\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(stream(*tokenizer, {255, 65}, true).front(), "\uFFFD");  // not held back
}

TEST(Detokenizer, the_blank_of_the_first_word_stays_when_text_comes_before_it) {  // O3.4
  const auto tokenizer = sentencepiece();
  EXPECT_EQ(joined(stream(*tokenizer, {282, 285}, /*continues=*/true)), " world is");
  EXPECT_EQ(joined(stream(*tokenizer, {282, 285}, /*continues=*/false)), "world is");
  EXPECT_EQ(joined(stream(*tokenizer, {1, 282}, /*continues=*/false)), "world");  // the hidden BOS is no text
}

TEST(Detokenizer, control_tokens_are_hidden_and_other_added_tokens_stay) {  // O3.5
  const auto tokenizer = byte_level();
  EXPECT_EQ(joined(stream(*tokenizer, {260, 302, 304, 307, 266}, true)), "hello<think><tool> world");
  EXPECT_EQ(tokenizer->decode(Ids{260, 302, 304}, /*keep_special=*/true), "hello<|im_start|><think>");
}

TEST(Detokenizer, blanks_before_punctuation_are_kept) {  // O3.6
  const auto tokenizer = byte_level();
  EXPECT_EQ(joined(stream(*tokenizer, {260, 32, 46, 266, 39, 115}, true)), "hello . world's");
}

TEST(Detokenizer, any_stream_of_tokens_is_valid_utf8_in_every_part_and_equals_the_repaired_bytes) {  // A18
  const auto tokenizer = byte_level();
  std::mt19937 random(3);
  for (int round = 0; round < 2000; ++round) {
    Ids ids;
    std::string bytes;
    for (unsigned n = random() % 12; n > 0; --n) {
      // Mostly bytes that begin or go on with a character.
      ids.push_back(static_cast<TokenId>(random() % 4 ? 0x80 + random() % 0x80 : random() % 310));
      if (!tokenizer->is_special(ids.back())) bytes += tokenizer->piece(ids.back());
    }
    const auto parts = stream(*tokenizer, ids, true);
    for (const std::string& part : parts) ASSERT_TRUE(is_valid_utf8(part)) << "round " << round;
    ASSERT_EQ(joined(parts), repair_utf8(bytes)) << "round " << round;
    ASSERT_EQ(tokenizer->decode(ids, false), repair_utf8(bytes)) << "round " << round;
  }
}

}  // namespace
}  // namespace millrace::text
