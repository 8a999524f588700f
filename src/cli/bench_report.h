#pragma once

// What bench found, beside the roof: pure arithmetic over measured rates, as text and as JSON.

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <string_view>
#include <vector>

#include "cli/bench_ops.h"
#include "cli/model_costs.h"
#include "cli/roof.h"

namespace millrace::cli {

struct BenchRow {
  std::string work;  // "prefill" or "decode"
  int tokens = 0;    // of the prompt
  int batch = 1;
  double tokens_per_s = 0;
  double bytes_per_s = 0, flops_per_s = 0;
  double roof_share = 0;  // of what bounds it
  std::string bound;      // "memory" or "arithmetic": whichever roof is nearer
  std::string step;       // of decode: the `work` of its ops
};

struct BenchReport {
  std::string file, arch;
  kernels::Isa isa = kernels::Isa::generic;
  int threads = 1;
  Roof roof;
  ModelCosts costs;
  std::vector<BenchRow> rows;
  std::vector<OpTime> ops;

  /// Part of a decode step of `batch` streams that goes into drawing tokens, from `ops`; 0 when it was not measured.
  double sampling_share(int batch, std::string_view step = "decode") const;

  void add_prefill(int tokens, double tokens_per_s);
  /// `context`: cached tokens of each stream, on average.
  void add_decode(int batch, double tokens_per_s, double context, std::string_view step = "decode");

  nlohmann::ordered_json to_json() const;
  std::string to_text() const;

 private:
  void finish(BenchRow row);
};

}  // namespace millrace::cli
