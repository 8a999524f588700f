#pragma once

// The kernels of this level: integer products; the others stay AVX2's. Needs -mavxvnni on top of AVX2's flags; or
// -DMILLRACE_EMULATED, which replaces the one instruction and renames everything, so that both fit in one test program.

#include "kernels/kernel_table.h"

#ifdef MILLRACE_EMULATED
#define MILLRACE_AVX_VNNI avx_vnni_emulated
#define MILLRACE_AVX_VNNI_TABLE kEmulatedAvxVnniKernels
#else
#define MILLRACE_AVX_VNNI avx_vnni
#define MILLRACE_AVX_VNNI_TABLE kAvxVnniKernels
#endif

namespace millrace::kernels::MILLRACE_AVX_VNNI {

#define FORMAT(name, ...) void gemm_##name(const GemmIntArgs& p);
MILLRACE_INT_FORMATS(FORMAT)
#undef FORMAT
void roof_int8(const RoofArgs& p);

}  // namespace millrace::kernels::MILLRACE_AVX_VNNI
