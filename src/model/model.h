#pragma once

// Loads a model: config and weights to a Runner on this machine's CPU.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "device/device.h"
#include "graph/plan.h"
#include "model/config.h"
#include "model/kv_store.h"
#include "model/runner.h"

namespace millrace::model {

struct LoadOptions {
  int threads = 1;
  std::string isa;         // kernels of this level and below; empty = the best that this CPU runs
  KvFormat kv = KvFormat::f16;
  int pool_tokens = 4096;  // room of the KV cache, rounded up to whole blocks
  int block_tokens = 32;   // a power of two, 8..256
  int max_step_tokens = 512;
  int max_step_outputs = 64;
  int max_slices = 64;
  bool pin = false;                      // one worker per core, fixed
  std::size_t (*row_scratch_bytes)(std::size_t vocab) = nullptr;  // scratch that a row task needs, of each worker; null: none
  std::function<void(double)> progress;  // share of the weights packed, 0..1
};

/// Bytes that will be resident, before anything is loaded (A13).
struct MemoryEstimate {
  std::int64_t weights_bytes = 0;       // packed
  std::int64_t token_weights_bytes = 0; // of them read for one decoded token
  std::int64_t kv_bytes_per_token = 0;
  std::int64_t kv_bytes = 0;            // the whole pool
  std::int64_t arena_bytes = 0;         // intermediates of the largest step
  std::int64_t scratch_bytes = 0;       // of all workers: what ops and row tasks need
  std::int64_t results_bytes = 0;       // logits and hidden states of two steps
  std::int64_t total() const { return weights_bytes + kv_bytes + arena_bytes + scratch_bytes + results_bytes; }
};

/// Errors as load_model, without touching weight data.
Result<MemoryEstimate> estimate_memory(const io::WeightSource& source, const ModelConfig& config, const LoadOptions& options);

/// How the launches of a step of `tokens` tokens, all of one sequence, are split over the workers; equal ones once, with
/// their count. Launches whose ops choose nothing are left out.
struct TilingRow {
  int tokens = 0;
  std::string op, shape, tiling;
  int launches = 0;
};

/// Of one token and of the largest step. Errors as estimate_memory.
Result<std::vector<TilingRow>> list_tilings(const io::WeightSource& source, const ModelConfig& config, const LoadOptions& options);

/// What `bench` asks of a runner beyond steps.
class Model : public Runner {
 public:
  virtual const MemoryEstimate& memory() const = 0;

  /// Per launch of the last step's plan: what it does, its work in that step, and the time since profiling began.
  struct OpProfile { std::string scope, op, shape, tiling; ops::Work work; double total_us; };
  virtual void profile(bool on) = 0;
  virtual std::vector<OpProfile> profiled() const = 0;

  virtual std::string graph_dump() const = 0;
  virtual std::int64_t submissions() const = 0;
  virtual std::int64_t syncs() const = 0;
  virtual std::int64_t plan_misses() const = 0;
};

/// `source` is not needed afterwards. Errors: not_found and corrupt_data (tensors), unsupported (architecture, format),
/// exhausted (memory, with the numbers).
Result<std::unique_ptr<Model>> load_model(const io::WeightSource& source, const ModelConfig& config, const LoadOptions& options);

}  // namespace millrace::model
