// Table of the NEON level. Panels of 8 rows: a step of one is two registers, and 4 rows of activations times those are
// as many accumulators, integers and floats, as 32 registers hold.

#include "kernels/cpu/neon/kernels.h"

namespace millrace::kernels {

extern const KernelTable kNeonKernels;
constinit const KernelTable kNeonKernels = {
    .panel_rows = 8,
    .rms_norm_f32 = neon::rms_norm_f32,
    .quantize_q8 = neon::quantize_q8,
#define FORMAT(name, ...) .gemm_##name = neon::gemm_##name,
    MILLRACE_INT_FORMATS(FORMAT)
#undef FORMAT
    .gemm_f32 = neon::gemm_f32,
    .gemm_f16 = neon::gemm_f16,
    .gemm_bf16 = neon::gemm_bf16,
    .swiglu_f32 = neon::swiglu_f32,
    .kv_write_f32 = neon::kv_write_f32,
    .kv_write_f16 = neon::kv_write_f16,
    .kv_write_bf16 = neon::kv_write_bf16,
    .kv_write_int8 = neon::kv_write_int8,
    .attend_f32 = neon::attend_f32,
    .attend_f16 = neon::attend_f16,
    .attend_bf16 = neon::attend_bf16,
    .attend_int8 = neon::attend_int8,
    .roof_int8 = neon::roof_int8,
    .roof_f32 = neon::roof_f32,
    .roof_read = neon::roof_read,
};

}  // namespace millrace::kernels
