#pragma once

// What the benches ask of an engine: greedy answers of a given length to random tokens, and how they wait for them.

#include <random>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "engine/engine.h"

namespace millrace::cli {

std::vector<TokenId> random_tokens(std::mt19937& random, int n, int vocab_size);

/// Makes all of its `new_tokens`; its client may read them when all is over.
engine::Request greedy_request(std::vector<TokenId> prompt, int new_tokens);

/// The last event, with the tokens of all of them. Waits as long as it takes. Errors: the request's own.
Result<engine::Event> finish(engine::Handle& handle);

}  // namespace millrace::cli
