#pragma once

// The kernels of this level. The others stay generic's: AArch64 has vectors and fused multiply-adds at its baseline, so
// the compiler makes of add, rope, to_bf16 and merge what could be written here. Needs -march=armv8.2-a+dotprod.

#include "kernels/kernel_table.h"

namespace millrace::kernels::neon {

void rms_norm_f32(const RmsNormArgs& p);
void quantize_q8(const QuantizeArgs& p);
#define FORMAT(name, ...) void gemm_##name(const GemmIntArgs& p);
MILLRACE_INT_FORMATS(FORMAT)
#undef FORMAT
void gemm_f32(const GemmFloatArgs& p);
void gemm_f16(const GemmFloatArgs& p);
void gemm_bf16(const GemmBf16Args& p);
void swiglu_f32(const SwiGluArgs& p);
void kv_write_f32(const KvWriteArgs& p);
void kv_write_f16(const KvWriteArgs& p);
void kv_write_bf16(const KvWriteArgs& p);
void kv_write_int8(const KvWriteArgs& p);
void attend_f32(const AttendArgs& p);
void attend_f16(const AttendArgs& p);
void attend_bf16(const AttendArgs& p);
void attend_int8(const AttendArgs& p);
void roof_int8(const RoofArgs& p);
void roof_f32(const RoofArgs& p);
void roof_read(const RoofArgs& p);

}  // namespace millrace::kernels::neon
