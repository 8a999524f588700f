#pragma once

// The tile unit: eight tiles of up to 16 rows x 64 bytes, and the products of two of them. The instructions, or with
// MILLRACE_SIMDE the same in plain C++, which stops where the CPU would raise an exception.
//
// Instructions are written out, not taken from the compiler's header: GCC 12's does not tell it that memory is read and
// written, so stores to a buffer may move behind the tile load that reads it.

#include <cstdint>

#include "kernels/cpu/amx/kernels.h"

namespace millrace::kernels::MILLRACE_AMX {
namespace {

/// As ldtilecfg reads it.
struct alignas(64) TileConfig {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};

  /// Tiles first to last, both included.
  void set(int first, int last, std::int64_t n_rows, int bytes) {
    for (int t = first; t <= last; ++t) {
      rows[t] = static_cast<std::uint8_t>(n_rows);
      row_bytes[t] = static_cast<std::uint16_t>(bytes);
    }
  }
};
static_assert(sizeof(TileConfig) == 64);

#ifndef MILLRACE_SIMDE

/// From here to release() tiles have these sizes; all are zero.
inline void configure(const TileConfig& config) { asm volatile("ldtilecfg %0" : : "m"(config)); }
inline void release() { asm volatile("tilerelease"); }

template <int T>
inline void zero() {
  asm volatile("tilezero %%tmm%c0" : : "i"(T));
}
/// Rows are `stride` bytes apart.
template <int T>
inline void load(const void* p, std::int64_t stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(p), "r"(stride), "i"(T) : "memory");
}
template <int T>
inline void store(void* p, std::int64_t stride) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(p), "r"(stride), "i"(T) : "memory");
}
/// int32 C[m][n] += sum over k of A[m][k] * B[k / 4][n][k % 4], signed and unsigned bytes, exact.
template <int C, int A, int B>
inline void add_int8() {
  asm volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(C), "i"(A), "i"(B));
}
/// f32 C[m][n] += sum over k of A[m][k] * B[k / 2][n][k % 2], bf16: the even and the odd k as two chains of fused
/// multiply-adds, then their sum. Subnormals count as 0.
template <int C, int A, int B>
inline void add_bf16() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(C), "i"(A), "i"(B));
}

#else

struct Tiles {
  TileConfig config;
  std::uint8_t byte[8][16][64];
};

inline Tiles& tiles() {
  static thread_local Tiles all = {{.palette = 0}, {}};
  return all;
}

inline void must(bool condition) {
  if (!condition) __builtin_trap();
}

inline void configure(const TileConfig& config) {
  must(config.palette == 1 && config.start_row == 0);
  for (const std::uint8_t x : config.reserved) must(x == 0);
  for (int t = 0; t < 16; ++t) must(config.rows[t] <= (t < 8 ? 16 : 0) && config.row_bytes[t] <= (t < 8 ? 64 : 0));
  tiles() = {config, {}};
}
inline void release() { tiles() = {{.palette = 0}, {}}; }

/// A tile's size, which it has to have.
struct Size {
  int rows, bytes;
};
inline Size size_of(int t) {
  const TileConfig& config = tiles().config;
  must(config.palette == 1 && config.rows[t] > 0 && config.row_bytes[t] > 0);
  return {config.rows[t], config.row_bytes[t]};
}

template <int T>
inline void zero() {
  size_of(T);
  __builtin_memset(tiles().byte[T], 0, sizeof(tiles().byte[T]));
}
template <int T>
inline void load(const void* p, std::int64_t stride) {
  const Size size = size_of(T);
  zero<T>();
  for (int r = 0; r < size.rows; ++r)
    __builtin_memcpy(tiles().byte[T][r], static_cast<const char*>(p) + r * stride, static_cast<unsigned>(size.bytes));
}
template <int T>
inline void store(void* p, std::int64_t stride) {
  const Size size = size_of(T);
  for (int r = 0; r < size.rows; ++r)
    __builtin_memcpy(static_cast<char*>(p) + r * stride, tiles().byte[T][r], static_cast<unsigned>(size.bytes));
}

/// The sizes of a product: [m][k dwords] times [k][n dwords].
struct ProductSize {
  int m, k, n;
};
template <int C, int A, int B>
inline ProductSize product_size() {
  static_assert(C != A && C != B && A != B);
  const Size c = size_of(C), a = size_of(A), b = size_of(B);
  must(c.rows == a.rows && a.bytes == 4 * b.rows && b.bytes == c.bytes && c.bytes % 4 == 0);
  return {c.rows, b.rows, c.bytes / 4};
}

template <int C, int A, int B>
inline void add_int8() {
  const ProductSize size = product_size<C, A, B>();
  for (int m = 0; m < size.m; ++m) {
    std::int32_t sum[16];
    __builtin_memcpy(sum, tiles().byte[C][m], 64);
    for (int k = 0; k < size.k; ++k)
      for (int n = 0; n < size.n; ++n)
        for (int j = 0; j < 4; ++j)
          sum[n] += static_cast<std::int8_t>(tiles().byte[A][m][4 * k + j]) * tiles().byte[B][k][4 * n + j];
    __builtin_memcpy(tiles().byte[C][m], sum, 64);
  }
}

inline float flushed(float x) { return __builtin_fabsf(x) < 0x1p-126f ? __builtin_copysignf(0, x) : x; }
inline float bf16_at(const std::uint8_t* p) {
  const std::uint32_t bits = static_cast<std::uint32_t>(p[0] | p[1] << 8) << 16;
  float x;
  __builtin_memcpy(&x, &bits, 4);
  return flushed(x);
}

template <int C, int A, int B>
inline void add_bf16() {
  const ProductSize size = product_size<C, A, B>();
  for (int m = 0; m < size.m; ++m)
    for (int n = 0; n < size.n; ++n) {
      float chain[2] = {};
      for (int k = 0; k < size.k; ++k)
        for (int j = 0; j < 2; ++j)
          chain[j] = flushed(__builtin_fmaf(bf16_at(&tiles().byte[A][m][4 * k + 2 * j]),
                                            bf16_at(&tiles().byte[B][k][4 * n + 2 * j]), chain[j]));
      float c;
      __builtin_memcpy(&c, &tiles().byte[C][m][4 * n], 4);
      c = flushed(flushed(c) + flushed(chain[0] + chain[1]));
      __builtin_memcpy(&tiles().byte[C][m][4 * n], &c, 4);
    }
}

#endif

}  // namespace
}  // namespace millrace::kernels::MILLRACE_AMX
