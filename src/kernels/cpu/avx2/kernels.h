#pragma once

// The kernels of this level, one function per line of kernel_list.inc. Needs -mavx2 -mfma -mf16c.

#include "kernels/kernel_table.h"

namespace millrace::kernels::avx2 {

#define KERNEL(name, args) void name(const args& p);
#include "kernels/kernel_list.inc"
#undef KERNEL

}  // namespace millrace::kernels::avx2
