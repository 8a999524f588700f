#include "kv/block_hash.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace millrace::kv {
namespace {

TEST(BlockHash, anything_that_a_key_depends_on_makes_another_salt) {  // A16
  const std::set<std::uint64_t> salts = {salt_of(1, 0, ""),  salt_of(2, 0, ""),
                                         salt_of(1, 1, ""),  salt_of(1, 0, "a"),
                                         salt_of(1, 0, "b"), salt_of(1, 0, std::string_view("\0", 1))};
  EXPECT_EQ(salts.size(), 6u);
  EXPECT_EQ(salt_of(1, 0, "a"), salt_of(1, 0, "a"));
}

TEST(BlockHash, a_name_depends_on_parent_tokens_their_order_and_salt) {
  const std::vector<TokenId> tokens = {1, 2}, turned = {2, 1};
  const BlockHash name = chain(kRootHash, tokens, 0);
  EXPECT_EQ(name, chain(kRootHash, tokens, 0));
  EXPECT_NE(name, chain(kRootHash, turned, 0));
  EXPECT_NE(name, chain(kRootHash, tokens, 1));
  EXPECT_NE(name, chain(name, tokens, 0));
}

}  // namespace
}  // namespace millrace::kv
