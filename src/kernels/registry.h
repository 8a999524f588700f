#pragma once

// Which machine code runs for each kernel. Chosen once, at start-up, by copying
// function pointers; after that a kernel call is one indirect call per tile.
//
// A file compiled with extra ISA flags (cpu/avx2/..., cpu/neon/...) includes an
// intrinsics header, <cstdint> and kernel_table.h, no STL, and keeps everything but its
// table in an anonymous namespace. Its object then defines no weak symbol. With one, the
// linker may keep the AVX-512 copy of an inline function for the whole program, and an
// older CPU stops with an illegal instruction. tools/check_kernel_objects.py looks.

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "kernels/kernel_table.h"

namespace millrace::kernels {

/// Of one architecture worst first. Each level includes the one that it is built on, which is not always the one before
/// it (docs/decisions/0008). x86-64: avx2 (+ FMA, F16C) is the base of avx_vnni (+ AVX-VNNI: CPUs without AVX-512) and
/// of avx512 (F, BW, VL, DQ, VNNI), that of avx512_bf16 (+ BF16), that of amx (TILE, INT8, BF16). AArch64: neon (+ dot
/// product) is the base of neon_i8mm (+ I8MM).
enum class Isa { generic, avx2, avx_vnni, avx512, avx512_bf16, amx, neon, neon_i8mm };

/// The best kernel of `isa` and the levels it is built on, for each slot; no slot is null.
/// Errors: unsupported, when this build or this CPU lacks `isa`.
Result<KernelTable> select_kernels(Isa isa);

/// Sets in `onto` the slots that `from` has: how select_kernels stacks one level on the ones below.
void overlay(KernelTable& onto, const KernelTable& from);

/// ISAs that this build has and this CPU can run, worst first. Never empty.
std::span<const Isa> runnable_isas();

/// The best of them, or the one that `forced` names ("avx2"). Errors: invalid_argument (no such name, with the list),
/// unsupported (this CPU or build lacks it).
Result<Isa> choose_isa(std::string_view forced);

std::string_view to_string(Isa isa);

/// Which level each kernel of a table for `isa` comes from: rows for `inspect --kernels`.
struct KernelRow {
  std::string_view kernel;
  Isa from;
};
std::span<const KernelRow> kernel_rows(Isa isa);

}  // namespace millrace::kernels
