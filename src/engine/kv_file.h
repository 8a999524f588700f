#pragma once

// Files of KV blocks: what save() writes and restore() reads, and, with one block each, what the disk tier keeps. Bytes
// and checks only: knows names of blocks, neither requests nor the pool.
//
//   header   magic, version, block_tokens, fingerprint, KV format, numbers of groups and tokens
//   groups   of each: window, blocks in this file, bytes of a block
//   tokens   of the whole prefix, i32; none in a file of the disk tier
//   xxh3     of everything so far
//   records  group by group, in the order of positions: group, name, parent, the block's tokens, its bytes, xxh3 of these
//
// All numbers little endian. A file is believed when its length is the one its header says and each checksum is right.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/output_file.h"
#include "base/result.h"
#include "kv/block_pool.h"
#include "model/runner.h"

namespace millrace::engine {

/// One block of one cache group, away from the pool.
struct KvBlock {
  int group = 0;
  kv::BlockHash name, parent;
  std::vector<TokenId> tokens;   // [block_tokens]
  std::vector<std::byte> bytes;  // as Runner::read_blocks gives them

  kv::BlockContent content() const { return {name, parent, tokens}; }
};

/// The content of each whole block of `tokens`, from the first on; it points into `tokens`.
std::vector<kv::BlockContent> contents_of(std::span<const TokenId> tokens, int block_tokens, std::uint64_t salt);

/// What has to agree before bytes of one engine mean anything to another.
struct KvShape {
  struct Group { int window = 0; std::int64_t block_bytes = 0; };
  std::uint64_t fingerprint = 0;
  std::string kv_format;
  int block_tokens = 0;
  std::vector<Group> groups;

  static KvShape of(const model::RunnerInfo& info);
  std::int64_t header_bytes(std::size_t n_tokens) const;
  std::int64_t record_bytes(int group) const;
};

/// Writes a file that appears whole at commit().
class KvFileWriter {
 public:
  /// `n_blocks`: of each group. Errors: those of OutputFile.
  static Result<KvFileWriter> create(const std::string& path, KvShape shape, std::span<const TokenId> tokens, std::span<const int> n_blocks);

  /// Blocks come in the order of the file.
  Result<void> append(const KvBlock& block);
  Result<void> commit(OutputFile::Commit how) { return file_.commit(how); }

 private:
  KvFileWriter(OutputFile file, KvShape shape) : file_(std::move(file)), shape_(std::move(shape)) {}
  OutputFile file_;
  KvShape shape_;
  std::vector<std::byte> record_;
};

/// Reads such a file, wherever it comes from.
class KvFileReader {
 public:
  /// The header is checked against `shape` and the file's length. Errors: not_found, corrupt_data (no KV file, cut short,
  /// damaged), unsupported (of another version, model or format); each one sentence with the path.
  static Result<KvFileReader> open(const std::string& path, const KvShape& shape);
  KvFileReader(KvFileReader&& other) noexcept;
  KvFileReader& operator=(KvFileReader&&) = delete;
  ~KvFileReader();

  std::span<const TokenId> tokens() const { return tokens_; }
  int n_blocks(int group) const { return n_blocks_[static_cast<std::size_t>(group)]; }

  /// Block `i` of `group`. Errors: corrupt_data.
  Result<KvBlock> read(int group, int i) const;

 private:
  KvFileReader(std::string path, KvShape shape, int fd) : path_(std::move(path)), shape_(std::move(shape)), fd_(fd) {}
  Result<void> read_header();
  Result<void> read_at(std::int64_t at, void* to, std::size_t bytes) const;

  std::string path_;
  KvShape shape_;
  int fd_;
  std::vector<TokenId> tokens_;
  std::vector<int> n_blocks_;
  std::vector<std::int64_t> first_record_;  // per group: where its records start
};

}  // namespace millrace::engine
