#include "cli/bench_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace millrace::cli {
namespace {

/// 1000 bytes of weights, 10 bytes of KV a token, 200 FLOP a token and 50 for the head, 1 FLOP per query and key.
BenchReport report_on(Roof roof) {
  BenchReport report{.file = "m.gguf", .arch = "llama", .roof = roof, .costs = {}, .rows = {}, .ops = {}};
  report.costs = {.weights_bytes = 1000, .kv_bytes_per_token = 10, .layer_flops_per_token = 200, .head_flops = 50, .attention_flops_per_pair = 1, .arithmetic = Arithmetic::int8};
  return report;
}

TEST(BenchReport, decode_of_one_stream_is_held_against_the_read_roof) {
  auto report = report_on({.int8_gops = 1e-3, .bf16_gflops = 0, .f32_gflops = 1e-4, .read_gbs = 4e-6});
  report.add_decode(1, /*tokens_per_s=*/2, /*context=*/100);  // 2 steps a second of 1000 + 100 * 10 bytes = 4000 of 4000
  EXPECT_DOUBLE_EQ(report.rows[0].roof_share, 1.0);
  EXPECT_EQ(report.rows[0].bound, "memory");
}

TEST(BenchReport, prefill_is_held_against_the_arithmetic_of_its_weights) {
  auto report = report_on({.int8_gops = 1e-5, .bf16_gflops = 0, .f32_gflops = 1e-6, .read_gbs = 1});
  report.add_prefill(10, /*tokens_per_s=*/10);  // one prompt a second: 10 * 200 + 50 + 55 pairs = 2105 of 10000
  EXPECT_DOUBLE_EQ(report.rows[0].roof_share, 0.2105);
  EXPECT_EQ(report.rows[0].bound, "arithmetic");
}

TEST(BenchReport, json_has_the_shape_that_scripts_read) {
  auto report = report_on({.int8_gops = 1, .bf16_gflops = 0, .f32_gflops = 1, .read_gbs = 1});
  report.add_prefill(512, 100);
  report.add_decode(8, 80, 200);
  const auto json = report.to_json();
  EXPECT_EQ(json["model"]["weights_bytes"], 1000);
  EXPECT_EQ(json["machine"]["roof"]["int8_gops"], 1.0);
  ASSERT_EQ(json["rows"].size(), 2u);
  EXPECT_EQ(json["rows"][0]["work"], "prefill");
  EXPECT_EQ(json["rows"][0]["batch"], 1);
  EXPECT_EQ(json["rows"][1]["batch"], 8);
  EXPECT_EQ(json["rows"][1]["tokens_per_s"], 80.0);
}

TEST(BenchReport, a_launch_is_held_against_the_roof_of_its_own_arithmetic) {
  auto report = report_on({.int8_gops = 8, .bf16_gflops = 0, .f32_gflops = 1, .read_gbs = 1});
  report.ops = {{.work = "decode", .batch = 1, .op = "linear", .scope = "layers.*.ffn", .shape = "1x32 -> 64 q4_0", .launches = 2,
                 .us = 10, .flops = 40'000, .bytes = 1'000, .arithmetic = ops::Arithmetic::int8}};
  const auto op = report.to_json()["ops"][0];
  EXPECT_EQ(op["op"], "linear");
  EXPECT_EQ(op["shape"], "1x32 -> 64 q4_0");
  EXPECT_DOUBLE_EQ(op["gflops"].get<double>(), 4.0);
  EXPECT_DOUBLE_EQ(op["gb_per_s"].get<double>(), 0.1);
  EXPECT_DOUBLE_EQ(op["roof_share"].get<double>(), 0.5);  // of int8; the read roof is farther away
  EXPECT_NE(report.to_text().find("linear, layers.*.ffn, 1x32 -> 64 q4_0"), std::string::npos);
}

TEST(BenchReport, the_share_of_sampling_is_that_of_the_row_task) {
  auto report = report_on({.int8_gops = 8, .bf16_gflops = 0, .f32_gflops = 1, .read_gbs = 1});
  report.add_decode(8, 80, 200);
  report.ops = {{.work = "decode", .batch = 8, .op = "linear", .us = 97}, {.work = "decode", .batch = 8, .op = "row_task", .us = 3}, {.work = "decode", .batch = 1, .op = "linear", .us = 50}};
  EXPECT_DOUBLE_EQ(report.to_json()["rows"][0]["sampling_share"].get<double>(), 0.03);
  EXPECT_NE(report.to_text().find("decode 8, one step: 100 us, 3.0 % of it draws"), std::string::npos);
  EXPECT_DOUBLE_EQ(report.sampling_share(1), 0);
  report.add_decode(8, 80, 9000, "decode behind 9000");  // its own ops were not timed
  EXPECT_DOUBLE_EQ(report.to_json()["rows"][1]["sampling_share"].get<double>(), 0);
}

TEST(BenchReport, layers_count_as_one_place) {
  EXPECT_EQ(any_layer("layers.17.ffn"), "layers.*.ffn");
  EXPECT_EQ(any_layer("output"), "output");
  EXPECT_EQ(any_layer("layers.0"), "layers.*");
}

}  // namespace
}  // namespace millrace::cli
