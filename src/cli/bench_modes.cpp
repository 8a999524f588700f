// bench: hands the call to the mode that its first word names.

#include "cli/bench_modes.h"

#include <array>

#include "base/check.h"
#include "cli/commands.h"

namespace millrace::cli {
namespace {

enum class Needs { nothing, model, url };

struct BenchMode {
  std::string_view word;
  Needs needs = Needs::model;
  Result<int> (*run)(const Options&) = nullptr;
};

constexpr auto kModes = std::to_array<BenchMode>({
    {"", Needs::model, run_bench_speed},
    {"kv", Needs::nothing, run_bench_kv},
    {"schedule", Needs::model, run_bench_schedule},
    {"serve", Needs::url, run_bench_serve},
    {"soak", Needs::model, run_bench_soak},
    {"stall", Needs::model, run_bench_stall},
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
    if (options.model.empty() && mode.needs != Needs::nothing)
      return error(Code::invalid_argument, "bench{}{} needs a {}", mode.word.empty() ? "" : " ", mode.word, mode.needs == Needs::url ? "URL" : "model");
    return mode.run(options);
  }
  check_failed(__FILE__, __LINE__, "mode has a row", "bench_modes.cpp");
}

}  // namespace millrace::cli
