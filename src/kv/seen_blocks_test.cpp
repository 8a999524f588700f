#include "kv/seen_blocks.h"

#include <gtest/gtest.h>

#include <list>
#include <random>

namespace millrace::kv {
namespace {

using Known = SeenBlocks::Known;

/// A block behind `parent`, and room for its tokens.
struct Block {
  std::vector<TokenId> tokens;
  BlockHash parent, name;
  Block(std::vector<TokenId> t, BlockHash p = kRootHash) : tokens(std::move(t)), parent(p), name(chain(p, tokens, 0)) {}
  SeenContent content() const { return {name, parent, tokens}; }
};

TEST(SeenBlocks, a_content_is_known_under_the_salts_it_was_noted_with) {
  SeenBlocks seen(8, 4);
  const Block a({1, 2, 3, 4}), b({1, 2, 3, 4}, a.name);
  seen.note(a.content(), 7);
  EXPECT_EQ(seen.find(a.content(), 7), Known::under_this_salt);
  EXPECT_EQ(seen.find(a.content(), 8), Known::under_other_salts);
  EXPECT_EQ(seen.find(b.content(), 7), Known::never);  // the same tokens elsewhere
  seen.note(a.content(), 8);
  EXPECT_EQ(seen.find(a.content(), 8), Known::under_this_salt);
  EXPECT_EQ(seen.find(a.content(), 7), Known::under_this_salt);
}

TEST(SeenBlocks, the_nearest_shares_most_tokens_and_says_what_follows_them) {
  SeenBlocks seen(8, 4);
  EXPECT_EQ(seen.nearest(kRootHash, std::vector<TokenId>{1, 2}, 0).common, -1);
  seen.note(Block({1, 2, 3, 4}).content(), 0);
  seen.note(Block({1, 2, 8, 9}).content(), 0);
  seen.note(Block({1, 2, 3, 5}).content(), 1);  // another tenant's: its text is nobody else's business
  const auto nearest = seen.nearest(kRootHash, std::vector<TokenId>{1, 2, 3, 5}, 0);
  EXPECT_EQ(nearest.common, 3);
  EXPECT_EQ(nearest.next, 4);
  EXPECT_EQ(seen.nearest(kRootHash, std::vector<TokenId>{1, 2}, 0).common, 2);
  EXPECT_EQ(seen.nearest(kRootHash, std::vector<TokenId>{5}, 0).common, 0);
  EXPECT_EQ(seen.nearest(kRootHash, std::vector<TokenId>{5}, 0).next, 1);
  EXPECT_EQ(seen.nearest(kRootHash, std::vector<TokenId>{1, 2, 7, 7}, 0).next, 8);  // of equals the last
}

TEST(SeenBlocks, remembers_the_last_n_that_were_noted_or_used_for_200_seeds) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 rng(seed);
    const int n = 1 + static_cast<int>(rng() % 9);
    SeenBlocks seen(n, 2);
    std::list<std::pair<int, std::uint64_t>> last;  // newest first
    for (int i = 0; i < 200; ++i) {
      const int token = static_cast<int>(rng() % 8);
      const std::uint64_t salt = rng() % 2;
      seen.note(Block({token / 4, token}).content(), salt);
      last.remove({token, salt});
      last.emplace_front(token, salt);
      if (std::ssize(last) > n) last.pop_back();
      for (int t = 0; t < 8; ++t) {
        const auto has = [&](std::uint64_t s) { return std::ranges::find(last, std::pair{t, s}) != last.end(); };
        const Known want = has(salt) ? Known::under_this_salt : has(1 - salt) ? Known::under_other_salts : Known::never;
        ASSERT_EQ(seen.find(Block({t / 4, t}).content(), salt), want) << "seed " << seed << " step " << i;
      }
      ASSERT_EQ(seen.nearest(kRootHash, std::vector<TokenId>{token / 4, token}, salt).common, 2);
    }
  }
}

}  // namespace
}  // namespace millrace::kv
