// Files of KV blocks: what is written is read, and nothing else is believed.

#include "engine/kv_file.h"

#include <gtest/gtest.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/testing/scratch_folder.h"

namespace millrace::engine {
namespace {

using namespace testing;
using millrace::testing::bytes_of_file;
using millrace::testing::ScratchFolder;
using millrace::testing::write_file;

const KvShape kShape{.fingerprint = 0x1122334455667788, .kv_format = "f16", .block_tokens = 4, .groups = {{0, 24}, {8, 40}}};

std::vector<TokenId> counting(int n) {
  std::vector<TokenId> out(static_cast<std::size_t>(n));
  std::iota(out.begin(), out.end(), 100);
  return out;
}

KvBlock block_of(int group, const kv::BlockContent& content) {
  KvBlock out{group, content.name, content.parent, {content.tokens.begin(), content.tokens.end()}, {}};
  for (std::int64_t i = 0; i < kShape.groups[static_cast<std::size_t>(group)].block_bytes; ++i)
    out.bytes.push_back(static_cast<std::byte>(content.name.low + static_cast<std::uint64_t>(i)));
  return out;
}

/// Three blocks of the first group, the last two of the second.
void write(const std::string& path) {
  const auto tokens = counting(12);
  const auto contents = contents_of(tokens, 4, 7);
  auto writer = KvFileWriter::create(path, kShape, tokens, std::vector{3, 2});
  ASSERT_TRUE(writer);
  for (int b = 0; b < 3; ++b) ASSERT_TRUE(writer->append(block_of(0, contents[static_cast<std::size_t>(b)])));
  for (int b = 1; b < 3; ++b) ASSERT_TRUE(writer->append(block_of(1, contents[static_cast<std::size_t>(b)])));
  ASSERT_TRUE(writer->commit(OutputFile::Commit::durable));
}

/// Everything a reader does with a file. Errors: the first.
Result<int> read_all(const std::string& path, const KvShape& shape = kShape) {
  MILLRACE_TRY(reader, KvFileReader::open(path, shape));
  int n = 0;
  for (int g = 0; g < static_cast<int>(shape.groups.size()); ++g)
    for (int i = 0; i < reader.n_blocks(g); ++i, ++n) MILLRACE_TRY_VOID(reader.read(g, i));
  return n;
}

TEST(KvFile, blocks_come_back_as_they_were) {
  const ScratchFolder folder;
  write(folder.file("a"));
  const auto reader = KvFileReader::open(folder.file("a"), kShape);
  ASSERT_TRUE(reader) << reader.error().message;
  const auto tokens = counting(12);
  EXPECT_TRUE(std::ranges::equal(reader->tokens(), tokens));
  EXPECT_EQ(reader->n_blocks(0), 3);
  EXPECT_EQ(reader->n_blocks(1), 2);
  const auto contents = contents_of(tokens, 4, 7);
  struct Case { int group, i, block; };
  for (const auto& [group, i, b] : {Case{0, 0, 0}, Case{0, 2, 2}, Case{1, 0, 1}, Case{1, 1, 2}}) {
    const KvBlock want = block_of(group, contents[static_cast<std::size_t>(b)]), got = reader->read(group, i).value();
    EXPECT_EQ(got.name, want.name);
    EXPECT_EQ(got.parent, want.parent);
    EXPECT_EQ(got.tokens, want.tokens);
    EXPECT_EQ(got.bytes, want.bytes);
  }
  EXPECT_EQ(folder.files(), std::vector<std::string>{"a"});
}

TEST(KvFile, a_file_cut_anywhere_or_with_more_behind_it_is_refused) {
  const ScratchFolder folder;
  write(folder.file("a"));
  const std::string whole = bytes_of_file(folder.file("a"));
  for (std::size_t n = 0; n < whole.size(); ++n) {
    write_file(folder.file("b"), whole.substr(0, n));
    EXPECT_FALSE(read_all(folder.file("b")).ok()) << n;
  }
  write_file(folder.file("b"), whole + "x");
  EXPECT_NE(read_all(folder.file("b")).error().message.find("is torn: it has " + std::to_string(whole.size() + 1) + " bytes"), std::string::npos);
  EXPECT_EQ(*read_all(folder.file("a")), 5);
}

TEST(KvFile, a_changed_bit_anywhere_is_noticed) {
  const ScratchFolder folder;
  write(folder.file("a"));
  const std::string whole = bytes_of_file(folder.file("a"));
  for (std::size_t at = 0; at < whole.size(); ++at)
    for (const int bit : {0, 3, 7}) {
      std::string other = whole;
      other[at] = static_cast<char>(other[at] ^ (1 << bit));
      write_file(folder.file("b"), other);
      const auto read = read_all(folder.file("b"));
      ASSERT_FALSE(read.ok()) << "byte " << at << " bit " << bit;
      EXPECT_EQ(read.error().message.find('\n'), std::string::npos);
    }
}

/// `bytes` with the number at `at` in its header set, and the header's checksum made right again.
std::string forged(std::string bytes, std::size_t at, std::uint32_t number) {
  const std::size_t header = static_cast<std::size_t>(kShape.header_bytes(12)) - sizeof(std::uint64_t);
  std::memcpy(bytes.data() + at, &number, sizeof number);
  const std::uint64_t sum = XXH3_64bits(bytes.data(), header);
  std::memcpy(bytes.data() + header, &sum, sizeof sum);
  return bytes;
}

TEST(KvFile, numbers_that_lie_under_a_right_checksum_cost_no_memory_and_are_refused) {
  constexpr std::size_t kTokensAt = 44, kBlocksAt = 48 + 4;  // of Head; of the first GroupHead
  const ScratchFolder folder;
  write(folder.file("a"));
  const std::string whole = bytes_of_file(folder.file("a"));
  write_file(folder.file("b"), forged(whole, kBlocksAt, 3));
  ASSERT_EQ(*read_all(folder.file("b")), 5);  // the forger's checksum is right
  for (const std::uint32_t n : {0u, 2u, 4u, 1u << 31, 0xffffffffu}) {
    write_file(folder.file("b"), forged(whole, kBlocksAt, n));
    EXPECT_FALSE(read_all(folder.file("b")).ok()) << n << " blocks";
  }
  for (const std::uint32_t n : {1u << 30, 0xffffffffu}) {
    std::string other = whole;
    std::memcpy(other.data() + kTokensAt, &n, sizeof n);
    write_file(folder.file("b"), other);
    const auto read = read_all(folder.file("b"));
    ASSERT_FALSE(read.ok());
    EXPECT_TRUE(read.error().message.find("cut short") != std::string::npos || read.error().message.find("tokens, expected") != std::string::npos) << read.error().message;
  }
}

TEST(KvFile, what_is_of_another_kind_is_refused_with_one_sentence) {
  const ScratchFolder folder;
  const std::string path = folder.file("a");
  write(path);
  const auto why = [&](auto change) {
    KvShape shape = kShape;
    change(shape);
    return read_all(path, shape).error().message;
  };
  EXPECT_EQ(why([](KvShape& s) { s.fingerprint = 1; }),
            "'" + path + "' was written by another model, instruction set or version: its fingerprint is 1122334455667788, this one's 0000000000000001");
  EXPECT_EQ(why([](KvShape& s) { s.kv_format = "f32"; }), "'" + path + "' holds a KV cache of f16, this one is of f32");
  EXPECT_EQ(why([](KvShape& s) { s.block_tokens = 8; }), "'" + path + "' has blocks of 4 tokens, this cache has blocks of 8");
  EXPECT_EQ(why([](KvShape& s) { s.groups.pop_back(); }), "'" + path + "' has 2 cache groups and 12 tokens, expected 1 groups");
  EXPECT_EQ(why([](KvShape& s) { s.groups[1].window = 9; }), "'" + path + "' has a cache group with window 8 and blocks of 40 bytes, expected 9 and 40");
  write_file(path, "some other file, long enough to have had a header in it if it were one");
  EXPECT_EQ(why([](KvShape&) {}), "'" + path + "' is no file of KV blocks");
  EXPECT_EQ(read_all(folder.path().string()).error().message, "'" + folder.path().string() + "' is no regular file");
  EXPECT_EQ(read_all(folder.file("none")).error().code, Code::not_found);
}

}  // namespace
}  // namespace millrace::engine
