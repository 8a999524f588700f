#pragma once

// A12: what generating costs an engine that keeps no keys and values.

#include "base/result.h"
#include "cli/kv_report.h"
#include "engine/engine.h"

namespace millrace::cli {

inline constexpr int kNoCachePrompt = 1000, kNoCacheNew = 1000;

/// Runs prompts through `engine`, which must not share prefixes and has room for kNoCachePrompt + kNoCacheNew tokens:
/// the first few tokens in earnest, each as a prompt of its own, then one prompt of the full length, from which the rest
/// is computed. Some ten prompts' time.
Result<NoCacheCost> measure_no_cache(engine::Engine& engine, int vocab_size);

}  // namespace millrace::cli
