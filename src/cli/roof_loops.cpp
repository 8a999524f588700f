#include "cli/roof_loops.h"

// Each loop says its instruction set by an attribute, so that this file needs no flags of its own; nothing here is inline
// across files (kernels/registry.h says why that matters).
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace millrace::cli {
namespace {

// 12 independent sums: two multiply-add units of latency 4 need 8, and 12 leave registers for the operands.
constexpr int kSums = 12;

/// Keeps the compiler from dropping or folding what only the clock sees.
#define KEEP(value) asm volatile("" : "+x"(value))

void sum_words(const std::uint64_t* data, std::int64_t words) {
  std::uint64_t a = 0, b = 0, c = 0, d = 0;
  for (std::int64_t i = 0; i < words; i += 4) a += data[i], b += data[i + 1], c += data[i + 2], d += data[i + 3];
  volatile std::uint64_t kept = a + b + c + d;
  static_cast<void>(kept);
}

void f32_plain(std::int64_t rounds) {
  float sums[4 * kSums];
  for (float& s : sums) s = 1;
  volatile float factor = 0.999f, term = 0.001f;
  const float f = factor, t = term;
  for (std::int64_t i = 0; i < rounds; ++i)
    for (float& s : sums) s = s * f + t;
  volatile float kept = sums[0] + sums[4 * kSums - 1];
  static_cast<void>(kept);
}

#if defined(__x86_64__)

__attribute__((target("avx2,fma"))) void f32_avx2(std::int64_t rounds) {
  __m256 sums[kSums], f = _mm256_set1_ps(0.999f), t = _mm256_set1_ps(0.001f);
  for (__m256& s : sums) s = t;
  for (std::int64_t i = 0; i < rounds; ++i) {
    for (__m256& s : sums) s = _mm256_fmadd_ps(s, f, t);
    KEEP(f);
  }
  for (__m256& s : sums) KEEP(s);
}

/// Without VNNI a 4-wide dot product is three instructions.
__attribute__((target("avx2"))) void int8_avx2(std::int64_t rounds) {
  __m256i sums[kSums], a = _mm256_set1_epi8(1), b = _mm256_set1_epi8(2), one = _mm256_set1_epi16(1);
  for (__m256i& s : sums) s = one;
  for (std::int64_t i = 0; i < rounds; ++i)
    for (__m256i& s : sums) {
      KEEP(b);
      s = _mm256_add_epi32(s, _mm256_madd_epi16(_mm256_maddubs_epi16(a, b), one));
    }
  for (__m256i& s : sums) KEEP(s);
}

__attribute__((target("avx2"))) void read_avx2(const std::uint64_t* data, std::int64_t words) {
  __m256i sums[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
  for (std::int64_t i = 0; i < words; i += 8) {
    sums[0] = _mm256_add_epi64(sums[0], _mm256_loadu_si256(reinterpret_cast<const __m256i*>(data + i)));
    sums[1] = _mm256_add_epi64(sums[1], _mm256_loadu_si256(reinterpret_cast<const __m256i*>(data + i + 4)));
  }
  KEEP(sums[0]);
  KEEP(sums[1]);
}

#define KEEP512(value) asm volatile("" : "+v"(value))

__attribute__((target("avx512f"))) void f32_avx512(std::int64_t rounds) {
  __m512 sums[kSums], f = _mm512_set1_ps(0.999f), t = _mm512_set1_ps(0.001f);
  for (__m512& s : sums) s = t;
  for (std::int64_t i = 0; i < rounds; ++i) {
    for (__m512& s : sums) s = _mm512_fmadd_ps(s, f, t);
    KEEP512(f);
  }
  for (__m512& s : sums) KEEP512(s);
}

__attribute__((target("avx512f,avx512vnni"))) void int8_avx512(std::int64_t rounds) {
  __m512i sums[kSums], a = _mm512_set1_epi32(0x01010101), b = _mm512_set1_epi32(0x02020202);
  for (__m512i& s : sums) s = a;
  for (std::int64_t i = 0; i < rounds; ++i) {
    for (__m512i& s : sums) s = _mm512_dpbusd_epi32(s, a, b);
    KEEP512(b);
  }
  for (__m512i& s : sums) KEEP512(s);
}

__attribute__((target("avx512f,avx512bf16"))) void bf16_avx512(std::int64_t rounds) {
  __m512 sums[kSums];
  __m512bh a = _mm512_cvtne2ps_pbh(_mm512_set1_ps(0.5f), _mm512_set1_ps(0.5f)), b = a;
  for (__m512& s : sums) s = _mm512_set1_ps(1);
  for (std::int64_t i = 0; i < rounds; ++i) {
    for (__m512& s : sums) s = _mm512_dpbf16_ps(s, a, b);
    KEEP512(b);
  }
  for (__m512& s : sums) KEEP512(s);
}

#endif

}  // namespace

RoofLoops roof_loops(kernels::Isa isa) {
  RoofLoops loops{.int8 = {}, .bf16 = {}, .f32 = {f32_plain, 4.0 * kSums * 2}};
#if defined(__x86_64__)
  using kernels::Isa;
  if (isa >= Isa::avx2) loops.f32 = {f32_avx2, 8.0 * kSums * 2}, loops.int8 = {int8_avx2, 32.0 * kSums * 2};
  if (isa >= Isa::avx512) loops.f32 = {f32_avx512, 16.0 * kSums * 2}, loops.int8 = {int8_avx512, 64.0 * kSums * 2};
  if (isa >= Isa::avx512_bf16) loops.bf16 = {bf16_avx512, 32.0 * kSums * 2};
#else
  static_cast<void>(isa);
#endif
  return loops;
}

ReadLoop read_loop(kernels::Isa isa) {
#if defined(__x86_64__)
  if (isa >= kernels::Isa::avx2) return read_avx2;
#endif
  static_cast<void>(isa);
  return sum_words;
}

}  // namespace millrace::cli
