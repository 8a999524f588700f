#include "server/random_seed.h"

#include <random>

namespace millrace::server {

std::uint64_t random_seed() {
  thread_local std::mt19937_64 generator = [] {
    std::random_device device;
    std::seed_seq seeds{device(), device(), device(), device()};
    return std::mt19937_64(seeds);
  }();
  return generator() >> 1;
}

}  // namespace millrace::server
