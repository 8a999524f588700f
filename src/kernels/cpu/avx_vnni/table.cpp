// Table of the AVX-VNNI level.

#include "kernels/cpu/avx_vnni/kernels.h"

namespace millrace::kernels {

extern const KernelTable MILLRACE_AVX_VNNI_TABLE;
constinit const KernelTable MILLRACE_AVX_VNNI_TABLE = {
#define FORMAT(name, ...) .gemm_##name = MILLRACE_AVX_VNNI::gemm_##name,
    MILLRACE_INT_FORMATS(FORMAT)
#undef FORMAT
        .roof_int8 = MILLRACE_AVX_VNNI::roof_int8,
};

}  // namespace millrace::kernels
