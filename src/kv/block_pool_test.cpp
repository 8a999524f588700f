#include "kv/block_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace millrace::kv {
namespace {

const std::vector<TokenId> kAbcd = {1, 2, 3, 4}, kAbce = {1, 2, 3, 5};

BlockContent content(const std::vector<TokenId>& tokens, const BlockHash& parent = kRootHash, std::uint64_t salt = 0) {
  return {chain(parent, tokens, salt), parent, tokens};
}

TEST(BlockHash, parent_tokens_and_salt_all_change_the_name) {
  const BlockHash name = chain(kRootHash, kAbcd, 0);
  EXPECT_EQ(name, chain(kRootHash, kAbcd, 0));
  EXPECT_NE(name, chain(kRootHash, kAbce, 0));
  EXPECT_NE(name, chain(kRootHash, kAbcd, 1));
  EXPECT_NE(name, chain(name, kAbcd, 0));
}

TEST(BlockPool, hands_out_the_lowest_free_block_first) {  // B1
  BlockPool pool(4, 4);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(pool.take(), BlockId{i});
  EXPECT_FALSE(pool.take());
  pool.release({2});
  pool.release({0});
  pool.release({3});
  EXPECT_EQ(pool.take(), BlockId{0});
  EXPECT_EQ(pool.take(), BlockId{2});
}

TEST(BlockPool, a_released_block_is_taken_again_at_once) {  // B4
  BlockPool pool(1, 4);
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(pool.take(), BlockId{0});
    EXPECT_EQ(pool.available(), 0);
    pool.release({0});
    EXPECT_EQ(pool.n_free(), 1);
  }
}

TEST(BlockPool, a_released_block_with_published_content_is_found_again) {
  BlockPool pool(2, 4);
  const BlockId id = *pool.take();
  EXPECT_TRUE(pool.publish(id, content(kAbcd)));
  pool.release(id);
  EXPECT_EQ(pool.available(), 2);
  EXPECT_EQ(pool.n_cached(), 1);
  ASSERT_EQ(pool.find(content(kAbcd)), id);
  pool.share(id);
  EXPECT_EQ(pool.available(), 1);
}

TEST(BlockPool, two_contents_with_one_hash_are_not_confused) {
  BlockPool pool(2, 4);
  const BlockHash name{7, 7}, other_parent{1, 2};
  EXPECT_TRUE(pool.publish(*pool.take(), {name, kRootHash, kAbcd}));
  EXPECT_TRUE(pool.find({name, kRootHash, kAbcd}));
  EXPECT_FALSE(pool.find({name, kRootHash, kAbce}));
  EXPECT_FALSE(pool.find({name, other_parent, kAbcd}));
  const BlockId second = *pool.take();
  EXPECT_TRUE(pool.publish(second, {name, kRootHash, kAbcd}));   // known: stays private
  EXPECT_FALSE(pool.publish(second, {name, kRootHash, kAbce}));  // the name is taken by another content
  pool.release(second);
  EXPECT_EQ(pool.n_free(), 1);
}

TEST(BlockPool, a_forgotten_block_is_private_again) {
  BlockPool pool(1, 4);
  const BlockId id = *pool.take();
  pool.publish(id, content(kAbcd));
  pool.forget(id);
  EXPECT_FALSE(pool.find(content(kAbcd)));
  pool.release(id);
  EXPECT_EQ(pool.n_free(), 1);
  pool.check_invariants();
}

TEST(BlockPool, the_least_recently_released_is_evicted_first_and_a_used_one_never) {
  BlockPool pool(3, 4);
  const BlockId a = *pool.take(), b = *pool.take();
  ASSERT_TRUE(pool.take());
  pool.publish(a, content(kAbcd));
  pool.publish(b, content(kAbce));
  pool.release(b);
  pool.release(a);
  EXPECT_EQ(pool.take(), b);
  EXPECT_EQ(pool.take(), a);
  EXPECT_FALSE(pool.take());
}

TEST(BlockPool, what_is_evicted_is_noted_with_its_content_until_it_is_cleared) {
  BlockPool pool(2, 4);
  pool.note_evictions();
  const BlockId a = *pool.take(), b = *pool.take();
  pool.publish(a, content(kAbcd));
  pool.release(b);  // private: nothing is lost with it
  pool.release(a);
  EXPECT_EQ(pool.take(), b);
  EXPECT_EQ(pool.n_evicted(), 0);
  EXPECT_EQ(pool.take(), a);
  ASSERT_EQ(pool.n_evicted(), 1);
  EXPECT_EQ(pool.evicted(0).id, a);
  EXPECT_EQ(pool.evicted(0).content.name, content(kAbcd).name);
  EXPECT_EQ(pool.evicted(0).content.parent, kRootHash);
  EXPECT_TRUE(std::ranges::equal(pool.evicted(0).content.tokens, kAbcd));
  pool.clear_evicted();
  EXPECT_EQ(pool.n_evicted(), 0);
}

TEST(BlockPool, cached_blocks_are_listed_the_last_released_first) {
  BlockPool pool(3, 4);
  const BlockId a = *pool.take(), b = *pool.take();
  pool.publish(a, content(kAbcd));
  pool.publish(b, content(kAbce));
  EXPECT_TRUE(pool.cached().empty());
  pool.release(b);
  pool.release(a);
  EXPECT_EQ(pool.cached(), (std::vector<BlockId>{a, b}));
  EXPECT_TRUE(std::ranges::equal(pool.content(b).tokens, kAbce));
}

TEST(BlockPoolDeathTest, a_double_release_is_a_bug_that_stops_the_program) {
  BlockPool pool(1, 4);
  const BlockId id = *pool.take();
  pool.release(id);
  EXPECT_DEATH(pool.release(id), "double release of block 0");
  EXPECT_DEATH(pool.release({7}), "no block 7");
  EXPECT_DEATH(pool.share(id), "share of free block 0");
}

TEST(BlockPool, invariants_hold_after_any_2000_random_operations_for_50_seeds) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 rng(seed);
    BlockPool pool(8, 2);
    std::vector<BlockId> held;
    std::vector<bool> named(8);  // a block is written and named once between take and the last release
    for (int step = 0; step < 2000; ++step) {
      const std::vector<TokenId> tokens = {TokenId(rng() % 4), TokenId(rng() % 4)};
      const BlockContent what = content(tokens);
      switch (rng() % 5) {
        case 0:
          if (const auto id = pool.take()) {
            held.push_back(*id);
            named[static_cast<std::size_t>(id->value)] = false;
          }
          break;
        case 1:
          if (const auto id = pool.find(what)) {
            pool.share(*id);
            held.push_back(*id);
          }
          break;
        case 2:
          if (!held.empty()) {
            const BlockId id = held[rng() % held.size()];
            if (named[static_cast<std::size_t>(id.value)]) pool.forget(id);
            EXPECT_TRUE(pool.publish(id, what));
            named[static_cast<std::size_t>(id.value)] = true;
          }
          break;
        default:
          if (!held.empty()) {
            std::swap(held[rng() % held.size()], held.back());
            pool.release(held.back());
            held.pop_back();
          }
      }
      pool.check_invariants();
      ASSERT_EQ(pool.n_free() + pool.n_cached() + pool.n_used(), 8);
    }
    for (const BlockId id : held) pool.release(id);
    EXPECT_EQ(pool.n_used(), 0);
  }
}

}  // namespace
}  // namespace millrace::kv
