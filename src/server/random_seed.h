#pragma once

// Numbers for requests that name no seed: each another one.

#include <cstdint>

namespace millrace::server {

/// In [0, 2^63): what a client may send as a seed, too, to see the same answer again. Any thread.
std::uint64_t random_seed();

}  // namespace millrace::server
