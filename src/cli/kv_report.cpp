#include "cli/kv_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace millrace::cli {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const KvUse& use) {
  return {{"utilisation", use.utilisation}, {"max_batch", use.max_batch}, {"pool_utilisation", use.pool_utilisation},
          {"failures", use.failures}, {"steps", use.steps}, {"steps_waiting", use.steps_waiting}};
}

Json json_of(const sched::CacheState& state) {
  Json out = {{"block_tokens", state.block_tokens}, {"pools", Json::array()}, {"sequences", Json::array()}};
  for (const sched::PoolState& pool : state.pools)
    out["pools"].push_back({{"window", pool.window}, {"blocks", pool.blocks}, {"free", pool.free}, {"used", pool.used}, {"cached", pool.cached},
                            {"shared", pool.shared}, {"live_tokens", pool.live_tokens}, {"empty_slots", pool.empty_slots(state.block_tokens)}});
  for (const sched::SequenceState& s : state.sequences)
    if (s.blocks > 0)
      out["sequences"].push_back({{"id", s.id.value}, {"tokens", s.tokens}, {"blocks", s.blocks}, {"shared", s.shared}, {"empty_slots", s.empty_slots}});
  return out;
}

std::string row(std::string_view name, const KvUse& use) {
  return fmt::format("{:<34} {:>10.1f} % {:>8.1f} % {:>9} {:>9} {:>11}\n", name, use.utilisation * 100, use.pool_utilisation * 100, use.max_batch,
                     use.failures, use.preemptions);
}

std::string text_of(const sched::CacheState& state) {
  std::string out;
  for (const sched::PoolState& pool : state.pools) {
    const int slots = std::max(pool.used * state.block_tokens, 1);
    out += fmt::format("at the largest batch: {} blocks of {}: {} used ({} shared), {} cached, {} free; {} of {} used slots are empty ({:.1f} %)\n", pool.blocks,
                       state.block_tokens, pool.used, pool.shared, pool.cached, pool.free, pool.empty_slots(state.block_tokens), pool.used * state.block_tokens,
                       100.0 * pool.empty_slots(state.block_tokens) / slots);
  }
  constexpr std::size_t kShown = 8;
  out += fmt::format("{:>9} {:>8} {:>8} {:>8} {:>12}\n", "sequence", "tokens", "blocks", "shared", "empty slots");
  std::size_t shown = 0, more = 0;
  for (const sched::SequenceState& s : state.sequences) {
    if (s.blocks == 0) continue;
    if (shown == kShown) {
      ++more;
      continue;
    }
    ++shown;
    out += fmt::format("{:>9} {:>8} {:>8} {:>8} {:>12}\n", s.id.value, s.tokens, s.blocks, s.shared, s.empty_slots);
  }
  if (more > 0) out += fmt::format("{:>9} more\n", more);
  return out;
}

}  // namespace

Json KvReport::to_json() const {
  Json out;
  out["contiguous"] = json_of(answer);
  out["contiguous"]["reserves"] = "the prompt and the longest answer of the trace";
  out["paged"] = json_of(paged);
  out["paged"]["prefix_hit_rate"] = paged.prefix_hit_rate;
  out["paged"]["preemptions"] = paged.preemptions;
  out["paged"]["host_us_per_step"] = paged.host_us;
  out["int8_bytes_ratio"] = int8_bytes_ratio;
  out["contiguous_context"] = json_of(context);
  out["contiguous_exact"] = json_of(exact);
  out["trace"] = trace.empty() ? Json() : Json(trace);
  out["pool_tokens"] = options.pool_tokens;
  out["block_tokens"] = options.block_tokens;
  out["inspect"] = json_of(paged.fullest);
  if (!sweep.empty()) out["sweep"] = Json::array();
  for (const BlockSizeRow& r : sweep)
    out["sweep"].push_back({{"block_tokens", r.block_tokens}, {"prefix_hit_rate", r.use.prefix_hit_rate}, {"utilisation", r.use.utilisation},
                            {"max_batch", r.use.max_batch}, {"host_us_per_step", r.use.host_us}, {"attend_us", r.attend_us > 0 ? Json(r.attend_us) : Json()}});
  if (no_cache)
    out["no_cache"] = {{"prompt_tokens", no_cache->prompt_tokens}, {"new_tokens", no_cache->new_tokens}, {"measured_tokens", no_cache->measured_tokens},
                       {"measured_s", no_cache->measured_s}, {"computed_s", no_cache->computed_s}, {"prefill_s", no_cache->prefill_s},
                       {"prefills", no_cache->prefills()}, {"with_cache_s", no_cache->with_cache_s}};
  return out;
}

std::string KvReport::to_text() const {
  std::string out = fmt::format("{}, {} token slots in blocks of {}, steps of {} tokens\n\n", trace.empty() ? "a made trace" : trace, options.pool_tokens,
                                options.block_tokens, options.step_tokens);
  out += fmt::format("{:<34} {:>12} {:>10} {:>9} {:>9} {:>11}\n", "while requests wait", "of reserved", "of all", "batch", "failures", "preemptions");
  out += row("contiguous, any sequence", context);
  out += row("contiguous, prompt + any answer", answer);
  out += row("contiguous, prompt + its own answer", exact);
  out += row("paged", paged);
  out += fmt::format("\npaged: {:.1f} % of the prompt tokens were found in the cache; planning a step takes {:.0f} us\n", paged.prefix_hit_rate * 100, paged.host_us);
  out += fmt::format("INT8 keys and values with their scales: {:.3f} of the bytes of f16\n\n", int8_bytes_ratio);
  out += text_of(paged.fullest);
  if (!sweep.empty()) {
    out += fmt::format("\n{:>12} {:>9} {:>12} {:>7} {:>13} {:>10}\n", "block tokens", "hit rate", "utilisation", "batch", "plan us/step", "attend us");
    for (const BlockSizeRow& r : sweep)
      out += fmt::format("{:>12} {:>7.1f} % {:>10.1f} % {:>7} {:>13.1f} {:>10}\n", r.block_tokens, r.use.prefix_hit_rate * 100, r.use.utilisation * 100,
                         r.use.max_batch, r.use.host_us, r.attend_us > 0 ? fmt::format("{:.0f}", r.attend_us) : "-");
  }
  if (no_cache)
    out += fmt::format("\nwithout a cache {} tokens behind a prompt of {} take {:.1f} s, as long as that prompt {:.0f} times ({:.3f} s); with it {:.1f} s.\n"
                       "{} tokens were measured ({:.2f} s), the rest computed.\n",
                       no_cache->new_tokens, no_cache->prompt_tokens, no_cache->computed_s, no_cache->prefills(), no_cache->prefill_s, no_cache->with_cache_s,
                       no_cache->measured_tokens, no_cache->measured_s);
  return out;
}

}  // namespace millrace::cli
