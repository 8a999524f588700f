#include "graph/builder.h"

#include <gtest/gtest.h>

#include <tuple>

#include "graph/plan.h"

namespace millrace::graph {
namespace {

using tensor::DType;

/// The LLaMA MLP, written as a model file would.
Value mlp(Builder& g, Value x, DType weights) {
  const Value h = g.rms_norm(x, g.weight("norm", {DType::f32, {64}}, Shard::none), 1e-5f);
  const Value gate = g.linear(h, g.weight("gate", {weights, {96, 64}}, Shard::out));
  const Value up = g.linear(h, g.weight("up", {weights, {96, 64}}, Shard::out));
  return g.add(x, g.linear(g.swiglu(gate, up), g.weight("down", {weights, {64, 96}}, Shard::in)));
}

/// The same with the gated product as one op.
Value gated_mlp(Builder& g, Value x, DType gate, DType up, DType down) {
  const Value h = g.rms_norm(x, g.weight("norm", {DType::f32, {64}}, Shard::none), 1e-5f);
  const Value w = g.weight("down", {down, {64, 96}}, Shard::in);
  return g.add(x, g.linear(g.gated_linear(h, g.weight("gate", {gate, {96, 64}}, Shard::out), g.weight("up", {up, {96, 64}}, Shard::out), w), w));
}

Value embedded(Builder& g) { return g.embed(g.weight("table", {DType::f32, {10, 64}}, Shard::none), g.token_ids()); }

// B11
TEST(Builder, the_llama_mlp_has_the_types_of_the_paper) {
  Builder g;
  const Value x = mlp(g, embedded(g), DType::f32);
  const auto graph = std::move(g).finish(x, x);
  ASSERT_TRUE(graph.ok());
  EXPECT_EQ(to_string((*graph)->value(x.id).desc), "f32 T [64]");
  EXPECT_EQ((*graph)->nodes.size(), 7u);  // embed, norm, gate, up, swiglu, down, add
}

TEST(Builder, a_gated_product_is_one_op_that_gives_what_its_reader_takes) {
  for (const auto& [gate, up, down, nodes] : {std::tuple{DType::q4_0, DType::q8_0, DType::q4_1, 6u},  // embed, norm, quantize, gated, down, add
                                              std::tuple{DType::f32, DType::f16, DType::f32, 5u},      // f32 needs no conversion
                                              std::tuple{DType::bf16, DType::bf16, DType::q8_0, 6u},
                                              std::tuple{DType::q4_0, DType::f16, DType::q8_0, 9u}}) {  // gate and up multiply different things: three ops, and q8 for down
    Builder g;
    const Value x = gated_mlp(g, embedded(g), gate, up, down);
    const auto graph = std::move(g).finish(x, x);
    ASSERT_TRUE(graph.ok()) << graph.error().message;
    EXPECT_EQ((*graph)->nodes.size(), nodes) << to_string(gate) << " " << to_string(up);
  }
}

TEST(Builder, attention_gives_what_its_reader_takes_where_no_block_of_32_spans_two_kv_heads) {
  for (const auto& [heads, want] : {std::pair{8, DType::q8_act}, std::pair{4, DType::f32}}) {  // of 16 values, four KV heads
    Builder g;
    const Value q = g.heads(g.linear(embedded(g), g.weight("q", {DType::q4_0, {heads * 16, 64}}, Shard::out)), heads);
    const Value w = g.weight("out", {DType::q4_0, {64, heads * 16}}, Shard::in);
    const Value attended = g.attend(q, 0, 4, 0.25f, w);
    const Value x = g.linear(attended, w);
    const auto graph = std::move(g).finish(x, x);
    ASSERT_TRUE(graph.ok()) << graph.error().message;
    EXPECT_EQ((*graph)->value(attended.id).desc.dtype, want);
    EXPECT_EQ((*graph)->value(attended.id).desc.row, tensor::Shape({heads * 16}));
  }
}

TEST(Builder, activations_are_quantised_once_for_all_their_readers) {
  Builder g;
  const Value x = mlp(g, embedded(g), DType::q4_0);
  const auto graph = std::move(g).finish(x, x);
  ASSERT_TRUE(graph.ok());
  int quantized = 0;
  for (const Node& n : (*graph)->nodes) quantized += n.op->name() == "quantize";
  EXPECT_EQ(quantized, 2);  // for gate and up together, for down
}

TEST(Builder, the_first_shape_error_names_its_scope_and_both_types) {
  Builder g;
  g.scope("layers.0.ffn");
  const Value x = embedded(g);
  const Value wrong = g.linear(x, g.weight("w", {DType::f32, {8, 65}}, Shard::out));
  g.scope("later");
  const Value y = g.add(wrong, x);
  const auto graph = std::move(g).finish(y, y);
  ASSERT_FALSE(graph.ok());
  EXPECT_EQ(graph.error().message, "layers.0.ffn: linear of f32 T [64] with weight f32 [8, 65]");
}

TEST(Builder, a_view_shares_its_bytes) {
  Builder g;
  const Value x = embedded(g), h = g.heads(x, 4);
  const auto graph = std::move(g).finish(h, h);
  ASSERT_TRUE(graph.ok());
  EXPECT_EQ((*graph)->storage(h.id), x.id);
  EXPECT_EQ(to_string((*graph)->value(h.id).desc), "f32 T [4, 16]");
}

// A19, B13
TEST(Plan, the_bucket_depends_on_the_size_of_a_step_only) {
  const Bucket most{512, 64, 64};
  EXPECT_EQ(bucket_for(1, 1, 1, most), (Bucket{1, 1, 1}));
  EXPECT_EQ(bucket_for(5, 3, 0, most), (Bucket{8, 4, 1}));
  EXPECT_EQ(bucket_for(500, 64, 64, most), (Bucket{512, 64, 64}));
}

}  // namespace
}  // namespace millrace::graph
