#pragma once

// The two ops that touch the paged KV cache: write this step's keys and values, attend over everything written. One
// attention op serves prefill, decode and mixed steps: a query row is computed the same way in all of them.

#include <memory>

#include "ops/op.h"

namespace millrace::ops {

/// Inputs: k, v f32 [T, kv_heads, head_dim]. No output. Writes rows into the blocks of their sequences, layer `layer`.
std::unique_ptr<Op> make_cache_write(int layer);

/// Input: q f32 [rows, heads, head_dim], rows = tokens or outputs. Output: [rows, heads * head_dim] as `to`: f32, bf16, or
/// q8_act (the query heads of a KV head have a multiple of 32 values), as convert would give it. Row r attends to all positions
/// of its sequence up to its own (window: only the last `window` of them; 0 = no window).
std::unique_ptr<Op> make_attend(int layer, int kv_heads, float scale, int window, tensor::DType to);

/// Rows of one attention tile: query heads of a group times rows is about 64 vectors that share each load of K and V.
constexpr int query_tile_rows(int group) { return group >= 64 ? 1 : 64 / group; }

constexpr int attend_tiles(int count, int group) { return (count + query_tile_rows(group) - 1) / query_tile_rows(group); }

}  // namespace millrace::ops
