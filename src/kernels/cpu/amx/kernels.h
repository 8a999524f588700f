#pragma once

// The kernels of this level: products on the tile unit; the others stay AVX-512's. Needs AVX-512 BF16's flags; or
// -DMILLRACE_SIMDE, which emulates the tiles too and renames everything, so that both fit in one test program. That
// emulation is all that has ever run it: no machine with AMX was at hand, so its tiles and its loops follow Intel's
// figures and were never timed.

#include "kernels/kernel_table.h"

#ifdef MILLRACE_SIMDE
#define MILLRACE_AMX amx_emulated
#define MILLRACE_AMX_TABLE kEmulatedAmxKernels
#else
#define MILLRACE_AMX amx
#define MILLRACE_AMX_TABLE kAmxKernels
#endif

namespace millrace::kernels::MILLRACE_AMX {

#define FORMAT(name, ...) void gemm_##name(const GemmIntArgs& p);
MILLRACE_INT_FORMATS(FORMAT)
#undef FORMAT
void gemm_bf16(const GemmBf16Args& p);
void roof_int8(const RoofArgs& p);
void roof_bf16(const RoofArgs& p);

}  // namespace millrace::kernels::MILLRACE_AMX
