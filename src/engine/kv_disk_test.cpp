// The disk tier by itself: blocks go in, come out in this process or the next, and damage is a miss.

#include "engine/kv_disk.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/testing/scratch_folder.h"
#include "engine/testing/quiet_log.h"

namespace millrace::engine {
namespace {

using namespace testing;
using millrace::testing::bytes_of_file;
using millrace::testing::ScratchFolder;
using millrace::testing::write_file;

constexpr int kBlockBytes = 1000;

model::RunnerInfo info(std::uint64_t fingerprint = 5) {
  model::RunnerInfo out;
  out.cache_groups = {{.block_tokens = 4, .window = 0, .n_blocks = 8, .block_bytes = kBlockBytes}};
  out.fingerprint = fingerprint;
  out.kv_format = "f16";
  return out;
}

std::unique_ptr<KvDisk> open(const ScratchFolder& folder, std::int64_t most_bytes = 1 << 20, std::uint64_t fingerprint = 5) {
  return KvDisk::open({folder.path().string(), most_bytes}, info(fingerprint)).value();
}

/// The block of four equal tokens, at the start of a sequence.
KvBlock block(TokenId token) {
  KvBlock out;
  out.tokens.assign(4, token);
  out.parent = kv::kRootHash;
  out.name = kv::chain(out.parent, out.tokens, 0);
  out.bytes.assign(kBlockBytes, static_cast<std::byte>(token));
  return out;
}

bool finds(KvDisk& disk, TokenId token) {
  const KvBlock want = block(token);
  const auto got = disk.load(0, want.content());
  if (got) {
    EXPECT_EQ(got->bytes, want.bytes);
  }
  return got.has_value();
}

void put(KvDisk& disk, TokenId token) {
  disk.put(block(token));
  disk.flush();
}

TEST(KvDisk, what_was_put_is_found_again_now_and_after_a_restart) {
  const ScratchFolder folder;
  {
    const auto disk = open(folder);
    EXPECT_FALSE(disk->has(0, block(1).name));
    EXPECT_FALSE(finds(*disk, 1));
    for (TokenId t = 1; t <= 5; ++t) disk->put(block(t));
    disk->put(block(1));  // known by then: written once
    disk->flush();
    EXPECT_EQ(disk->metrics().written_total.value(), 5u);
    EXPECT_TRUE(disk->has(0, block(3).name));
    EXPECT_TRUE(finds(*disk, 3));
  }
  const auto disk = open(folder);
  for (TokenId t = 1; t <= 5; ++t) EXPECT_TRUE(disk->has(0, block(t).name) && finds(*disk, t));
  EXPECT_EQ(disk->metrics().loaded_total.value(), 5u);
  EXPECT_EQ(disk->metrics().damaged_total.value(), 0u);
}

TEST(KvDisk, what_is_in_line_is_written_before_the_end) {
  const ScratchFolder folder;
  {
    const auto disk = open(folder);
    for (TokenId t = 0; t < 50; ++t) disk->put(block(t));
  }
  EXPECT_EQ(folder.files().size(), 50u);
}

TEST(KvDisk, another_model_finds_nothing_and_takes_nothing_away) {
  const ScratchFolder folder;
  put(*open(folder), 1);
  const auto other = open(folder, 1 << 20, /*fingerprint=*/6);
  EXPECT_FALSE(other->has(0, block(1).name));
  EXPECT_FALSE(finds(*other, 1));
  put(*other, 1);
  EXPECT_EQ(folder.files().size(), 2u);
  EXPECT_TRUE(finds(*open(folder), 1));
}

TEST(KvDisk, the_least_recently_used_makes_room_and_the_folder_never_exceeds_its_size) {
  const ScratchFolder folder;
  constexpr std::int64_t kMost = 4 * 1200;  // room for four files
  {
    const auto disk = open(folder, kMost);
    for (TokenId t = 1; t <= 4; ++t) put(*disk, t);
    EXPECT_TRUE(finds(*disk, 1));  // used: 2 is the oldest now
    for (TokenId t = 5; t <= 8; ++t) {
      put(*disk, t);
      std::int64_t bytes = 0;
      for (const std::string& name : folder.files()) bytes += static_cast<std::int64_t>(bytes_of_file(folder.file(name)).size());
      EXPECT_LE(bytes, kMost);
      EXPECT_EQ(disk->metrics().bytes.value(), bytes);
    }
    EXPECT_GT(disk->metrics().removed_total.value(), 0u);
    EXPECT_FALSE(disk->has(0, block(2).name));
    EXPECT_TRUE(finds(*disk, 8));
  }
  EXPECT_TRUE(finds(*open(folder, kMost), 8));
}

TEST(KvDisk, use_in_one_process_counts_in_the_next) {
  const ScratchFolder folder;
  {
    const auto disk = open(folder);
    for (TokenId t = 1; t <= 4; ++t) put(*disk, t);
    EXPECT_TRUE(finds(*disk, 1));
  }
  const auto disk = open(folder, 4 * 1200);
  put(*disk, 9);
  EXPECT_TRUE(disk->has(0, block(1).name));
  EXPECT_FALSE(disk->has(0, block(2).name));
}

TEST(KvDisk, a_block_larger_than_the_room_is_not_kept) {
  const ScratchFolder folder;
  const auto disk = open(folder, 500);
  put(*disk, 1);
  EXPECT_TRUE(folder.files().empty());
  EXPECT_EQ(disk->metrics().dropped_total.value(), 1u);
}

TEST(KvDisk, a_damaged_or_torn_file_is_a_miss_and_is_removed) {
  const QuietLog quiet;
  const ScratchFolder folder;
  put(*open(folder), 1);
  const std::string file = folder.file(folder.files().at(0)), whole = bytes_of_file(file);
  const auto expect_miss = [&](const std::string& bytes, std::size_t at) {
    write_file(file, bytes);
    const auto disk = open(folder);
    EXPECT_FALSE(finds(*disk, 1)) << at;
    EXPECT_FALSE(disk->has(0, block(1).name));
    EXPECT_EQ(disk->metrics().damaged_total.value(), 1u);
    EXPECT_TRUE(folder.files().empty());
  };
  for (std::size_t at = 0; at < whole.size(); at += 13) {
    std::string other = whole;
    other[at] = static_cast<char>(other[at] ^ 1);
    expect_miss(other, at);
    expect_miss(whole.substr(0, at), at);
  }
}

TEST(KvDisk, a_file_with_the_right_checksum_and_another_content_is_a_miss) {
  const QuietLog quiet;
  const ScratchFolder folder;
  const auto disk = open(folder);
  put(*disk, 1);
  KvBlock want = block(1);
  want.tokens[3] = 2;  // two contents with one hash
  EXPECT_FALSE(disk->load(0, want.content()));
}

TEST(KvDisk, files_that_are_not_its_own_stay) {
  const ScratchFolder folder;
  for (const char* name : {"notes.txt", "x.kv", "0000000000000005-0-short.kv", "0000000000000005-0-00000000000000000000000000000000.kvx"})
    write_file(folder.file(name), "mine");
  {
    const auto disk = open(folder, 2000);
    for (TokenId t = 1; t <= 4; ++t) put(*disk, t);
  }
  EXPECT_EQ(folder.files().size(), 5u);
  EXPECT_EQ(bytes_of_file(folder.file("notes.txt")), "mine");
}

TEST(KvDisk, two_at_one_folder_do_not_harm_each_other) {
  const ScratchFolder folder;
  constexpr std::int64_t kMost = 12 * 1300;
  const auto a = open(folder, kMost), b = open(folder, kMost);
  const auto work = [](KvDisk& disk) {
    for (int round = 0; round < 5; ++round)
      for (TokenId t = 1; t <= 20; ++t) {
        disk.put(block(t));
        (void)finds(disk, 1 + (t * 7) % 20);
      }
    disk.flush();
  };
  std::thread other([&] { work(*b); });
  work(*a);
  other.join();
  EXPECT_EQ(a->metrics().damaged_total.value() + b->metrics().damaged_total.value(), 0u);
  for (const std::string& name : folder.files()) EXPECT_EQ(name.find(OutputFile::kTemporaryMark), std::string::npos);
}

TEST(KvDisk, a_folder_that_goes_away_costs_blocks_and_nothing_else) {
  const QuietLog quiet;
  const ScratchFolder folder;
  const auto disk = KvDisk::open({folder.file("below"), 1 << 20}, info()).value();
  put(*disk, 1);
  std::filesystem::remove_all(folder.file("below"));
  put(*disk, 2);
  EXPECT_EQ(disk->metrics().dropped_total.value(), 1u);
  EXPECT_FALSE(disk->has(0, block(2).name));
  EXPECT_FALSE(finds(*disk, 1));
  EXPECT_EQ(disk->metrics().damaged_total.value(), 0u);
}

TEST(KvDisk, a_folder_that_cannot_be_made_is_refused_with_its_name) {
  const ScratchFolder folder;
  write_file(folder.file("file"), "x");
  const auto disk = KvDisk::open({folder.file("file") + "/below", 1000}, info());
  ASSERT_FALSE(disk);
  EXPECT_EQ(disk.error().message, "cannot make the folder '" + folder.file("file") + "/below': Not a directory");
}

}  // namespace
}  // namespace millrace::engine
