#include <cstring>
#include <string>

#include "base/check.h"
#include "device/device.h"
#include "device/memory_info.h"

namespace millrace::device {
namespace {

/// A CPU stream is its core group: copies run at once when nothing is in flight, else after it.
class CpuStream final : public Stream {
 public:
  explicit CpuStream(CoreGroupOptions options) : group_(std::move(options)) {}
  ~CpuStream() override { synchronize_if_running(); }

  void copy(std::byte* to, const std::byte* from, std::size_t bytes) override {
    synchronize_if_running();
    std::memcpy(to, from, bytes);
  }
  void submit(std::span<const Launch> launches, const void* step) override {
    MILLRACE_CHECK(!running_, "submit while a list runs");
    running_ = true;
    ++submissions_;
    group_.start(launches, step);
  }
  void synchronize() override {
    ++syncs_;
    synchronize_if_running();
  }
  CoreGroup& group() override { return group_; }
  std::int64_t submissions() const override { return submissions_; }
  std::int64_t syncs() const override { return syncs_; }

 private:
  void synchronize_if_running() {
    if (running_) group_.wait();
    running_ = false;
  }
  CoreGroup group_;
  bool running_ = false;
  std::int64_t submissions_ = 0, syncs_ = 0;
};

class CpuDevice final : public Device {
 public:
  const char* name() const override { return "cpu"; }
  Result<Buffer> allocate(std::size_t bytes) override {
    const MemoryInfo now = machine_memory();
    if (static_cast<std::int64_t>(bytes) > now.free_bytes)
      return error(Code::exhausted, "{} bytes are needed and {} are free", bytes, now.free_bytes);
    return Buffer::allocate(bytes);
  }
  std::unique_ptr<Stream> make_stream(CoreGroupOptions options) override { return std::make_unique<CpuStream>(std::move(options)); }
};

}  // namespace

std::unique_ptr<Device> make_cpu_device() { return std::make_unique<CpuDevice>(); }

}  // namespace millrace::device
