#include "cli/memory_ledger.h"

#include <gtest/gtest.h>

namespace millrace::cli {
namespace {

constexpr std::int64_t kMiB = 1 << 20;

MemoryLedger ledger() {
  return {.machine = {.free_bytes = 1000 * kMiB, .total_bytes = 4096 * kMiB, .cgroup_limit = true},
          .program_bytes = 31 * kMiB + kMiB / 2,
          .weights_bytes = 138 * kMiB,
          .plans_bytes = 9 * kMiB,
          .scratch_bytes = 26 * kMiB,
          .kv_bytes = 181 * kMiB,
          .kv_tokens = 8256,
          .kv_format = "f16"};
}

TEST(MemoryLedger, the_table_at_start) {
  EXPECT_EQ(ledger_text(ledger()),
            "memory: 1000.0 MiB of 4.0 GiB (the cgroup's limit) are free\n"
            "  program      31.5 MiB  there already\n"
            "  weights     138.0 MiB\n"
            "  plans         9.0 MiB\n"
            "  scratch      26.0 MiB\n"
            "  KV cache    181.0 MiB  f16\n"
            "  total       385.5 MiB\n"
            "holds 8256 tokens of context\n");
}

TEST(MemoryLedger, what_does_not_fit_is_one_sentence_with_the_numbers) {
  MemoryLedger l = ledger();
  EXPECT_TRUE(check_fits(l).ok());
  l.kv_bytes = (1000 - 138 - 9 - 26) * kMiB;
  EXPECT_TRUE(check_fits(l).ok());  // to the last byte
  l.kv_bytes += 1;
  l.kv_tokens = 400000;
  EXPECT_EQ(check_fits(l).error().message,
            "weights of 138.0 MiB, plans and scratch of 35.0 MiB and a KV cache of 827.0 MiB for 400000 tokens take 1000.0 MiB, but 1000.0 MiB of "
            "4.0 GiB (the cgroup's limit) are free");
  l.machine.cgroup_limit = false;
  EXPECT_NE(check_fits(l).error().message.find("(physical memory)"), std::string::npos);
}

TEST(MemoryLedger, the_pool_is_whole_blocks_of_what_is_asked_for) {
  EXPECT_EQ(*kv_tokens_of({.bytes = 1000}, 0, 100, 32), 320);
  EXPECT_EQ(*kv_tokens_of({.bytes = 1099}, 0, 100, 32), 320);
  EXPECT_EQ(*kv_tokens_of({.percent = 50}, 1000, 100, 32), 160);
  EXPECT_EQ(*kv_tokens_of({.percent = 100}, std::int64_t{1} << 62, 1, 32), std::int64_t{1} << 30);
  EXPECT_EQ(kv_tokens_of({.bytes = 99}, 0, 100, 32).error().message, "99 B of KV memory hold no block: one of 32 tokens takes 100 B");
  EXPECT_FALSE(kv_tokens_of({.percent = 30}, -5, 100, 32).ok());
}

}  // namespace
}  // namespace millrace::cli
