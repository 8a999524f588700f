#include "cli/memory_ledger.h"

#include <fmt/format.h>

#include <algorithm>

namespace millrace::cli {
namespace {

// A pool counts its tokens in 31 bits.
constexpr std::int64_t kMostTokens = std::int64_t{1} << 30;

const char* limit_name(const device::MemoryInfo& machine) { return machine.cgroup_limit ? "the cgroup's limit" : "physical memory"; }

}  // namespace

Result<std::int64_t> kv_tokens_of(const MemoryAmount& wish, std::int64_t free_bytes, std::int64_t block_bytes, int block_tokens) {
  const std::int64_t bytes = std::max<std::int64_t>(wish.of(free_bytes), 0);
  if (bytes < block_bytes)
    return error(Code::exhausted, "{} of KV memory hold no block: one of {} tokens takes {}", byte_text(bytes), block_tokens, byte_text(block_bytes));
  return std::min(bytes / block_bytes, kMostTokens / block_tokens) * block_tokens;
}

Result<void> check_fits(const MemoryLedger& l) {
  if (l.loaded_bytes() <= l.machine.free_bytes) return {};
  return error(Code::exhausted, "weights of {}, plans and scratch of {} and a KV cache of {} for {} tokens take {}, but {} of {} ({}) are free",
               byte_text(l.weights_bytes), byte_text(l.plans_bytes + l.scratch_bytes), byte_text(l.kv_bytes), l.kv_tokens, byte_text(l.loaded_bytes()),
               byte_text(l.machine.free_bytes), byte_text(l.machine.total_bytes), limit_name(l.machine));
}

std::string ledger_text(const MemoryLedger& l) {
  const auto row = [](std::string_view name, std::int64_t bytes, std::string_view note = "") {
    return fmt::format("  {:<9}{:>12}{}{}\n", name, byte_text(bytes), note.empty() ? "" : "  ", note);
  };
  return fmt::format("memory: {} of {} ({}) are free\n", byte_text(l.machine.free_bytes), byte_text(l.machine.total_bytes), limit_name(l.machine)) +
         row("program", l.program_bytes, "there already") + row("weights", l.weights_bytes) + row("plans", l.plans_bytes) + row("scratch", l.scratch_bytes) +
         row("KV cache", l.kv_bytes, l.kv_format) + row("total", l.total_bytes()) + fmt::format("holds {} tokens of context\n", l.kv_tokens);
}

}  // namespace millrace::cli
