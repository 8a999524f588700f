#pragma once

// The portable kernels, one function per line of kernel_list.inc: the definition of correct for every other level.
// Where params.h states a sequence of operations, all levels give these bits (std::fma is one rounding everywhere);
// sums that params.h leaves open are ordered in lanes here (sum_lanes), so that vector levels can follow.

#include "kernels/kernel_table.h"

namespace millrace::kernels::generic {

#define KERNEL(name, args) void name(const args& p);
#include "kernels/kernel_list.inc"
#undef KERNEL

}  // namespace millrace::kernels::generic
