// Table of the AVX2 level: every slot is set.

#include "kernels/cpu/avx2/kernels.h"

namespace millrace::kernels {

extern const KernelTable kAvx2Kernels;
constinit const KernelTable kAvx2Kernels = {
    .panel_rows = 8,
#define KERNEL(name, args) .name = avx2::name,
#include "kernels/kernel_list.inc"
#undef KERNEL
};

}  // namespace millrace::kernels
