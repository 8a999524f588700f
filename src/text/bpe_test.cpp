#include "text/bpe.h"

#include <gtest/gtest.h>

#include <random>

#include "text/byte_level.h"
#include "text/testing/small_vocabulary.h"

namespace millrace::text {
namespace {

using Ids = std::vector<TokenId>;

/// The definition: the earliest merge among all neighbours, leftmost of equal ones, again and again.
Ids merged_slowly(Ids ids, const std::vector<std::array<TokenId, 3>>& merges) {
  for (;;) {
    std::size_t best = merges.size(), at = 0;
    for (std::size_t i = 0; i + 1 < ids.size(); ++i)
      for (std::size_t m = 0; m < best; ++m)
        if (merges[m][0] == ids[i] && merges[m][1] == ids[i + 1]) best = m, at = i;
    if (best == merges.size()) return ids;
    ids[at] = merges[best][2];
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
}

TEST(Bpe, gives_what_the_definition_gives_for_200_random_vocabularies) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    Bpe bpe({.byte_level = true});
    std::vector<std::string> tokens = {"a", "b", "c"};
    std::vector<std::array<TokenId, 3>> merges;
    for (std::size_t i = 0; i < tokens.size(); ++i) bpe.add_token(tokens[i], static_cast<TokenId>(i));
    for (int n = 0; n < 25; ++n) {
      const auto left = static_cast<TokenId>(random() % tokens.size()),
                 right = static_cast<TokenId>(random() % tokens.size());
      const std::string both = tokens[static_cast<std::size_t>(left)] + tokens[static_cast<std::size_t>(right)];
      if (bpe.find(both)) continue;
      const auto id = static_cast<TokenId>(tokens.size());
      tokens.push_back(both);
      bpe.add_token(both, id);
      bpe.add_merge(left, right, id);
      merges.push_back({left, right, id});
    }
    Bpe::Scratch scratch;
    for (int round = 0; round < 20; ++round) {
      std::string word;
      Ids letters, got;
      for (unsigned n = random() % 40; n > 0; --n) {
        letters.push_back(static_cast<TokenId>(random() % 3));
        word += tokens[static_cast<std::size_t>(letters.back())];
      }
      bpe.encode(word, scratch, got);
      ASSERT_EQ(got, merged_slowly(letters, merges)) << "seed " << seed << ", word " << word;
    }
  }
}

TEST(Bpe, a_text_given_twice_keeps_its_first_token_and_a_pair_its_last_rank) {
  Bpe bpe({.byte_level = true});
  for (TokenId i = 0; i < 3; ++i) bpe.add_token(std::string(1, "abc"[i]), i);
  bpe.add_token("ab", 3), bpe.add_token("bc", 4), bpe.add_token("ab", 9);
  EXPECT_EQ(bpe.find("ab"), 3);
  Bpe::Scratch scratch;
  const auto encode = [&] { Ids out; bpe.encode("abc", scratch, out); return out; };
  bpe.add_merge(0, 1, 3);
  bpe.add_merge(1, 2, 4);
  EXPECT_EQ(encode(), (Ids{3, 2}));
  bpe.add_merge(0, 1, 3);
  EXPECT_EQ(encode(), (Ids{0, 4}));
}

TEST(Bpe, what_has_no_token_vanishes_unless_there_is_an_unknown_one) {
  Bpe bpe({});
  bpe.add_token("é", 1);
  Bpe::Scratch scratch;
  Ids out;
  bpe.encode("xéx", scratch, out);
  EXPECT_EQ(out, Ids{1});
  bpe.set_unknown(0);
  bpe.encode("xé\xC3", scratch, out);
  EXPECT_EQ(out, (Ids{1, 0, 1, 0}));
}

TEST(ByteLevel, every_byte_has_its_character) {
  for (int b = 0; b < 256; ++b) {
    const std::string byte(1, static_cast<char>(b));
    EXPECT_EQ(bytes_from_alphabet(testing::in_alphabet(byte)), byte) << b;
  }
  EXPECT_EQ(bytes_from_alphabet("Ġé"), " \xE9");
  EXPECT_EQ(bytes_from_alphabet("漢"), std::nullopt);
  EXPECT_EQ(bytes_from_alphabet(" "), std::nullopt);
  EXPECT_EQ(byte_from_hex_token("<0x0A>"), '\n');
  for (const char* wrong : {"<0x0a>", "<0xA>", "<0x0A", "0x0A", "<0xG0>", ""})
    EXPECT_EQ(byte_from_hex_token(wrong), std::nullopt);
}

}  // namespace
}  // namespace millrace::text
