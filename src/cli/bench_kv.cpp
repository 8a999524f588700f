// bench kv: what paging and sharing gain of the same bytes (A24, B6), which block size suits (A27), how the cache is
// filled (A28), and what no cache costs (A12). The replay runs on integers; a model is asked for its head size, and runs
// for --sweep and --no-cache.

#include <nlohmann/json.hpp>

#include "cli/bench_modes.h"
#include "cli/bench_ops.h"
#include "cli/kv_report.h"
#include "cli/no_cache.h"
#include "cli/output.h"
#include "cli/session.h"
#include "ops/op.h"

namespace millrace::cli {
namespace {

constexpr int kTraceRequests = 200;
constexpr unsigned kSeed = 16;
constexpr int kUsualHeadDim = 64;  // when no model says
constexpr int kBlockSizes[] = {8, 16, 32, 64, 128, 256};
constexpr int kSweepBatch = 8, kSweepContext = 1024, kSweepPrompt = 64;

double int8_ratio(int head_dim) {
  const auto bytes = [&](tensor::DType format) { return static_cast<double>(ops::kv_vector_bytes(format, head_dim)); };
  return bytes(tensor::DType::int8_kv) / bytes(tensor::DType::f16);
}

/// Attention of a decode step, all layers, with blocks of the size that `options` say.
Result<double> attend_us(const ModelBundle& bundle, const model::ModelConfig& config, const Options& options) {
  const Need need{.pool_tokens = kSweepBatch * in_blocks(kSweepContext + 1, options), .max_running = kSweepBatch, .prefix_sharing = false};
  MILLRACE_TRY(model, load_weights(bundle, config, options, need));
  const int batches[] = {kSweepBatch};
  MILLRACE_TRY(ops, time_ops(*model, kSweepPrompt, batches, kSweepContext));
  double us = 0;
  for (const OpTime& op : ops)
    if (op.work == "decode" && op.op.starts_with("attend")) us += op.us;
  return us;
}

Result<NoCacheCost> no_cache_of(ModelBundle bundle, const model::ModelConfig& config, const Options& options) {
  constexpr int kTokens = kNoCachePrompt + kNoCacheNew;
  if (config.max_positions < kTokens)
    return error(Code::unsupported, "--no-cache needs a context of {} tokens, '{}' has {}", kTokens, options.model, config.max_positions);
  const Need need{.pool_tokens = in_blocks(kTokens, options), .max_running = 1, .prefix_sharing = false};
  MILLRACE_TRY(session, start_session(std::move(bundle), config, options, need));
  return measure_no_cache(*session.engine, config.vocab_size);
}

}  // namespace

Result<int> run_bench_kv(const Options& options) {
  KvReport report{.trace = options.trace};
  report.options.block_tokens = static_cast<int>(options.block_tokens);
  auto trace = options.trace.empty() ? Result<std::vector<TraceRequest>>(make_kv_trace(kTraceRequests, kSeed)) : read_trace(options.trace);
  if (!trace) return std::move(trace).error();
  const auto prompts = prompts_of(*trace, kReplayVocab, kSeed);
  report.answer = replay_contiguous(*trace, Reserve::answer, report.options);
  report.context = replay_contiguous(*trace, Reserve::context, report.options);
  report.exact = replay_contiguous(*trace, Reserve::exact, report.options);
  report.paged = replay_paged(*trace, prompts, report.options);
  report.int8_bytes_ratio = int8_ratio(kUsualHeadDim);

  const bool has_model = !options.model.empty();
  if (options.no_cache && !has_model) return error(Code::invalid_argument, "--no-cache needs a model");
  if (options.sweep)
    for (const int size : kBlockSizes) {
      KvReplayOptions replay = report.options;
      replay.block_tokens = size;
      report.sweep.push_back({.block_tokens = size, .use = replay_paged(*trace, prompts, replay)});
    }
  if (has_model) {
    MILLRACE_TRY(bundle, open_bundle(options.model));
    MILLRACE_TRY(config, config_of(bundle));
    report.int8_bytes_ratio = int8_ratio(config.head_dim);
    for (BlockSizeRow& row : report.sweep) {
      Options sized = options;
      sized.block_tokens = row.block_tokens;
      MILLRACE_TRY(us, attend_us(bundle, config, sized));
      row.attend_us = us;
    }
    if (options.no_cache) {
      MILLRACE_TRY(cost, no_cache_of(std::move(bundle), config, options));
      report.no_cache = cost;
    }
  }
  MILLRACE_TRY_VOID(write_report(options.json, report.to_json(), report.to_text()));
  return 0;
}

}  // namespace millrace::cli
