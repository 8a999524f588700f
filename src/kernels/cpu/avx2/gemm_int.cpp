// Integer weights with one scale per 32 values.

#include "kernels/cpu/avx2/gemm_int.h"

namespace millrace::kernels::avx2 {

void gemm_q4_0(const GemmIntArgs& p) { gemm<Maddubs, int_formats::q4_0>(p); }
void gemm_q4_1(const GemmIntArgs& p) { gemm<Maddubs, int_formats::q4_1>(p); }
void gemm_q5_0(const GemmIntArgs& p) { gemm<Maddubs, int_formats::q5_0>(p); }
void gemm_q5_1(const GemmIntArgs& p) { gemm<Maddubs, int_formats::q5_1>(p); }
void gemm_q8_0(const GemmIntArgs& p) { gemm<Maddubs, int_formats::q8_0>(p); }
void gemm_iq4_nl(const GemmIntArgs& p) { gemm<Maddubs, int_formats::iq4_nl>(p); }

}  // namespace millrace::kernels::avx2
