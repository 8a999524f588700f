#include "kernels/registry.h"

#include <fmt/format.h>
#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

#include <algorithm>
#include <array>
#include <iterator>
#include <vector>

#include "kernels/cpu/x86_features.h"

namespace millrace::kernels {

extern const KernelTable kGenericKernels;
#if defined(__x86_64__)
extern const KernelTable kAvx2Kernels;
extern const KernelTable kAvxVnniKernels;
extern const KernelTable kAvx512Kernels;
extern const KernelTable kAvx512Bf16Kernels;
extern const KernelTable kAmxKernels;
#elif defined(__aarch64__)
extern const KernelTable kNeonKernels;
extern const KernelTable kNeonI8mmKernels;
#endif

namespace {

struct Level {
  Isa isa;
  Isa base;  // the level it is built on; generic is its own
  const KernelTable* table;
  bool (*cpu_has_it)();  // beyond its base
};

// The whole dispatch policy: the levels of this architecture. Order matters: the last row that can run is the best, and
// a base comes before its levels. getauxval is the operating system's answer.
constexpr Level kLevels[] = {
    {Isa::generic, Isa::generic, &kGenericKernels, [] { return true; }},
#if defined(__x86_64__)
    {Isa::avx2, Isa::generic, &kAvx2Kernels, x86::has_avx2},
    {Isa::avx_vnni, Isa::avx2, &kAvxVnniKernels, x86::has_avx_vnni},
    {Isa::avx512, Isa::avx2, &kAvx512Kernels, x86::has_avx512},
    {Isa::avx512_bf16, Isa::avx512, &kAvx512Bf16Kernels, x86::has_avx512_bf16},
    {Isa::amx, Isa::avx512_bf16, &kAmxKernels, x86::has_amx},
#elif defined(__aarch64__)
    {Isa::neon, Isa::generic, &kNeonKernels, [] { return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0; }},
    {Isa::neon_i8mm, Isa::neon, &kNeonI8mmKernels, [] { return (getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0; }},
#endif
};

// By Isa, on every architecture: a level of another one is refused by its name.
constexpr std::string_view kNames[] = {"generic",     "avx2", "avx_vnni", "avx512",
                                       "avx512_bf16", "amx",  "neon",     "neon_i8mm"};

/// Whether `isa` is `part` or built on it.
bool includes(Isa isa, Isa part) {
  for (auto level = std::rbegin(kLevels); level != std::rend(kLevels) && isa != part; ++level)
    if (level->isa == isa) isa = level->base;
  return isa == part;
}

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
#define KERNEL(kernel, args)                                                       \
  rows[i] = {#kernel, Isa::generic};                                               \
  for (const Level& level : kLevels)                                               \
    if (includes(isa, level.isa) && level.table->kernel) rows[i].from = level.isa; \
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
      const bool has_base = level.base == level.isa || std::ranges::count(found, level.base) > 0;
      if (has_base && level.cpu_has_it()) found.push_back(level.isa);
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
    if (includes(isa, level.isa)) overlay(table, *level.table);
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
