// Table of the NEON I8MM level, and its INT8 roof.

#include <arm_neon.h>

#include "kernels/cpu/neon_i8mm/kernels.h"

namespace millrace::kernels {
namespace neon_i8mm {

void roof_int8(const RoofArgs& p) {
  constexpr int kChains = 16;  // independent accumulators, as in ../neon/roof.cpp
  int32x4_t acc[kChains];
  const int8x16_t a = vdupq_n_s8(1), b = vdupq_n_s8(1);
#pragma GCC unroll 16
  for (auto& x : acc) x = vdupq_n_s32(0);
  for (std::int64_t i = 0; i < p.iterations; ++i)
#pragma GCC unroll 16
    for (int j = 0; j < kChains; ++j) {
      acc[j] = vmmlaq_s32(acc[j], a, b);
      asm volatile("" : "+w"(acc[j]));
    }
  *p.operations = static_cast<double>(p.iterations) * kChains * 32 * 2;
}

}  // namespace neon_i8mm

extern const KernelTable kNeonI8mmKernels;
constinit const KernelTable kNeonI8mmKernels = {
#define FORMAT(name, ...) .gemm_##name = neon_i8mm::gemm_##name,
    MILLRACE_INT_FORMATS(FORMAT)
#undef FORMAT
    .roof_int8 = neon_i8mm::roof_int8,
};

}  // namespace millrace::kernels
