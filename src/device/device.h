#pragma once

// A place that holds bytes and runs work in order. One implementation per kind: cpu_device.cpp today. Everything above
// device/ and kernels/ speaks to this interface.

#include <chrono>
#include <memory>
#include <span>

#include "base/result.h"
#include "device/core_group.h"
#include "device/memory.h"

namespace millrace::device {

/// Work in order. Used by one thread at a time. A lane of the engine owns one.
class Stream {
 public:
  virtual ~Stream() = default;

  /// Copies in stream order.
  virtual void copy(std::byte* to, const std::byte* from, std::size_t bytes) = 0;

  /// One submission: the recorded list of a whole step. `launches` and `step` stay valid until synchronize() returns.
  virtual void submit(std::span<const Launch> launches, const void* step) = 0;

  /// Blocks until all work is done: the one host sync of a step.
  virtual void synchronize() = 0;

  /// The workers behind this stream, for work outside any plan.
  virtual CoreGroup& group() = 0;

  /// Since the stream was made (A6, A22).
  virtual std::int64_t submissions() const = 0;
  virtual std::int64_t syncs() const = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual const char* name() const = 0;  // "cpu"

  /// Page aligned. Errors: exhausted, with the size and what is free.
  virtual Result<Buffer> allocate(std::size_t bytes) = 0;
  virtual std::unique_ptr<Stream> make_stream(CoreGroupOptions options) = 0;
};

std::unique_ptr<Device> make_cpu_device();

}  // namespace millrace::device
