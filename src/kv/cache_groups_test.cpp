#include "kv/cache_groups.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>

namespace millrace::kv {
namespace {

// A token sees `window` positions: block 0 (of 4) goes when the token at 4 + window - 1 is next.
static_assert(first_visible_block(/*next=*/100, /*window=*/0, /*block=*/4) == 0);
static_assert(first_visible_block(7, 8, 4) == 0);
static_assert(first_visible_block(10, 8, 4) == 0);
static_assert(first_visible_block(11, 8, 4) == 1);
static_assert(blocks_for(0, 4) == 0 && blocks_for(4, 4) == 1 && blocks_for(5, 4) == 2);

std::vector<TokenId> counting(int n, int from = 100) {
  std::vector<TokenId> tokens(static_cast<std::size_t>(n));
  std::iota(tokens.begin(), tokens.end(), from);
  return tokens;
}

/// Writes and publishes `tokens` from `held` on, in runs of at most `run`.
void write(CacheGroups& groups, BlockTables& tables, const std::vector<TokenId>& tokens, int held, int run = 4) {
  const int n = static_cast<int>(tokens.size());
  std::vector<BlockCopy> copies;
  for (int next = held; next < n;) {
    const int end = std::min(next + run, n);
    ASSERT_TRUE(groups.prepare(tables, next, end, copies));
    groups.publish(tables, tokens, end, 0);
    groups.slide(tables, end);
    next = end;
  }
  ASSERT_TRUE(copies.empty());
}

TEST(CacheGroups, tables_grow_block_by_block) {  // A9, B1
  CacheGroups groups({{4, 0, 8}}, 4);
  BlockTables tables = groups.make_tables();
  std::vector<BlockCopy> copies;
  for (int n = 1; n <= 32; ++n) {
    ASSERT_TRUE(groups.prepare(tables, n - 1, n, copies));
    EXPECT_EQ(static_cast<int>(tables.groups[0].blocks.size()), (n + 3) / 4);
    EXPECT_EQ(groups.pool(0).n_used(), (n + 3) / 4);
  }
  EXPECT_FALSE(groups.prepare(tables, 32, 33, copies));
  EXPECT_EQ(groups.pool(0).n_used(), 8);
}

TEST(CacheGroups, a_published_prefix_is_matched_block_by_block_up_to_the_limit) {
  CacheGroups groups({{4, 0, 16}}, 16);
  BlockTables first = groups.make_tables();
  write(groups, first, counting(14), 0);

  BlockTables second = groups.make_tables();
  EXPECT_EQ(groups.match(second, counting(14), 0, 13, /*salt=*/1), 0);  // another salt, another cache
  EXPECT_EQ(groups.match(second, counting(14), 0, 7, 0), 4);
  EXPECT_EQ(groups.match(second, counting(14), 4, 13, 0), 12);  // goes on where it stood
  EXPECT_TRUE(std::ranges::equal(std::span(second.groups[0].blocks), std::span(first.groups[0].blocks).first(3)));

  const BlockTables* all[] = {&first, &second};
  groups.check_invariants(all);
  groups.release(first);
  groups.release(second);
  EXPECT_EQ(groups.pool(0).n_cached(), 3);
  EXPECT_EQ(groups.pool(0).n_used(), 0);
}

TEST(CacheGroups, eviction_takes_the_tail_of_a_prefix_before_its_head) {
  CacheGroups groups({{4, 0, 3}}, 16);
  BlockTables tables = groups.make_tables();
  write(groups, tables, counting(12), 0);
  groups.release(tables);
  BlockTables other = groups.make_tables();
  write(groups, other, counting(4, 900), 0);
  BlockTables again = groups.make_tables();
  EXPECT_EQ(groups.match(again, counting(12), 0, 11, 0), 8);
}

TEST(CacheGroups, a_sliding_group_holds_its_window_and_no_more) {
  CacheGroups groups({{4, 0, 32}, {4, 8, 5}}, 4);
  BlockTables tables = groups.make_tables();
  write(groups, tables, counting(100), 0);
  EXPECT_EQ(groups.pool(0).n_used(), 25);
  EXPECT_LE(groups.pool(1).n_used(), 3);
  EXPECT_EQ(tables.groups[1].blocks[0], BlockId{});
  EXPECT_EQ(groups.most_tokens(), 32 * 4);
  const BlockTables* all[] = {&tables};
  groups.check_invariants(all);
}

TEST(CacheGroups, a_prefix_hit_needs_every_group) {
  CacheGroups groups({{4, 0, 32}, {4, 8, 6}}, 4);
  BlockTables tables = groups.make_tables();
  write(groups, tables, counting(40), 0);
  groups.release(tables);
  // The full group has all 10 blocks, the window only the last six: a hit in the middle would lack what its first token
  // sees.
  BlockTables again = groups.make_tables();
  EXPECT_EQ(groups.match(again, counting(40), 0, 20, 0), 0);
  EXPECT_EQ(groups.match(again, counting(40), 0, 39, 0), 36);
  EXPECT_EQ(again.groups[1].gone, first_visible_block(36, 8, 4));
  const BlockTables* all[] = {&again};
  groups.check_invariants(all);
}

TEST(CacheGroups, a_fork_shares_blocks_until_one_of_the_two_writes) {
  CacheGroups groups({{4, 0, 8}}, 8);
  BlockTables parent = groups.make_tables();
  write(groups, parent, counting(6), 0);
  BlockTables child = groups.fork(parent);
  EXPECT_EQ(groups.pool(0).n_used(), 2);

  std::vector<BlockCopy> copies;
  ASSERT_TRUE(groups.prepare(child, 6, 7, copies));  // the second block is half full and shared
  ASSERT_EQ(copies.size(), 1u);
  EXPECT_EQ(copies[0].from, parent.groups[0].blocks[1]);
  EXPECT_EQ(copies[0].to, child.groups[0].blocks[1]);
  ASSERT_TRUE(groups.prepare(parent, 6, 7, copies));  // the parent is alone with its block again
  EXPECT_EQ(copies.size(), 1u);
  EXPECT_EQ(parent.groups[0].blocks[0], child.groups[0].blocks[0]);
  const BlockTables* all[] = {&parent, &child};
  groups.check_invariants(all);
}

TEST(CacheGroups, a_rewind_into_a_published_block_takes_its_name_before_it_is_overwritten) {
  CacheGroups groups({{4, 0, 8}}, 8);
  BlockTables tables = groups.make_tables();
  write(groups, tables, counting(12), 0);
  EXPECT_EQ(groups.rewind(tables, 6), 6);
  EXPECT_EQ(groups.pool(0).n_used(), 2);
  std::vector<BlockCopy> copies;
  ASSERT_TRUE(groups.prepare(tables, 6, 7, copies));
  EXPECT_TRUE(copies.empty());
  BlockTables other = groups.make_tables();
  EXPECT_EQ(groups.match(other, counting(12), 0, 11, 0), 4);
}

TEST(CacheGroups, a_rewind_behind_the_window_starts_over) {
  CacheGroups groups({{4, 0, 32}, {4, 8, 6}}, 4);
  BlockTables tables = groups.make_tables();
  write(groups, tables, counting(40), 0);
  EXPECT_EQ(groups.rewind(tables, 39), 39);
  EXPECT_EQ(groups.rewind(tables, 20), 0);
  EXPECT_EQ(groups.pool(0).n_used() + groups.pool(1).n_used(), 0);
}

/// The causes of a prompt that arrives now, as text: "diverged 2 at 6 (known 105), evicted 4".
std::string why(CacheGroups& groups, const std::vector<TokenId>& prompt, std::uint64_t salt = 0) {
  BlockTables tables = groups.make_tables();
  const int n = static_cast<int>(prompt.size()), held = groups.match(tables, prompt, 0, n - 1, salt);
  const Misses misses = groups.explain(tables, prompt, held, salt);
  MissCounts counts{};
  add(counts, misses, held, n);
  EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), held), n);
  groups.release(tables);
  std::string out = held > 0 ? "cached " + std::to_string(held) : "";
  for (std::size_t c = 0; c < counts.size(); ++c) {
    if (counts[c] == 0) continue;
    out +=
        (out.empty() ? "" : ", ") + std::string(to_string(static_cast<MissCause>(c))) + " " + std::to_string(counts[c]);
    if (static_cast<MissCause>(c) == MissCause::diverged)
      out += " at " + std::to_string(misses.new_from) + " (known " + std::to_string(misses.known) + ")";
  }
  return out;
}

std::vector<TokenId> joined(std::vector<TokenId> a, const std::vector<TokenId>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST(CacheGroups, each_token_that_is_not_in_the_cache_has_a_cause) {  // A16
  CacheGroups groups({{4, 0, 8}}, 16);
  const auto run = [&](const std::vector<TokenId>& tokens, std::uint64_t salt = 0) {
    BlockTables tables = groups.make_tables();
    std::vector<BlockCopy> copies;
    const int n = static_cast<int>(tokens.size()), held = groups.match(tables, tokens, 0, n - 1, salt);
    ASSERT_TRUE(groups.prepare(tables, held, n, copies));
    groups.publish(tables, tokens, n, salt);
    groups.release(tables);
  };
  EXPECT_EQ(why(groups, counting(14)), "first_seen 14");
  run(counting(14));
  EXPECT_EQ(why(groups, counting(14)), "cached 12, partial_block 2");  // what follows 12 was never a full block
  EXPECT_EQ(why(groups, counting(12)), "cached 8, partial_block 4");   // the last token is always computed
  EXPECT_EQ(why(groups, joined(counting(10), {1, 2, 3, 4})), "cached 8, diverged 4 at 10 (known 110), partial_block 2");
  EXPECT_EQ(why(groups, joined(counting(8), {1, 2, 3, 4, 5})), "cached 8, diverged 5 at 8 (known 108)");
  EXPECT_EQ(why(groups, joined(counting(12), {1, 2, 3, 4, 5})), "cached 12, first_seen 5");
  EXPECT_EQ(why(groups, counting(14, 500)), "first_seen 14");

  // Another tenant: the same tokens are there and not for it, and what it says of its own is its own.
  EXPECT_EQ(why(groups, counting(14), 9), "salt 12, partial_block 2");
  EXPECT_EQ(why(groups, joined(counting(8), {1, 2, 3, 4, 5}), 9), "first_seen 5, salt 8");

  run(counting(32, 900));  // takes all eight blocks
  EXPECT_EQ(why(groups, counting(14)), "evicted 12, partial_block 2");
  EXPECT_EQ(why(groups, joined(counting(9), {1, 2, 3, 4})), "diverged 4 at 9 (known 109), evicted 8, partial_block 1");
  run(counting(8), 9);
  EXPECT_EQ(why(groups, counting(13), 9), "cached 8, salt 4, partial_block 1");
}

TEST(CacheGroups, any_mix_of_operations_on_two_groups_keeps_every_block_accounted_for_200_seeds) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 rng(seed);
    CacheGroups groups({{4, 0, 24}, {4, 6, 12}}, 8);
    struct Stream {
      BlockTables tables;
      std::vector<TokenId> tokens;
      int held = 0;
    };
    std::vector<Stream> streams;
    std::vector<BlockCopy> copies;
    for (int step = 0; step < 400; ++step) {
      if (streams.size() < 4)
        streams.push_back({groups.make_tables(), counting(30, 100 * static_cast<int>(rng() % 2)), 0});
      Stream& s = streams[rng() % streams.size()];
      const int n = static_cast<int>(s.tokens.size());
      switch (rng() % 6) {
        case 0:
          s.held = groups.match(s.tables, s.tokens, s.held, n - 1, 0);
          break;
        case 1:
          s.held = groups.rewind(s.tables, static_cast<int>(rng() % static_cast<unsigned>(s.held + 1)));
          break;
        case 2:
          if (streams.size() < 8) {
            Stream child = {groups.fork(s.tables), s.tokens, 0};
            child.held = groups.rewind(child.tables, static_cast<int>(rng() % static_cast<unsigned>(s.held + 1)));
            streams.push_back(std::move(child));
          }
          break;
        case 3:
          groups.release(s.tables);
          streams.erase(streams.begin() + (&s - streams.data()));
          break;
        default: {
          const int end = std::min(n, s.held + 1 + static_cast<int>(rng() % 8));
          if (end > s.held && groups.prepare(s.tables, s.held, end, copies)) {
            s.held = end;
            groups.publish(s.tables, s.tokens, end, 0);
            groups.slide(s.tables, end);
          }
        }
      }
      std::vector<const BlockTables*> all;
      for (const Stream& stream : streams) all.push_back(&stream.tables);
      groups.check_invariants(all);
    }
  }
}

/// Content of block `b` of `tokens`, as a file would bring it.
BlockContent content_at(const std::vector<TokenId>& tokens, int b, std::uint64_t salt = 0) {
  BlockHash parent = kRootHash, name = kRootHash;
  std::span<const TokenId> own;
  for (int i = 0; i <= b; ++i) {
    own = std::span(tokens).subspan(static_cast<std::size_t>(i) * 4, 4);
    parent = name;
    name = chain(parent, own, salt);
  }
  return {name, parent, own};
}

TEST(CacheGroups, blocks_from_elsewhere_are_matched_like_those_of_a_sequence_that_ended) {
  CacheGroups groups({{4, 0, 8}, {4, 8, 8}}, 4);
  const auto tokens = counting(14);
  for (int g = 0; g < 2; ++g)
    for (int b = 0; b < 3; ++b) groups.keep(g, *groups.take(g), content_at(tokens, b));
  EXPECT_EQ(groups.pool(0).n_used() + groups.pool(1).n_used(), 0);
  BlockTables tables = groups.make_tables();
  EXPECT_EQ(groups.match(tables, tokens, 0, 13, 0), 12);
  groups.keep(0, *groups.take(0), content_at(tokens, 1));  // known: goes back to the free ones
  EXPECT_EQ(groups.pool(0).n_free(), 5);
  groups.release(tables);
  groups.check_invariants({});
}

TEST(CacheGroups, a_touched_prefix_is_evicted_last_and_its_tail_first) {
  CacheGroups groups({{4, 0, 4}}, 4);
  const auto old = counting(8), young = counting(8, 500);
  for (const auto& tokens : {old, young}) {
    BlockTables tables = groups.make_tables();
    write(groups, tables, tokens, 0);
    groups.release(tables);
  }
  EXPECT_EQ(groups.touch(old, 0), 8);
  (void)groups.take(0), (void)groups.take(0);
  EXPECT_EQ(groups.touch(young, 0), 0);
  EXPECT_EQ(groups.touch(old, 0), 8);
  (void)groups.take(0);
  EXPECT_EQ(groups.touch(old, 0), 4);
}

}  // namespace
}  // namespace millrace::kv
