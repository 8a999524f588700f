#pragma once

// The disk tier of the KV cache: a folder with one file per block, found again by the block's name. Knows names, bytes and
// files; neither requests nor the pool. Files appear whole under names that say what is in them, so several processes may
// share a folder; what is damaged is a miss. Writing happens on a thread of its own: put() never waits for the disk.

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>

#include "base/metrics.h"
#include "base/result.h"
#include "engine/kv_file.h"

namespace millrace::engine {

struct KvDiskOptions {
  std::string folder;
  std::int64_t most_bytes = std::int64_t{4} << 30;  // of all files of blocks in the folder, whoever wrote them
};

/// Blocks on their way to and from the disk are in memory twice: at most so much of them at a time (but one block always).
inline constexpr std::int64_t kKvDiskQueueBytes = std::int64_t{32} << 20;

/// What the tier takes of memory at most: the line, the block that is being written, and what KvLoader has under way.
inline constexpr std::int64_t kKvDiskBufferBytes = 2 * kKvDiskQueueBytes;

struct KvDiskMetrics {
  Counter written_total, loaded_total;                   // blocks
  Counter dropped_total, damaged_total, removed_total;   // not written: too much in line, or the disk failed; ignored; made room
  Gauge bytes;                                           // of the files in the folder, as far as this process knows
};

class KvDisk {
 public:
  /// Makes the folder if it is not there. Errors: invalid_argument (it cannot be written).
  static Result<void> check_folder(const std::string& folder);

  /// check_folder, then finds what it holds. Errors: those of check_folder.
  static Result<std::unique_ptr<KvDisk>> open(KvDiskOptions options, const model::RunnerInfo& info);

  /// Writes what is in line.
  ~KvDisk();

  /// Any thread, never waiting for the disk. Another process may have removed it since.
  bool has(int group, const kv::BlockHash& name) const;

  /// Whether a block of `group` would be taken now; a refusal counts as dropped.
  bool has_room(int group);

  /// Any thread: one more block in line. It is read from memory, written later.
  void put(KvBlock block);

  /// Waits until there is room in line.
  void wait_for_room(int group);

  /// Any thread: the block with exactly this content, checked. nullopt: gone, or damaged, which is logged and removed.
  std::optional<KvBlock> load(int group, const kv::BlockContent& wanted);

  /// Waits until everything in line is on the disk.
  void flush();

  std::int64_t most_bytes() const { return options_.most_bytes; }
  std::int64_t record_bytes(int group) const { return shape_.record_bytes(group); }
  const KvDiskMetrics& metrics() const { return metrics_; }

 private:
  struct Key {
    int group = 0;
    kv::BlockHash name;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const { return static_cast<std::size_t>(key.name.low ^ static_cast<std::uint64_t>(key.group)); }
  };
  struct File {
    std::string name;
    std::int64_t bytes = 0;
    std::optional<Key> key;  // when this engine can read it
  };
  using Files = std::list<File>;  // the least recently used first

  KvDisk(KvDiskOptions options, KvShape shape) : options_(std::move(options)), shape_(std::move(shape)) {}
  std::string file_name(const Key& key) const;
  std::string path(const std::string& file) const { return options_.folder + "/" + file; }
  std::optional<Key> key_of(const std::string& file) const;
  void scan();
  void add(File file);
  void set_bytes(std::int64_t bytes);
  void forget(Files::iterator file);
  void write_all_in_line();
  void write(const KvBlock& block);
  void make_room(std::int64_t bytes);

  const KvDiskOptions options_;
  const KvShape shape_;
  KvDiskMetrics metrics_;

  mutable std::mutex mutex_;  // never held while a file is read or written
  std::condition_variable changed_;
  Files files_;
  std::unordered_map<Key, Files::iterator, KeyHash> index_;
  std::int64_t bytes_ = 0;
  std::deque<KvBlock> line_;
  std::int64_t line_bytes_ = 0;
  bool writing_ = false, stop_ = false, failed_ = false;
  std::thread writer_;
};

}  // namespace millrace::engine
