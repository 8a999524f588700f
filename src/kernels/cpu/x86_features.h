#pragma once

// What this x86 CPU can run, and the operating system lets it: one question per level of the registry, each about what
// the level adds to the one that it is built on. Nothing here needs extra ISA flags.

namespace millrace::kernels::x86 {

bool has_avx2();  // and FMA, F16C
bool has_avx_vnni();
bool has_avx512();  // F, BW, VL, DQ, VNNI
bool has_avx512_bf16();
bool has_amx();  // TILE, INT8, BF16; asks the system for the tiles' registers, which a process has to do once

}  // namespace millrace::kernels::x86
