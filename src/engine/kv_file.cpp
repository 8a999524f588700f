#include "engine/kv_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <limits>

#include "base/check.h"

namespace millrace::engine {
namespace {

static_assert(std::endian::native == std::endian::little, "the file's numbers are copied as they lie in memory");

constexpr std::array<char, 8> kMagic = {'M', 'R', 'K', 'V', '\r', '\n', 0, 0};
constexpr std::uint32_t kVersion = 1;
constexpr std::uint64_t kMostTokens = std::uint64_t{1} << 30;

struct Head {
  std::array<char, 8> magic = kMagic;
  std::uint32_t version = kVersion, block_tokens = 0;
  std::uint64_t fingerprint = 0;
  std::array<char, 16> kv_format{};
  std::uint32_t n_groups = 0, n_tokens = 0;
};
static_assert(sizeof(Head) == 48);

struct GroupHead {
  std::uint32_t window = 0, n_blocks = 0;
  std::int64_t block_bytes = 0;
};
static_assert(sizeof(GroupHead) == 16);

struct RecordHead {
  std::uint32_t group = 0, unused = 0;
  kv::BlockHash name, parent;
};
static_assert(sizeof(RecordHead) == 40);

using Check = std::uint64_t;

std::array<char, 16> padded(const std::string& format) {
  std::array<char, 16> out{};
  std::copy_n(format.data(), std::min(format.size(), out.size()), out.data());
  return out;
}

std::string text_of(const std::array<char, 16>& format) {
  std::string out;
  for (const char c : format) {
    if (c == 0) break;
    out += c >= ' ' && c <= '~' ? c : '?';
  }
  return out;
}

template <class T>
void put(std::vector<std::byte>& out, const T* values, std::size_t n) {
  const std::size_t at = out.size();
  out.resize(at + n * sizeof(T));
  if (n > 0) std::memcpy(&out[at], values, n * sizeof(T));
}

/// Copies values out and steps behind them.
template <class T>
void get(const std::byte*& at, T* values, std::size_t n) {
  if (n > 0) std::memcpy(values, at, n * sizeof(T));
  at += n * sizeof(T);
}

void put_check(std::vector<std::byte>& out) {
  const Check check = XXH3_64bits(out.data(), out.size());
  put(out, &check, 1);
}

/// Whether the last eight bytes are the checksum of those before.
bool checked(std::span<const std::byte> bytes) {
  Check stored = 0;
  const auto body = bytes.first(bytes.size() - sizeof stored);
  std::memcpy(&stored, bytes.data() + body.size(), sizeof stored);
  return XXH3_64bits(body.data(), body.size()) == stored;
}

}  // namespace

std::vector<kv::BlockContent> contents_of(std::span<const TokenId> tokens, int block_tokens, std::uint64_t salt) {
  const auto n = static_cast<std::size_t>(block_tokens);
  std::vector<kv::BlockContent> out;
  out.reserve(tokens.size() / n);
  kv::BlockHash parent = kv::kRootHash;
  for (; tokens.size() >= n; tokens = tokens.subspan(n)) {
    const auto own = tokens.first(n);
    out.push_back({kv::chain(parent, own, salt), parent, own});
    parent = out.back().name;
  }
  return out;
}

KvShape KvShape::of(const model::RunnerInfo& info) {
  KvShape out{info.fingerprint, std::string(info.kv_format), info.cache_groups[0].block_tokens, {}};
  for (const model::CacheGroupInfo& group : info.cache_groups) out.groups.push_back({group.window, group.block_bytes});
  return out;
}

std::int64_t KvShape::header_bytes(std::size_t n_tokens) const {
  return static_cast<std::int64_t>(sizeof(Head) + groups.size() * sizeof(GroupHead) + n_tokens * sizeof(TokenId) + sizeof(Check));
}

std::int64_t KvShape::record_bytes(int group) const {
  return static_cast<std::int64_t>(sizeof(RecordHead) + static_cast<std::size_t>(block_tokens) * sizeof(TokenId) + sizeof(Check)) +
         groups[static_cast<std::size_t>(group)].block_bytes;
}

Result<KvFileWriter> KvFileWriter::create(const std::string& path, KvShape shape, std::span<const TokenId> tokens, std::span<const int> n_blocks) {
  MILLRACE_CHECK(n_blocks.size() == shape.groups.size(), "a number of blocks for each group");
  // A prompt is in the blocks for whoever can read them: the file is its owner's.
  MILLRACE_TRY(file, OutputFile::create(path, 0600));
  Head head;
  head.block_tokens = static_cast<std::uint32_t>(shape.block_tokens);
  head.fingerprint = shape.fingerprint;
  head.kv_format = padded(shape.kv_format);
  head.n_groups = static_cast<std::uint32_t>(shape.groups.size());
  head.n_tokens = static_cast<std::uint32_t>(tokens.size());
  std::vector<std::byte> out;
  put(out, &head, 1);
  for (std::size_t g = 0; g < shape.groups.size(); ++g) {
    const GroupHead group{static_cast<std::uint32_t>(shape.groups[g].window), static_cast<std::uint32_t>(n_blocks[g]), shape.groups[g].block_bytes};
    put(out, &group, 1);
  }
  put(out, tokens.data(), tokens.size());
  put_check(out);
  MILLRACE_TRY_VOID(file.append(out.data(), out.size()));
  return KvFileWriter(std::move(file), std::move(shape));
}

Result<void> KvFileWriter::append(const KvBlock& block) {
  record_.clear();
  record_.reserve(static_cast<std::size_t>(shape_.record_bytes(block.group)));
  const RecordHead head{static_cast<std::uint32_t>(block.group), 0, block.name, block.parent};
  put(record_, &head, 1);
  put(record_, block.tokens.data(), block.tokens.size());
  put(record_, block.bytes.data(), block.bytes.size());
  put_check(record_);
  MILLRACE_CHECK(static_cast<std::int64_t>(record_.size()) == shape_.record_bytes(block.group), "a block of another shape");
  return file_.append(record_.data(), record_.size());
}

Result<KvFileReader> KvFileReader::open(const std::string& path, const KvShape& shape) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe must not hang it
  if (fd < 0) return error(Code::not_found, "cannot open '{}': {}", path, std::strerror(errno));
  KvFileReader reader(path, shape, fd);
  MILLRACE_TRY_VOID(reader.read_header());
  return reader;
}

KvFileReader::KvFileReader(KvFileReader&& other) noexcept
    : path_(std::move(other.path_)), shape_(std::move(other.shape_)), fd_(std::exchange(other.fd_, -1)), tokens_(std::move(other.tokens_)),
      n_blocks_(std::move(other.n_blocks_)), first_record_(std::move(other.first_record_)) {}

KvFileReader::~KvFileReader() {
  if (fd_ >= 0) ::close(fd_);
}

Result<void> KvFileReader::read_at(std::int64_t at, void* to, std::size_t bytes) const {
  char* out = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t n = ::pread(fd_, out, bytes, at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return error(Code::corrupt_data, "reading '{}': {}", path_, std::strerror(errno));
    if (n == 0) return error(Code::corrupt_data, "'{}' is cut short", path_);
    out += n, at += n, bytes -= static_cast<std::size_t>(n);
  }
  return {};
}

/// The length of the file is known before anything is sized by a number from it.
Result<void> KvFileReader::read_header() {
  struct stat found{};
  if (::fstat(fd_, &found) != 0 || !S_ISREG(found.st_mode)) return error(Code::corrupt_data, "'{}' is no regular file", path_);
  const std::int64_t length = found.st_size;
  Head head;
  if (length < static_cast<std::int64_t>(sizeof head)) return error(Code::corrupt_data, "'{}' is no file of KV blocks: it has {} bytes", path_, length);
  MILLRACE_TRY_VOID(read_at(0, &head, sizeof head));
  if (head.magic != kMagic) return error(Code::corrupt_data, "'{}' is no file of KV blocks", path_);
  if (head.version != kVersion) return error(Code::unsupported, "'{}' has version {}, this build reads {}", path_, head.version, kVersion);
  if (head.kv_format != padded(shape_.kv_format))
    return error(Code::unsupported, "'{}' holds a KV cache of {}, this one is of {}", path_, text_of(head.kv_format), shape_.kv_format);
  if (head.block_tokens != static_cast<std::uint32_t>(shape_.block_tokens))
    return error(Code::unsupported, "'{}' has blocks of {} tokens, this cache has blocks of {}", path_, head.block_tokens, shape_.block_tokens);
  if (head.fingerprint != shape_.fingerprint)
    return error(Code::unsupported, "'{}' was written by another model, instruction set or version: its fingerprint is {:016x}, this one's {:016x}", path_,
                 head.fingerprint, shape_.fingerprint);
  if (head.n_groups != shape_.groups.size() || head.n_tokens > kMostTokens)
    return error(Code::corrupt_data, "'{}' has {} cache groups and {} tokens, expected {} groups", path_, head.n_groups, head.n_tokens, shape_.groups.size());

  const std::int64_t records_at = shape_.header_bytes(head.n_tokens);
  if (records_at > length) return error(Code::corrupt_data, "'{}' is cut short: it has {} bytes, its header alone {}", path_, length, records_at);
  std::vector<std::byte> start(static_cast<std::size_t>(records_at));
  MILLRACE_TRY_VOID(read_at(0, start.data(), start.size()));
  if (!checked(start)) return error(Code::corrupt_data, "'{}' is damaged: the checksum of its header is wrong", path_);

  const std::byte* at = start.data() + sizeof head;
  std::int64_t next = records_at;
  for (std::size_t g = 0; g < shape_.groups.size(); ++g) {
    GroupHead group;
    get(at, &group, 1);
    const KvShape::Group& want = shape_.groups[g];
    if (group.window != static_cast<std::uint32_t>(want.window) || group.block_bytes != want.block_bytes)
      return error(Code::unsupported, "'{}' has a cache group with window {} and blocks of {} bytes, expected {} and {}", path_, group.window, group.block_bytes,
                   want.window, want.block_bytes);
    const std::int64_t most = length / shape_.record_bytes(static_cast<int>(g)) + 1;  // more is as wrong as this
    n_blocks_.push_back(static_cast<int>(std::min<std::int64_t>({group.n_blocks, most, std::numeric_limits<int>::max()})));
    first_record_.push_back(next);
    next += n_blocks_.back() * shape_.record_bytes(static_cast<int>(g));
  }
  if (next != length) return error(Code::corrupt_data, "'{}' is torn: it has {} bytes, its header says {}", path_, length, next);
  tokens_.resize(head.n_tokens);
  get(at, tokens_.data(), tokens_.size());
  return {};
}

Result<KvBlock> KvFileReader::read(int group, int i) const {
  MILLRACE_CHECK(i >= 0 && i < n_blocks(group), "no block " + std::to_string(i) + " in the file");
  std::vector<std::byte> record(static_cast<std::size_t>(shape_.record_bytes(group)));
  MILLRACE_TRY_VOID(read_at(first_record_[static_cast<std::size_t>(group)] + i * shape_.record_bytes(group), record.data(), record.size()));
  const std::byte* at = record.data();
  RecordHead head;
  get(at, &head, 1);
  if (!checked(record) || head.group != static_cast<std::uint32_t>(group)) return error(Code::corrupt_data, "'{}' is damaged: the checksum of block {} is wrong", path_, i);
  KvBlock block{group, head.name, head.parent, {}, {}};
  block.tokens.resize(static_cast<std::size_t>(shape_.block_tokens));
  get(at, block.tokens.data(), block.tokens.size());
  block.bytes.assign(at, at + shape_.groups[static_cast<std::size_t>(group)].block_bytes);
  return block;
}

}  // namespace millrace::engine
