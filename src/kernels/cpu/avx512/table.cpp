// Table of the AVX-512 level.

#include "kernels/cpu/avx512/kernels.h"

namespace millrace::kernels {

extern const KernelTable MILLRACE_AVX512_TABLE;
constinit const KernelTable MILLRACE_AVX512_TABLE = {
    .panel_rows = 16,
    .rms_norm_f32 = MILLRACE_AVX512::rms_norm_f32,
    .quantize_q8 = MILLRACE_AVX512::quantize_q8,
#define FORMAT(name, ...) .gemm_##name = MILLRACE_AVX512::gemm_##name,
    MILLRACE_INT_FORMATS(FORMAT)
#undef FORMAT
    .gemm_f32 = MILLRACE_AVX512::gemm_f32,
    .gemm_f16 = MILLRACE_AVX512::gemm_f16,
    .gemm_bf16 = MILLRACE_AVX512::gemm_bf16,
    .swiglu_f32 = MILLRACE_AVX512::swiglu_f32,
    .attend_f32 = MILLRACE_AVX512::attend_f32,
    .attend_f16 = MILLRACE_AVX512::attend_f16,
    .attend_bf16 = MILLRACE_AVX512::attend_bf16,
    .attend_int8 = MILLRACE_AVX512::attend_int8,
    .roof_int8 = MILLRACE_AVX512::roof_int8,
    .roof_f32 = MILLRACE_AVX512::roof_f32,
    .roof_read = MILLRACE_AVX512::roof_read,
};

}  // namespace millrace::kernels
