#pragma once

// The kernels of this level; the others stay AVX2's, which already wait for memory only. Needs -mavx512f, bw, vl, dq,
// vnni on top of AVX2's flags; or -DMILLRACE_SIMDE, which also renames everything, so that both fit in one test
// program.

#include "kernels/kernel_table.h"

#ifdef MILLRACE_SIMDE
#define MILLRACE_AVX512 avx512_emulated
#define MILLRACE_AVX512_TABLE kEmulatedAvx512Kernels
#define MILLRACE_AVX512_BF16_TABLE kEmulatedAvx512Bf16Kernels
#else
#define MILLRACE_AVX512 avx512
#define MILLRACE_AVX512_TABLE kAvx512Kernels
#define MILLRACE_AVX512_BF16_TABLE kAvx512Bf16Kernels
#endif

namespace millrace::kernels::MILLRACE_AVX512 {

void rms_norm_f32(const RmsNormArgs& p);
void quantize_q8(const QuantizeArgs& p);
#define FORMAT(name, ...) void gemm_##name(const GemmIntArgs& p);
MILLRACE_INT_FORMATS(FORMAT)
#undef FORMAT
void gemm_f32(const GemmFloatArgs& p);
void gemm_f16(const GemmFloatArgs& p);
void gemm_bf16(const GemmBf16Args& p);
void swiglu_f32(const SwiGluArgs& p);
void attend_f32(const AttendArgs& p);
void attend_f16(const AttendArgs& p);
void attend_bf16(const AttendArgs& p);
void attend_int8(const AttendArgs& p);
void roof_int8(const RoofArgs& p);
void roof_f32(const RoofArgs& p);
void roof_read(const RoofArgs& p);

}  // namespace millrace::kernels::MILLRACE_AVX512
