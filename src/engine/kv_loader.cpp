#include "engine/kv_loader.h"

#include <utility>

namespace millrace::engine {
namespace {

constexpr std::size_t kMostJobs = 64;
constexpr std::int64_t kPieceBytes = kKvDiskQueueBytes / 4;  // one is being read while the engine has another

}  // namespace

KvLoader::KvLoader(KvDisk& disk, std::function<void(Loaded)> deliver) : disk_(disk), deliver_(std::move(deliver)), thread_([this] { run(); }) {}

KvLoader::~KvLoader() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

bool KvLoader::push(std::int64_t job, std::vector<KvBlock> wanted) {
  {
    const std::lock_guard lock(mutex_);
    if (jobs_.size() >= kMostJobs) return false;
    jobs_.push_back({job, std::move(wanted)});
  }
  changed_.notify_all();
  return true;
}

void KvLoader::taken() {
  {
    const std::lock_guard lock(mutex_);
    handed_over_ = false;
  }
  changed_.notify_all();
}

/// Waits until the engine has used the piece before. False when the loader stops.
bool KvLoader::hand_over(Loaded loaded) {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !handed_over_ || stop_; });
    if (stop_) return false;
    handed_over_ = true;
  }
  deliver_(std::move(loaded));
  return true;
}

void KvLoader::run() {
  for (;;) {
    Job job;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return !jobs_.empty() || stop_; });
      if (stop_) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    Loaded piece{job.id, {}, false};
    std::int64_t bytes = 0;
    for (const KvBlock& wanted : job.wanted) {
      auto block = disk_.load(wanted.group, wanted.content());
      if (!block) break;
      bytes += disk_.record_bytes(wanted.group);
      piece.blocks.push_back(*std::move(block));
      if (bytes < kPieceBytes) continue;
      if (!hand_over(std::exchange(piece, {job.id, {}, false}))) return;
      bytes = 0;
    }
    piece.last = true;
    if (!hand_over(std::move(piece))) return;
  }
}

}  // namespace millrace::engine
