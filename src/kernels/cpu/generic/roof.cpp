// The machine's limits with this level's instructions: the loops that no kernel can beat.

#include "kernels/cpu/generic/kernels.h"

namespace millrace::kernels::generic {

// Portable code has no INT8 or bf16 arithmetic of its own: both run as f32.
void roof_int8(const RoofArgs& p) { *p.operations = 0; }
void roof_bf16(const RoofArgs& p) { *p.operations = 0; }

void roof_f32(const RoofArgs& p) {
  float acc[16] = {}, x = 1.0001f;
  asm volatile("" : "+m"(x));
  for (int64_t i = 0; i < p.iterations; ++i)
    for (float& a : acc) a = a * x + 0.5f;
  float sum = 0;
  for (const float a : acc) sum += a;
  asm volatile("" : : "m"(sum));
  *p.operations = static_cast<double>(p.iterations) * 16 * 2;
}

void roof_read(const RoofArgs& p) {
  const auto* words = reinterpret_cast<const std::uint64_t*>(p.data);
  std::uint64_t sum[8] = {};
  for (int64_t i = 0; i + 8 <= p.bytes / 8; i += 8)
    for (int j = 0; j < 8; ++j) sum[j] += words[i + j];
  for (const std::uint64_t s : sum) asm volatile("" : : "r"(s));
  *p.operations = static_cast<double>(p.bytes);
}

}  // namespace millrace::kernels::generic
