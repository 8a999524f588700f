// bench: hands the call to the mode that its first word names.

#include "cli/bench_modes.h"

#include <array>

#include "base/check.h"
#include "cli/commands.h"

namespace millrace::cli {
namespace {

enum class NeedsModel { yes, no };

struct BenchMode {
  std::string_view word;
  NeedsModel needs_model = NeedsModel::yes;
  Result<int> (*run)(const Options&) = nullptr;
};

constexpr auto kModes = std::to_array<BenchMode>({
    {"", NeedsModel::yes, run_bench_speed},
    {"kv", NeedsModel::no, run_bench_kv},
    {"schedule", NeedsModel::yes, run_bench_schedule},
    {"soak", NeedsModel::yes, run_bench_soak},
    {"stall", NeedsModel::yes, run_bench_stall},
});

/// Whether "a|b" names exactly the modes that have a word, in their order.
constexpr bool names_all(std::string_view words) {
  for (std::size_t i = 1; i < kModes.size(); ++i) {
    const std::string_view word = kModes[i].word;
    if (words.substr(0, word.size()) != word) return false;
    words.remove_prefix(word.size());
    if (words.empty() != (i + 1 == kModes.size())) return false;
    if (!words.empty() && words[0] != '|') return false;
    if (!words.empty()) words.remove_prefix(1);
  }
  return true;
}
static_assert(names_all(kBenchModeWords));

}  // namespace

Result<int> run_bench(const Options& options) {
  for (const BenchMode& mode : kModes) {
    if (mode.word != options.mode) continue;
    if (options.model.empty() && mode.needs_model == NeedsModel::yes)
      return error(Code::invalid_argument, "bench{}{} needs a model", mode.word.empty() ? "" : " ", mode.word);
    return mode.run(options);
  }
  check_failed(__FILE__, __LINE__, "mode has a row", "bench_modes.cpp");
}

}  // namespace millrace::cli
