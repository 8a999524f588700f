#pragma once

// Names what the bytes of a KV block depend on beside its tokens: the model, and how this build computes on this machine.
// Equal fingerprints, equal bytes; the cache is salted with it, and files of cached blocks carry it.

#include <cstdint>
#include <string_view>

#include "io/weight_source.h"
#include "model/config.h"
#include "model/kv_store.h"

namespace millrace::model {

/// Raised whenever a change of a kernel or of the order of sums changes a bit of any result.
inline constexpr int kNumericsVersion = 2;  // 2: INT8 keys have two scales (decision 0015)

/// How many machines share one sum. Threads are none of its business: results do not depend on them.
inline constexpr int kParallelDegree = 1;

/// Over the config, each tensor's name, type, shape and a sample of its bytes, the level of the kernels, kNumericsVersion,
/// kParallelDegree and the KV format. Cheap: reads four pieces of at most 256 bytes of each tensor, so a file in which a
/// few values were edited elsewhere has the same fingerprint; another training never has. Not over names of files.
///
/// `isa`: the level's name. Never 0.
std::uint64_t fingerprint_of(const io::WeightSource& source, const ModelConfig& config, std::string_view isa, KvFormat kv);

}  // namespace millrace::model
