// Table of the AMX level.

#include "kernels/cpu/amx/kernels.h"

namespace millrace::kernels {

extern const KernelTable MILLRACE_AMX_TABLE;
constinit const KernelTable MILLRACE_AMX_TABLE = {
#define FORMAT(name, ...) .gemm_##name = MILLRACE_AMX::gemm_##name,
    MILLRACE_INT_FORMATS(FORMAT)
#undef FORMAT
        .gemm_bf16 = MILLRACE_AMX::gemm_bf16,
    .roof_int8 = MILLRACE_AMX::roof_int8,
    .roof_bf16 = MILLRACE_AMX::roof_bf16,
};

}  // namespace millrace::kernels
