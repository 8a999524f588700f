#include "kernels/cpu/x86_features.h"

#if defined(__x86_64__)

#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace millrace::kernels::x86 {
namespace {

struct CpuId {
  unsigned a = 0, b = 0, c = 0, d = 0;
};

/// Zeros where the CPU has no such leaf.
CpuId cpuid(unsigned leaf, unsigned subleaf) {
  CpuId out;
  if (!__get_cpuid_count(leaf, subleaf, &out.a, &out.b, &out.c, &out.d)) return {};
  return out;
}

}  // namespace

// __builtin_cpu_supports also asks whether the operating system saves the wider registers. Clang 14 knows neither
// "f16c" nor "avxvnni" there; both use AVX2's registers.
#define HAS(feature) static_cast<bool>(__builtin_cpu_supports(feature))

bool has_avx2() { return HAS("avx2") && HAS("fma") && (cpuid(1, 0).c & bit_F16C); }
bool has_avx_vnni() { return cpuid(7, 1).a >> 4 & 1; }
bool has_avx512() {
  return HAS("avx512f") && HAS("avx512bw") && HAS("avx512vl") && HAS("avx512dq") && HAS("avx512vnni");
}
bool has_avx512_bf16() { return HAS("avx512bf16"); }

#undef HAS

bool has_amx() {
  constexpr unsigned kBf16 = 1u << 22, kTile = 1u << 24, kInt8 = 1u << 25, kAll = kBf16 | kTile | kInt8;
  if ((cpuid(7, 0).d & kAll) != kAll) return false;
#if defined(__linux__)
  // The 8 KiB of tiles are switched on per process: since 5.16; earlier kernels, and those that do not save them,
  // refuse.
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

}  // namespace millrace::kernels::x86

#endif
