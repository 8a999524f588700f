#pragma once

// For the tests of this module: the levels that can run here, seeded numbers, and memory whose ends ASan can see.

#include <bit>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/int_formats.h"
#include "kernels/registry.h"

namespace millrace::kernels::testing {

/// One table under test: a level that this CPU has, or an emulation of one that it lacks ("avx512 emulated").
struct Level {
  std::string name;
  KernelTable table;
  bool emulated;
  bool own_bf16_dot;  // its gemm_bf16 adds pairs in the CPU's own way, the one kernel whose bits differ from generic's
};

/// The generic level first.
const std::vector<Level>& levels();

/// Those with a kernel of their own in this slot. The others run the function of the level they took it from.
template <class Fn>
std::vector<Level> levels_with_own(Fn KernelTable::*slot, bool emulated = true) {
  std::vector<Level> found;
  for (const Level& level : levels()) {
    bool is_new = emulated || !level.emulated;
    for (const Level& other : found) is_new = is_new && other.table.*slot != level.table.*slot;
    if (is_new) found.push_back(level);
  }
  return found;
}

/// n elements, 64-byte aligned; an access outside is an ASan error. 64 more bytes would be silent.
template <class T>
class Array {
 public:
  explicit Array(std::int64_t n, T value = {}) : n_(n) {
    void* p = nullptr;
    if (posix_memalign(&p, 64, static_cast<std::size_t>(n > 0 ? n : 1) * sizeof(T)) != 0) std::abort();
    data_ = static_cast<T*>(p);
    for (T& x : *this) x = value;
  }
  Array(Array&& other) noexcept : data_(std::exchange(other.data_, nullptr)), n_(other.n_) {}
  Array& operator=(Array other) noexcept { return std::swap(data_, other.data_), std::swap(n_, other.n_), *this; }
  Array(const Array& other) : Array(other.n_) { std::memcpy(data_, other.data_, bytes()); }
  ~Array() { std::free(data_); }

  T* data() { return data_; }
  const T* data() const { return data_; }
  T* begin() { return data_; }
  T* end() { return data_ + n_; }
  std::int64_t size() const { return n_; }
  std::size_t bytes() const { return static_cast<std::size_t>(n_) * sizeof(T); }
  T& operator[](std::int64_t i) { return data_[i]; }
  const T& operator[](std::int64_t i) const { return data_[i]; }
  bool same_bits(const Array& other) const { return n_ == other.n_ && std::memcmp(data_, other.data_, bytes()) == 0; }

 private:
  T* data_ = nullptr;
  std::int64_t n_ = 0;
};

using Rng = std::mt19937;

inline Array<float> random_floats(std::int64_t n, Rng& rng, float scale = 1) {
  std::normal_distribution<float> dist(0, scale);
  Array<float> v(n);
  for (float& x : v) x = dist(rng);
  return v;
}

inline std::int64_t pick(Rng& rng, std::int64_t from, std::int64_t to) {
  return std::uniform_int_distribution<std::int64_t>(from, to)(rng);
}

inline bool same_bits(float a, float b) { return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b); }

/// A scale that activations may have (params.h: 22 bits).
inline float without_two_bits(float x) { return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & ~3u); }

constexpr std::int64_t align64(std::int64_t n) { return (n + 63) / 64 * 64; }

/// Every integer format with its product kernel.
struct IntKernel {
  const char* name;
  IntFormat f;
  gemm_q4_0_fn KernelTable::*kernel;
};
inline constexpr IntKernel kIntFormats[] = {
#define FORMAT(name, ...) {#name, int_formats::name, &KernelTable::gemm_##name},
    MILLRACE_INT_FORMATS(FORMAT)
#undef FORMAT
};

}  // namespace millrace::kernels::testing
