#include "cli/bench_report.h"

#include <fmt/format.h>

#include <algorithm>

#include <nlohmann/json.hpp>

#include "device/topology.h"

namespace millrace::cli {
namespace {

double share(double rate, double roof_giga) { return roof_giga > 0 ? rate / (roof_giga * 1e9) : 0; }

/// Rates and shares of one OpTime.
struct OpRates { double gflops, gb_per_s, roof_share; };

OpRates rates_of(const OpTime& op, const Roof& roof) {
  const double us = std::max(op.us, 1e-3);
  return {op.flops / us / 1e3, op.bytes / us / 1e3,
          std::max(share(op.flops / us * 1e6, arithmetic_roof(roof, op.arithmetic)), share(op.bytes / us * 1e6, roof.read_gbs))};
}

}  // namespace

void BenchReport::finish(BenchRow row) {
  const double memory = share(row.bytes_per_s, roof.read_gbs);
  const double arithmetic = share(row.flops_per_s, arithmetic_roof(roof, costs.arithmetic));
  row.bound = memory >= arithmetic ? "memory" : "arithmetic";
  row.roof_share = std::max(memory, arithmetic);
  rows.push_back(std::move(row));
}

void BenchReport::add_prefill(int tokens, double tokens_per_s) {
  const double prompts_per_s = tokens_per_s / tokens;
  const double kv_bytes = static_cast<double>(tokens) * static_cast<double>(costs.kv_bytes_per_token);
  finish({.work = "prefill", .tokens = tokens, .batch = 1, .tokens_per_s = tokens_per_s,
          .bytes_per_s = (static_cast<double>(costs.weights_bytes) + kv_bytes) * prompts_per_s,
          .flops_per_s = prefill_flops(costs, tokens) * prompts_per_s, .roof_share = 0, .bound = ""});
}

void BenchReport::add_decode(int batch, double tokens_per_s, double context, std::string_view step) {
  const double steps_per_s = tokens_per_s / batch;
  finish({.work = "decode", .tokens = static_cast<int>(context), .batch = batch, .tokens_per_s = tokens_per_s,
          .bytes_per_s = decode_bytes(costs, batch, context) * steps_per_s,
          .flops_per_s = decode_flops(costs, batch, context) * steps_per_s, .roof_share = 0, .bound = "", .step = std::string(step)});
}

double BenchReport::sampling_share(int batch, std::string_view step) const {
  double all = 0, sampling = 0;
  for (const OpTime& op : ops) {
    if (op.work != step || op.batch != batch) continue;
    all += op.us;
    if (op.op == "row_task") sampling += op.us;
  }
  return all > 0 ? sampling / all : 0;
}

nlohmann::ordered_json BenchReport::to_json() const {
  nlohmann::ordered_json out;
  out["machine"] = {{"cpu", device::topology().cpu_model}, {"isa", kernels::to_string(isa)}, {"threads", threads},
                    {"roof", {{"int8_gops", roof.int8_gops}, {"bf16_gflops", roof.bf16_gflops}, {"f32_gflops", roof.f32_gflops}, {"read_gbs", roof.read_gbs}, {"barrier_us", roof.barrier_us}}}};
  out["model"] = {{"file", file}, {"arch", arch}, {"weights_bytes", costs.weights_bytes}, {"kv_bytes_per_token", costs.kv_bytes_per_token}};
  out["rows"] = nlohmann::ordered_json::array();
  for (const BenchRow& row : rows) {
    out["rows"].push_back({{"work", row.work}, {"tokens", row.tokens}, {"batch", row.batch}, {"tokens_per_s", row.tokens_per_s},
                           {"bytes_per_s", row.bytes_per_s}, {"flops_per_s", row.flops_per_s}, {"roof_share", row.roof_share}, {"bound", row.bound}});
    if (row.work == "decode") out["rows"].back()["sampling_share"] = sampling_share(row.batch, row.step);
  }
  out["ops"] = nlohmann::ordered_json::array();
  for (const OpTime& op : ops) {
    const OpRates rates = rates_of(op, roof);
    out["ops"].push_back({{"work", op.work}, {"batch", op.batch}, {"op", op.op}, {"scope", op.scope}, {"shape", op.shape},
                          {"launches", op.launches}, {"us", op.us}, {"gflops", rates.gflops}, {"gb_per_s", rates.gb_per_s},
                          {"roof_share", rates.roof_share}});
  }
  return out;
}

std::string BenchReport::to_text() const {
  std::string out = fmt::format("{}, {}, {} threads\n", device::topology().cpu_model, kernels::to_string(isa), threads);
  out += fmt::format("roof: int8 {:.0f} GOPS, bf16 {:.0f} GFLOPS, f32 {:.0f} GFLOPS, read {:.1f} GB/s; a barrier {:.2f} us\n", roof.int8_gops, roof.bf16_gflops, roof.f32_gflops, roof.read_gbs,
                     roof.barrier_us);
  out += fmt::format("{} ({}): {} bytes of weights per step, {} bytes of KV per token\n\n", file, arch, costs.weights_bytes, costs.kv_bytes_per_token);
  out += fmt::format("{:<8} {:>6} {:>6} {:>12} {:>9} {:>9}  {}\n", "work", "tokens", "batch", "tokens/s", "GB/s", "GFLOP/s", "share of the roof");
  for (const BenchRow& row : rows)
    out += fmt::format("{:<8} {:>6} {:>6} {:>12.1f} {:>9.2f} {:>9.1f}  {:.0f} % of {}\n", row.work, row.tokens, row.batch, row.tokens_per_s,
                       row.bytes_per_s / 1e9, row.flops_per_s / 1e9, row.roof_share * 100, row.bound);
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const OpTime& op = ops[i];
    if (i == 0 || op.work != ops[i - 1].work || op.batch != ops[i - 1].batch) {
      double sum = 0;
      for (const OpTime& o : ops)
        if (o.work == op.work && o.batch == op.batch) sum += o.us;
      const double drawn = op.work.starts_with("decode") ? sampling_share(op.batch, op.work) * 100 : 0;
      out += fmt::format("\n{} {}, one step: {:.0f} us{}\n{:>9} {:>8} {:>8} {:>7} {:>5}  op, place, shape\n", op.work, op.batch, sum,
                         drawn > 0 ? fmt::format(", {:.1f} % of it draws at temperature 0.8, top_p 0.95", drawn) : "", "us", "launches", "GFLOP/s", "GB/s",
                         "roof");
    }
    const OpRates rates = rates_of(op, roof);
    out += fmt::format("{:>9.1f} {:>8} {:>8.1f} {:>7.2f} {:>4.0f}%  {}, {}, {}\n", op.us, op.launches, rates.gflops, rates.gb_per_s, rates.roof_share * 100, op.op,
                       op.scope, op.shape);
  }
  return out;
}

}  // namespace millrace::cli
