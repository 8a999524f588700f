// Integer weights in super blocks of 256 values.

#include "kernels/cpu/avx2/gemm_int.h"

namespace millrace::kernels::avx2 {

void gemm_q2_k(const GemmIntArgs& p) { gemm<Maddubs, int_formats::q2_k>(p); }
void gemm_q3_k(const GemmIntArgs& p) { gemm<Maddubs, int_formats::q3_k>(p); }
void gemm_q4_k(const GemmIntArgs& p) { gemm<Maddubs, int_formats::q4_k>(p); }
void gemm_q5_k(const GemmIntArgs& p) { gemm<Maddubs, int_formats::q5_k>(p); }
void gemm_q6_k(const GemmIntArgs& p) { gemm<Maddubs, int_formats::q6_k>(p); }
void gemm_iq4_xs(const GemmIntArgs& p) { gemm<Maddubs, int_formats::iq4_xs>(p); }

}  // namespace millrace::kernels::avx2
