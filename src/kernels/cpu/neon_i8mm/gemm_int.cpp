// Integer weights with one scale per 32 values.

#include "kernels/cpu/neon_i8mm/gemm_int.h"
#include "kernels/cpu/neon_i8mm/kernels.h"

namespace millrace::kernels::neon_i8mm {

void gemm_q4_0(const GemmIntArgs& p) { neon::gemm<neon::Smmla, int_formats::q4_0>(p); }
void gemm_q4_1(const GemmIntArgs& p) { neon::gemm<neon::Smmla, int_formats::q4_1>(p); }
void gemm_q5_0(const GemmIntArgs& p) { neon::gemm<neon::Smmla, int_formats::q5_0>(p); }
void gemm_q5_1(const GemmIntArgs& p) { neon::gemm<neon::Smmla, int_formats::q5_1>(p); }
void gemm_q8_0(const GemmIntArgs& p) { neon::gemm<neon::Smmla, int_formats::q8_0>(p); }
void gemm_iq4_nl(const GemmIntArgs& p) { neon::gemm<neon::Smmla, int_formats::iq4_nl>(p); }

}  // namespace millrace::kernels::neon_i8mm
