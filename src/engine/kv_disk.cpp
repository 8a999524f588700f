#include "engine/kv_disk.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/log.h"

namespace millrace::engine {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEnding = ".kv";
constexpr auto kAbandonedAfter = std::chrono::hours(1);  // a file half written by a process that is gone

/// The next 16 hexadecimal digits of `text`.
std::optional<std::uint64_t> take_hex(std::string_view& text) {
  std::uint64_t value = 0;
  if (text.size() < 16) return std::nullopt;
  const auto [stop, failure] = std::from_chars(text.data(), text.data() + 16, value, 16);
  if (failure != std::errc{} || stop != text.data() + 16) return std::nullopt;
  text.remove_prefix(16);
  return value;
}

/// "0123...-0-0123...0123....kv": a name of ours, of any model.
bool is_ours(std::string_view name) {
  if (!name.ends_with(kEnding)) return false;
  if (!take_hex(name) || !name.starts_with('-')) return false;
  const auto dash = name.find('-', 1);
  if (dash == name.npos) return false;
  name.remove_prefix(dash + 1);
  return take_hex(name) && take_hex(name) && name == kEnding;
}

/// Its time of change says when it was used last. The clock's own time: that of the file system may stand still for
/// milliseconds.
void set_used(const std::string& path) {
  timespec times[2] = {{0, UTIME_OMIT}, {}};
  ::clock_gettime(CLOCK_REALTIME, &times[1]);
  (void)::utimensat(AT_FDCWD, path.c_str(), times, 0);
}

/// Behind everybody who answers somebody: writing can wait.
void lower_own_priority() { (void)::setpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)), 10); }

}  // namespace

Result<void> KvDisk::check_folder(const std::string& folder) {
  std::error_code failure;
  fs::create_directories(folder, failure);
  if (failure) return error(Code::invalid_argument, "cannot make the folder '{}': {}", folder, failure.message());
  if (::access(folder.c_str(), R_OK | W_OK | X_OK) != 0) return error(Code::invalid_argument, "cannot write to the folder '{}': {}", folder, std::strerror(errno));
  return {};
}

Result<std::unique_ptr<KvDisk>> KvDisk::open(KvDiskOptions options, const model::RunnerInfo& info) {
  MILLRACE_TRY_VOID(check_folder(options.folder));
  std::unique_ptr<KvDisk> disk(new KvDisk(std::move(options), KvShape::of(info)));
  disk->scan();
  disk->writer_ = std::thread([self = disk.get()] { self->write_all_in_line(); });
  return disk;
}

KvDisk::~KvDisk() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (!writer_.joinable()) return;
  writer_.join();
  log_info("kv disk", {{"folder", options_.folder}, {"bytes", metrics_.bytes.value()}, {"written_blocks", metrics_.written_total.value()},
                       {"loaded_blocks", metrics_.loaded_total.value()}, {"dropped_blocks", metrics_.dropped_total.value()},
                       {"damaged_blocks", metrics_.damaged_total.value()}, {"removed_blocks", metrics_.removed_total.value()}});
}

std::string KvDisk::file_name(const Key& key) const {
  return fmt::format("{:016x}-{}-{:016x}{:016x}{}", shape_.fingerprint, key.group, key.name.high, key.name.low, kEnding);
}

std::optional<KvDisk::Key> KvDisk::key_of(const std::string& file) const {
  std::string_view rest = file;
  if (!is_ours(rest) || take_hex(rest) != shape_.fingerprint) return std::nullopt;
  Key key;
  const auto [stop, failure] = std::from_chars(rest.data() + 1, rest.data() + rest.size(), key.group);
  if (failure != std::errc{} || key.group < 0 || key.group >= static_cast<int>(shape_.groups.size())) return std::nullopt;
  rest.remove_prefix(static_cast<std::size_t>(stop - rest.data()) + 1);
  key.name.high = take_hex(rest).value_or(0);
  key.name.low = take_hex(rest).value_or(0);
  return file_name(key) == file ? std::optional(key) : std::nullopt;  // "00" is another spelling of group 0
}

/// What the folder holds now, other processes' files included. Times of change tell which was used last.
void KvDisk::scan() {
  struct Found { fs::file_time_type time; File file; };
  std::vector<Found> found;
  std::error_code failure;
  for (fs::directory_iterator at(options_.folder, failure), end; !failure && at != end; at.increment(failure)) {
    std::error_code ignored;
    if (!at->is_regular_file(ignored) || ignored) continue;
    const std::string name = at->path().filename().string();
    const auto time = at->last_write_time(ignored);
    const auto part = name.find(OutputFile::kTemporaryMark);
    if (part != name.npos && is_ours(name.substr(0, part)) && fs::file_time_type::clock::now() - time > kAbandonedAfter) fs::remove(at->path(), ignored);
    if (!is_ours(name)) continue;
    const auto bytes = at->file_size(ignored);
    if (!ignored) found.push_back({time, {name, static_cast<std::int64_t>(bytes), key_of(name)}});
  }
  std::ranges::sort(found, [](const Found& a, const Found& b) { return std::tie(a.time, a.file.name) < std::tie(b.time, b.file.name); });
  const std::lock_guard lock(mutex_);
  files_.clear(), index_.clear(), set_bytes(0);
  for (Found& one : found) add(std::move(one.file));
}

/// The mutex is held: here, in add() and in forget().
void KvDisk::set_bytes(std::int64_t bytes) {
  bytes_ = bytes;
  metrics_.bytes.set(bytes);
}

void KvDisk::add(File file) {
  if (file.key)
    if (const auto known = index_.find(*file.key); known != index_.end()) forget(known->second);
  set_bytes(bytes_ + file.bytes);
  files_.push_back(std::move(file));
  if (files_.back().key) index_[*files_.back().key] = std::prev(files_.end());
}

void KvDisk::forget(Files::iterator file) {
  if (file->key) index_.erase(*file->key);
  set_bytes(bytes_ - file->bytes);
  files_.erase(file);
}

bool KvDisk::has(int group, const kv::BlockHash& name) const {
  const std::lock_guard lock(mutex_);
  return index_.contains({group, name});
}

bool KvDisk::has_room(int group) {
  const std::lock_guard lock(mutex_);
  const bool room = line_.empty() || line_bytes_ + record_bytes(group) <= kKvDiskQueueBytes;
  if (!room) metrics_.dropped_total.add();
  return room;
}

void KvDisk::wait_for_room(int group) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return line_.empty() || line_bytes_ + record_bytes(group) <= kKvDiskQueueBytes; });
}

void KvDisk::put(KvBlock block) {
  {
    const std::lock_guard lock(mutex_);
    line_bytes_ += record_bytes(block.group);
    line_.push_back(std::move(block));
  }
  changed_.notify_all();
}

void KvDisk::flush() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return line_.empty() && !writing_; });
}

void KvDisk::write_all_in_line() {
  lower_own_priority();
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return !line_.empty() || stop_; });
    if (line_.empty()) return;
    const KvBlock block = std::move(line_.front());
    line_.pop_front();
    writing_ = true;
    const bool known = index_.contains({block.group, block.name});
    lock.unlock();
    if (!known) write(block);
    lock.lock();
    writing_ = false;
    line_bytes_ -= record_bytes(block.group);
    changed_.notify_all();
  }
}

void KvDisk::write(const KvBlock& block) {
  const Key key{block.group, block.name};
  const std::string name = file_name(key);
  std::vector<int> n_blocks(shape_.groups.size());
  n_blocks[static_cast<std::size_t>(block.group)] = 1;
  const auto write_file = [&]() -> Result<void> {
    MILLRACE_TRY(file, KvFileWriter::create(path(name), shape_, {}, n_blocks));
    MILLRACE_TRY_VOID(file.append(block));
    return file.commit(OutputFile::Commit::quick);
  };
  const std::int64_t bytes = shape_.header_bytes(0) + record_bytes(block.group);
  if (bytes > options_.most_bytes) return metrics_.dropped_total.add();
  make_room(bytes);
  const auto written = write_file();
  if (!written) {
    metrics_.dropped_total.add();
    if (!std::exchange(failed_, true)) log_warn("a block is not kept on disk, and others may be lost like it", {{"error", written.error().message}});
    return;
  }
  set_used(path(name));
  metrics_.written_total.add();
  const std::lock_guard lock(mutex_);
  add({name, bytes, key});
}

/// When `bytes` more are beyond the limit, removes the least recently used files. Others may have added and removed files since
/// the last look, so it looks again first; and makes more room than is needed, so that a full folder is not looked through
/// for each block.
void KvDisk::make_room(std::int64_t bytes) {
  const auto beyond = [&](std::int64_t most_bytes) {
    const std::lock_guard lock(mutex_);
    return bytes_ + bytes > most_bytes;
  };
  if (!beyond(options_.most_bytes)) return;
  scan();
  while (beyond(options_.most_bytes - options_.most_bytes / 16)) {
    std::string oldest;
    {
      const std::lock_guard lock(mutex_);
      if (files_.empty()) return;
      oldest = files_.front().name;
      forget(files_.begin());
    }
    std::error_code ignored;
    if (fs::remove(path(oldest), ignored)) metrics_.removed_total.add();
  }
}

std::optional<KvBlock> KvDisk::load(int group, const kv::BlockContent& wanted) {
  const Key key{group, wanted.name};
  const std::string file = path(file_name(key));
  const auto read = [&]() -> Result<KvBlock> {
    MILLRACE_TRY(reader, KvFileReader::open(file, shape_));
    if (reader.n_blocks(group) != 1) return error(Code::corrupt_data, "'{}' holds {} blocks, expected 1", file, reader.n_blocks(group));
    return reader.read(group, 0);
  };
  auto block = read();
  const bool gone = !block && block.error().code == Code::not_found;
  if (block && (block->name != wanted.name || block->parent != wanted.parent || !std::ranges::equal(block->tokens, wanted.tokens)))
    block = error(Code::corrupt_data, "'{}' holds another block than its name says", file);
  if (block) {
    metrics_.loaded_total.add();
    set_used(file);
  } else if (!gone) {
    metrics_.damaged_total.add();
    log_warn("a block on disk is ignored", {{"error", block.error().message}});
    std::error_code ignored;
    fs::remove(file, ignored);
  }
  const std::lock_guard lock(mutex_);
  if (const auto known = index_.find(key); known != index_.end()) {
    if (block) files_.splice(files_.end(), files_, known->second);
    else forget(known->second);
  }
  if (!block) return std::nullopt;
  return *std::move(block);
}

}  // namespace millrace::engine
