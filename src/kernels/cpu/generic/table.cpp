// Table of the portable level: every slot is set.

#include "kernels/cpu/generic/kernels.h"

namespace millrace::kernels {

extern const KernelTable kGenericKernels;
constinit const KernelTable kGenericKernels = {
    .panel_rows = 8,
#define KERNEL(name, args) .name = generic::name,
#include "kernels/kernel_list.inc"
#undef KERNEL
};

}  // namespace millrace::kernels
