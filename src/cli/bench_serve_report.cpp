#include "cli/bench_serve_report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "cli/nearest_rank.h"

namespace millrace::cli {
namespace {

double seconds(Microseconds us) { return static_cast<double>(us) / 1e6; }

double ttft_s(const LoadRecord& record) { return seconds(record.text_us.front() - record.sent_us); }
double e2e_s(const LoadRecord& record) { return seconds(record.end_us - record.sent_us); }

/// From the first text to the last, for each token but the first; nothing for an answer of one token.
std::optional<double> tpot_s(const LoadRecord& record) {
  if (record.text_us.empty() || record.output_tokens() < 2) return std::nullopt;
  return seconds(record.text_us.back() - record.text_us.front()) / (record.output_tokens() - 1);
}

bool is_good(const LoadRecord& record, const SloLimits& slo) {
  if (record.outcome != Outcome::done || record.text_us.empty()) return false;
  const auto keeps = [](double value_s, double limit_ms) { return limit_ms <= 0 || value_s * 1e3 <= limit_ms; };
  return keeps(ttft_s(record), slo.ttft_ms) && keeps(tpot_s(record).value_or(0), slo.tpot_ms) && keeps(e2e_s(record), slo.e2e_ms);
}

std::vector<ErrorCount> errors_of(const std::vector<LoadRecord>& records) {
  std::map<std::pair<int, std::string>, ErrorCount> counts;
  for (const LoadRecord& record : records) {
    if (record.outcome != Outcome::failed) continue;
    ErrorCount& one = counts[{record.status, record.error}];
    ++one.count, one.status = record.status, one.sentence = record.error;
    one.retry_after_s = std::max(one.retry_after_s, record.retry_after_s);
  }
  std::vector<ErrorCount> out;
  for (auto& [key, one] : counts) out.push_back(std::move(one));
  std::ranges::stable_sort(out, std::greater<>(), &ErrorCount::count);
  return out;
}

std::vector<Second> timeline_of(const std::vector<LoadRecord>& records, Microseconds first_us, Microseconds last_us) {
  const auto second_of = [&](Microseconds us) { return static_cast<std::size_t>((us - first_us) / 1'000'000); };
  std::vector<Second> out(second_of(last_us) + 1);
  for (const LoadRecord& record : records) {
    ++out[second_of(record.sent_us)].sent;
    for (const Microseconds us : record.text_us) ++out[second_of(us)].chunks;
    for (std::size_t i = second_of(record.sent_us); i <= second_of(record.end_us); ++i) ++out[i].running;
    if (record.outcome == Outcome::done) ++out[second_of(record.end_us)].done;
    if (record.outcome == Outcome::failed) ++out[second_of(record.end_us)].failed;
  }
  return out;
}

StallFigures stall_figures(const std::vector<LoadRecord>& records) {
  StallFigures out;
  const auto arrival = std::ranges::find_if(records, &LoadRecord::is_long);
  if (arrival == records.end()) return out;
  if (!arrival->text_us.empty()) out.long_ttft_s = ttft_s(*arrival);
  std::vector<double> gaps;
  for (const LoadRecord& record : records)
    for (std::size_t i = 1; !record.is_long && i < record.text_us.size(); ++i)
      if (record.text_us[i] > arrival->sent_us) gaps.push_back(seconds(record.text_us[i] - record.text_us[i - 1]));
  out.gap_s = spread_of(std::move(gaps));
  return out;
}

nlohmann::ordered_json json_of(const Spread& spread) {
  if (spread.n == 0) return nullptr;
  return {{"n", spread.n}, {"mean", spread.mean}, {"p50", spread.p50}, {"p90", spread.p90}, {"p99", spread.p99}, {"max", spread.max}};
}

std::string row_of(const char* name, const Spread& spread) {
  if (spread.n == 0) return "";
  return fmt::format("{:<8} {:>9.2f} {:>9.2f} {:>9.2f} {:>9.2f} {:>9.2f}  {:>8}\n", name, spread.mean * 1e3, spread.p50 * 1e3, spread.p90 * 1e3, spread.p99 * 1e3,
                     spread.max * 1e3, spread.n);
}

std::string limits_text(const SloLimits& slo) {
  std::string out;
  const auto add = [&](const char* name, double limit_ms) {
    if (limit_ms > 0) out += fmt::format("{}{} <= {} ms", out.empty() ? "" : ", ", name, limit_ms);
  };
  add("TTFT", slo.ttft_ms), add("TPOT", slo.tpot_ms), add("e2e", slo.e2e_ms);
  return out;
}

}  // namespace

Spread spread_of(std::vector<double> values) {
  if (values.empty()) return {};
  std::ranges::sort(values);
  return {.n = values.size(),
          .mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size()),
          .p50 = nearest_rank(values, 50),
          .p90 = nearest_rank(values, 90),
          .p99 = nearest_rank(values, 99),
          .max = values.back()};
}

ServeReport report_on(const LoadResult& result, const SloLimits& slo, std::string_view scenario) {
  ServeReport out;
  out.slo = slo;
  out.peak_running = result.peak_running, out.stopped = result.stopped, out.client_cpu_s = result.cpu_s;
  out.sent = static_cast<int>(result.records.size());
  std::vector<double> ttft, tpot, gaps, e2e, late;
  bool has_usage = true;
  Microseconds first_us = 0, last_us = 0;
  for (const LoadRecord& record : result.records) {
    if (&record == &result.records.front()) first_us = record.sent_us;
    last_us = std::max({last_us, record.end_us, record.text_us.empty() ? 0 : record.text_us.back()});
    if (record.due_us != kWhenThereIsRoom) late.push_back(seconds(std::max<Microseconds>(record.sent_us - record.due_us, 0)));
    if (is_good(record, slo)) ++out.good;
    if (record.outcome == Outcome::unfinished) ++out.unfinished;
    if (record.outcome == Outcome::failed) ++out.failed;
    if (record.outcome == Outcome::failed) continue;
    out.prompt_tokens += std::max(record.usage.prompt_tokens, 0);
    out.cached_tokens += record.usage.cached_tokens;
    out.output_tokens += record.output_tokens();
    out.chunks += static_cast<std::int64_t>(record.text_us.size());
    if (record.outcome == Outcome::done) {
      ++out.done;
      has_usage = has_usage && record.usage.completion_tokens >= 0;
      e2e.push_back(e2e_s(record));
      if (record.text_us.empty()) ++out.without_text;
    }
    if (record.text_us.empty()) continue;
    ttft.push_back(ttft_s(record));
    if (const auto each = tpot_s(record)) tpot.push_back(*each);
    for (std::size_t i = 1; i < record.text_us.size(); ++i) gaps.push_back(seconds(record.text_us[i] - record.text_us[i - 1]));
  }
  out.has_usage = has_usage && out.done > 0;
  out.wall_s = seconds(last_us - first_us);
  out.ttft_s = spread_of(std::move(ttft)), out.tpot_s = spread_of(std::move(tpot)), out.gap_s = spread_of(std::move(gaps));
  out.e2e_s = spread_of(std::move(e2e)), out.late_s = spread_of(std::move(late));
  out.errors = errors_of(result.records);
  if (scenario == "stall") out.stall = stall_figures(result.records);
  if (!result.records.empty()) out.timeline = timeline_of(result.records, first_us, last_us);
  return out;
}

nlohmann::ordered_json ServeReport::to_json() const {
  nlohmann::ordered_json out = {{"url", url}, {"model", model}, {"api", api}, {"load", load}};
  out.update({{"sent", sent}, {"done", done}, {"failed", failed}, {"unfinished", unfinished}, {"without_text", without_text}, {"stopped", stopped}});
  out.update({{"wall_s", wall_s}, {"peak_running", peak_running}, {"requests_per_s", per_second(done)}});
  out.update({{"output_tokens_per_s", per_second(static_cast<double>(output_tokens))},
              {"total_tokens_per_s", per_second(static_cast<double>(prompt_tokens + output_tokens))}});
  out.update({{"prompt_tokens", prompt_tokens}, {"cached_tokens", cached_tokens}, {"output_tokens", output_tokens},
              {"tokens_from", has_usage ? "usage" : "chunks"}, {"chunks", chunks}});
  out.update({{"ttft_s", json_of(ttft_s)}, {"tpot_s", json_of(tpot_s)}, {"gap_s", json_of(gap_s)}, {"e2e_s", json_of(e2e_s)}, {"late_s", json_of(late_s)}});
  if (slo.any())
    out["goodput"] = {{"ttft_slo_ms", slo.ttft_ms}, {"tpot_slo_ms", slo.tpot_ms}, {"e2e_slo_ms", slo.e2e_ms}, {"good", good}, {"share", good_share()}, {"requests_per_s", per_second(good)}};
  if (stall) {
    out["stall"] = {{"gap_s", json_of(stall->gap_s)}, {"long_ttft_s", nullptr}};
    if (stall->long_ttft_s >= 0) out["stall"]["long_ttft_s"] = stall->long_ttft_s;
  }
  out["client_cpu_s"] = client_cpu_s;
  out["errors"] = nlohmann::ordered_json::array();
  for (const ErrorCount& one : errors) {
    out["errors"].push_back({{"count", one.count}, {"status", one.status}, {"message", one.sentence}});
    if (one.retry_after_s >= 0) out["errors"].back()["retry_after_s"] = one.retry_after_s;
  }
  out["timeline"] = nlohmann::ordered_json::array();
  for (const Second& one : timeline)
    out["timeline"].push_back({{"sent", one.sent}, {"done", one.done}, {"failed", one.failed}, {"running", one.running}, {"chunks", one.chunks}});
  return out;
}

std::string ServeReport::to_text() const {
  std::string out = fmt::format("{}, {}, {}: {}\n", url, model, api, load);
  out += fmt::format("{} sent, {} done, {} failed", sent, done, failed);
  if (unfinished > 0 || stopped) out += fmt::format(", {} unfinished when it was stopped", unfinished);
  if (without_text > 0) out += fmt::format(", {} without text", without_text);
  out += fmt::format("; {:.2f} s, at most {} at a time\n", wall_s, peak_running);
  out += fmt::format("{:.1f} output tokens/s, {:.1f} with the prompts', {:.2f} requests/s\n", per_second(static_cast<double>(output_tokens)),
                     per_second(static_cast<double>(prompt_tokens + output_tokens)), per_second(done));
  out += has_usage ? fmt::format("{} prompt tokens, {} of them cached; {} output tokens in {} chunks with text\n", prompt_tokens, cached_tokens, output_tokens, chunks)
                   : fmt::format("{} output tokens: chunks with text, as the server counts none\n", output_tokens);
  out += fmt::format("\n{:<8} {:>9} {:>9} {:>9} {:>9} {:>9}  {:>8}\n", "ms", "mean", "p50", "p90", "p99", "max", "of");
  out += row_of("TTFT", ttft_s) + row_of("TPOT", tpot_s) + row_of("gap", gap_s) + row_of("e2e", e2e_s) + row_of("late", late_s);
  if (stall) {
    out += row_of("stalled", stall->gap_s);
    if (stall->long_ttft_s >= 0) out += fmt::format("the long prompt's first text came after {:.1f} ms\n", stall->long_ttft_s * 1e3);
  }
  out += '\n';
  if (slo.any()) out += fmt::format("goodput: {:.1f} % of requests, {:.2f} a second, keep {}\n", good_share() * 100, per_second(good), limits_text(slo));
  for (const ErrorCount& one : errors)
    out += fmt::format("{:>6} x {}: {}{}\n", one.count, one.status > 0 ? std::to_string(one.status) : "no answer", one.sentence,
                       one.retry_after_s >= 0 ? fmt::format(" (retry after {} s)", one.retry_after_s) : "");
  out += fmt::format("this client took {:.2f} s of CPU{}\n", client_cpu_s, chunks > 0 ? fmt::format(", {:.0f} us a chunk", client_cpu_s * 1e6 / static_cast<double>(chunks)) : "");
  return out;
}

}  // namespace millrace::cli
