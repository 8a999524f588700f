#include "kernels/registry.h"

#include <fmt/format.h>
#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

#include <algorithm>
#include <array>
#include <vector>

namespace millrace::kernels {

extern const KernelTable kGenericKernels;
#if defined(__x86_64__)
extern const KernelTable kAvx2Kernels;
extern const KernelTable kAvx512Kernels;
extern const KernelTable kAvx512Bf16Kernels;
#elif defined(__aarch64__)
extern const KernelTable kNeonKernels;
extern const KernelTable kNeonI8mmKernels;
#endif

namespace {

struct Level {
  Isa isa;
  std::string_view name;
  const KernelTable* table;
  bool (*cpu_has_it)();
};

#if defined(__x86_64__)
// Clang 14 knows no "f16c" in __builtin_cpu_supports. The registers it uses are AVX2's, which that asks about.
bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}
#endif

// The whole dispatch policy: the levels of this architecture. Order matters: later rows win. __builtin_cpu_supports also
// asks whether the operating system saves the wider registers; getauxval is the operating system's answer.
#define HAS(feature) static_cast<bool>(__builtin_cpu_supports(feature))
constexpr Level kLevels[] = {
    {Isa::generic, "generic", &kGenericKernels, [] { return true; }},
#if defined(__x86_64__)
    {Isa::avx2, "avx2", &kAvx2Kernels, [] { return HAS("avx2") && HAS("fma") && has_f16c(); }},
    {Isa::avx512, "avx512", &kAvx512Kernels,
     [] { return HAS("avx512f") && HAS("avx512bw") && HAS("avx512vl") && HAS("avx512dq") && HAS("avx512vnni"); }},
    {Isa::avx512_bf16, "avx512_bf16", &kAvx512Bf16Kernels, [] { return HAS("avx512bf16"); }},
#elif defined(__aarch64__)
    {Isa::neon, "neon", &kNeonKernels, [] { return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0; }},
    {Isa::neon_i8mm, "neon_i8mm", &kNeonI8mmKernels, [] { return (getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0; }},
#endif
};
#undef HAS

// By Isa, on every architecture: a level of another one is refused by its name.
constexpr std::string_view kNames[] = {"generic", "avx2", "avx512", "avx512_bf16", "neon", "neon_i8mm"};

std::string names(std::span<const Isa> isas) {
  std::string out;
  for (const Isa isa : isas) out.append(out.empty() ? "" : ", ").append(to_string(isa));
  return out;
}

constexpr std::size_t kKernels = 0
#define KERNEL(name, args) +1
#include "kernels/kernel_list.inc"
#undef KERNEL
    ;

std::array<KernelRow, kKernels> rows_for(Isa isa) {
  std::array<KernelRow, kKernels> rows;
  std::size_t i = 0;
#define KERNEL(kernel, args)                                               \
  rows[i] = {#kernel, Isa::generic};                                       \
  for (const Level& level : kLevels)                                       \
    if (level.isa <= isa && level.table->kernel) rows[i].from = level.isa; \
  ++i;
#include "kernels/kernel_list.inc"
#undef KERNEL
  return rows;
}

}  // namespace

void overlay(KernelTable& onto, const KernelTable& from) {
  if (from.panel_rows) onto.panel_rows = from.panel_rows;
#define KERNEL(name, args) \
  if (from.name) onto.name = from.name;
#include "kernels/kernel_list.inc"
#undef KERNEL
}

std::string_view to_string(Isa isa) { return kNames[static_cast<std::size_t>(isa)]; }

std::span<const Isa> runnable_isas() {
  static const std::vector<Isa> isas = [] {
    std::vector<Isa> found;
    for (const Level& level : kLevels) {
      if (!level.cpu_has_it()) break;  // a level includes the ones before it
      found.push_back(level.isa);
    }
    return found;
  }();
  return isas;
}

Result<KernelTable> select_kernels(Isa isa) {
  if (std::ranges::find(runnable_isas(), isa) == runnable_isas().end())
    return error(Code::unsupported, "this CPU or build has no {} kernels, only {}", to_string(isa),
                 names(runnable_isas()));
  KernelTable table;
  for (const Level& level : kLevels)
    if (level.isa <= isa) overlay(table, *level.table);
  return table;
}

Result<Isa> choose_isa(std::string_view forced) {
  if (forced.empty()) return runnable_isas().back();
  const auto name = std::ranges::find(kNames, forced);
  if (name == std::end(kNames))
    return error(Code::invalid_argument, "no instruction set is called '{}'; expected one of {}", forced,
                 fmt::join(kNames, ", "));
  const auto isa = static_cast<Isa>(name - std::begin(kNames));
  MILLRACE_TRY_VOID(select_kernels(isa));
  return isa;
}

std::span<const KernelRow> kernel_rows(Isa isa) {
  static const auto rows = [] {
    std::array<std::array<KernelRow, kKernels>, std::size(kNames)> all;
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = rows_for(static_cast<Isa>(i));
    return all;
  }();
  return rows[static_cast<std::size_t>(isa)];
}

}  // namespace millrace::kernels
