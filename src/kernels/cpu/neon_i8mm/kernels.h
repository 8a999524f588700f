#pragma once

// The kernels of this level: integer products, and their roof. The others stay NEON's.

#include "kernels/kernel_table.h"

namespace millrace::kernels::neon_i8mm {

#define FORMAT(name, ...) void gemm_##name(const GemmIntArgs& p);
MILLRACE_INT_FORMATS(FORMAT)
#undef FORMAT
void roof_int8(const RoofArgs& p);

}  // namespace millrace::kernels::neon_i8mm
