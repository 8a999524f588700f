#pragma once

// A runner that an engine may own although the model outlives it: benches run one model under several engines.

#include "model/runner.h"

namespace millrace::cli {

class BorrowedRunner : public model::Runner {
 public:
  /// `runner` outlives this, and is used by nobody else meanwhile.
  explicit BorrowedRunner(model::Runner& runner) : runner_(runner) {}

  const model::RunnerInfo& info() const override { return runner_.info(); }
  model::Ticket submit(std::span<const model::StepSlice> slices, model::RowTask task) override { return runner_.submit(slices, task); }
  Result<model::StepOutputs> wait(model::Ticket ticket) override { return runner_.wait(ticket); }
  void copy_blocks(int cache_group, std::span<const BlockId> from, std::span<const BlockId> to) override {
    runner_.copy_blocks(cache_group, from, to);
  }
  void read_blocks(int cache_group, std::span<const BlockId> blocks, std::span<std::byte> to) const override { runner_.read_blocks(cache_group, blocks, to); }
  void write_blocks(int cache_group, std::span<const BlockId> blocks, std::span<const std::byte> from) override { runner_.write_blocks(cache_group, blocks, from); }

 private:
  model::Runner& runner_;
};

}  // namespace millrace::cli
