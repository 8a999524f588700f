#pragma once

// One function pointer per kernel. No STL here: ISA files include this header.

#include "kernels/params.h"

namespace millrace::kernels {

#define KERNEL(name, args) using name##_fn = void (*)(const args&);
#include "kernels/kernel_list.inc"
#undef KERNEL

/// nullptr in a per-ISA table means "no better than the level below". panel_rows goes with the gemm kernels: a level
/// that sets it sets all of them.
struct KernelTable {
  int panel_rows = 0;  // 8 or 16
#define KERNEL(name, args) name##_fn name = nullptr;
#include "kernels/kernel_list.inc"
#undef KERNEL
};

}  // namespace millrace::kernels
