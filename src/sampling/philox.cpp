#include "sampling/philox.h"

#include "sampling/sampler.h"

namespace millrace::sampling {

std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += 0x9E3779B9;  // golden ratio
    key[1] += 0xBB67AE85;  // sqrt(3) - 1
  }
  return counter;
}

namespace {

std::array<std::uint32_t, 4> words_of(const DrawKey& key) {
  const auto low = [](std::uint64_t x) { return static_cast<std::uint32_t>(x); };
  const auto high = [](std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); };
  return philox4x32({low(key.position), high(key.position), low(key.answer), high(key.answer)}, {low(key.seed), high(key.seed)});
}

double unit(std::uint32_t low, std::uint32_t high) {
  const std::uint64_t bits = std::uint64_t{high} << 32 | low;
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

}  // namespace

double uniform(const DrawKey& key) {
  const auto words = words_of(key);
  return unit(words[0], words[1]);
}

double second_uniform(const DrawKey& key) {
  const auto words = words_of(key);
  return unit(words[2], words[3]);
}

}  // namespace millrace::sampling
