#include "model/model.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "io/testing/model_files.h"
#include "model/testing/harness.h"
#include "model/testing/reference_forward.h"
#include "ops/backend.h"
#include "tensor/half.h"

namespace millrace::model {
namespace {

using io::testing::TinyModel;
using testing::Harness;
using testing::random_tokens;
using testing::Stream;

std::string folder_of(const io::testing::ScratchFolder& scratch, const TinyModel& tiny) {
  tiny.write_folder(scratch.path() / tiny.architecture);
  return (scratch.path() / tiny.architecture).string();
}

LoadOptions options(KvFormat kv = KvFormat::f32) {
  return {.threads = 2, .kv = kv, .pool_tokens = 1024, .block_tokens = 16, .max_step_tokens = 512, .max_step_outputs = 128};
}

/// Largest ||ours - reference|| / ||reference|| of any row.
double worst_row(const std::vector<float>& ours, const std::vector<double>& reference, std::size_t vocab) {
  double worst = 0;
  for (std::size_t r = 0; r * vocab < reference.size(); ++r) {
    double error = 0, norm = 0;
    for (std::size_t i = r * vocab; i < (r + 1) * vocab; ++i) {
      error += (ours[i] - reference[i]) * (ours[i] - reference[i]);
      norm += reference[i] * reference[i];
    }
    worst = std::max(worst, std::sqrt(error / norm));
  }
  return worst;
}

// f32 weights, f32 cache: what differs from double precision is the rounding of sums of a few hundred products, some
// 2^-24 * sqrt(n) of their size each, amplified by a handful of layers. 2e-5 is the project's bound for golden models.
TEST(Model, logits_are_those_of_the_double_precision_forward_pass) {
  for (const char* architecture : {"llama", "qwen2"})
    for (const bool tied : {false, true})
      for (const char* more : {"", R"(,"rope_scaling":{"rope_type":"llama3","factor":8.0,"low_freq_factor":1.0,"high_freq_factor":4.0,"original_max_position_embeddings":64})",
                               R"(,"rope_scaling":{"rope_type":"linear","factor":2.0})",
                               R"(,"rope_scaling":{"rope_type":"yarn","factor":4.0,"original_max_position_embeddings":32})"}) {
        const io::testing::ScratchFolder scratch;
        const TinyModel tiny{.architecture = architecture, .tied = tied, .more_config = more};
        Harness h(folder_of(scratch, tiny), options());
        const auto tokens = random_tokens(100, tiny.vocab, 3);
        const auto ours = h.logits({h.stream(tokens, 0)}, 128);
        EXPECT_LE(worst_row(ours, testing::reference_logits(h.config(), tiny.tensors(), tokens), static_cast<std::size_t>(tiny.vocab)), 2e-5)
            << architecture << " " << tied << " " << more;
      }
}

TEST(Model, a_folder_and_the_gguf_of_the_same_weights_give_the_same_bytes) {
  for (const char* architecture : {"llama", "qwen2"}) {
    const io::testing::ScratchFolder scratch;
    const TinyModel tiny{.architecture = architecture};
    Harness folder(folder_of(scratch, tiny), options()), gguf(scratch.file("m.gguf", tiny.gguf().finish()), options());
    const auto tokens = random_tokens(60, tiny.vocab, 4);
    EXPECT_EQ(folder.logits({folder.stream(tokens, 0)}, 32), gguf.logits({gguf.stream(tokens, 0)}, 32)) << architecture;
  }
}

/// A model with one layer, matrices in `weights`.
TinyModel tiny_of(const char* architecture, tensor::DType weights) {
  TinyModel tiny{.architecture = architecture, .layers = 1, .matrices = weights};
  if (tensor::layout_of(weights).elements == 256) tiny.dim = tiny.ffn_dim = 256, tiny.heads = 16;  // rows are whole blocks
  return tiny;
}

// A bit more halves the error of a random model; zeros, or codes in the wrong places, would be 1 or more from it.
TEST(Model, every_integer_format_is_as_near_the_weights_that_were_rounded_to_it_as_its_bits_allow) {
  for (const tensor::DType weights : ops::packable_types()) {
    const tensor::BlockLayout layout = tensor::layout_of(weights);
    if (layout.elements == 1) continue;
    const io::testing::ScratchFolder scratch;
    const TinyModel tiny = tiny_of("llama", weights);
    Harness h(scratch.file("m.gguf", tiny.gguf().finish()), options());
    const auto tokens = random_tokens(30, tiny.vocab, 3);
    const auto ours = h.logits({h.stream(tokens, 0)}, 128);
    const double error = worst_row(ours, testing::reference_logits(h.config(), tiny.tensors(), tokens), static_cast<std::size_t>(tiny.vocab));
    EXPECT_LE(error, std::min(0.95, 10.0 / (1 << layout.bytes * 8 / layout.elements))) << to_string(weights);
  }
}

/// The first streams of a pool in shuffled order, then mates in the blocks that are left.
std::vector<testing::Stream> with_mates(const Harness& h, const std::vector<TokenId>& tokens, int mates, unsigned seed) {
  const testing::Stream all = h.shuffled(std::vector<TokenId>(1024), seed);  // the whole pool, permuted
  std::size_t next = 0;
  std::vector<testing::Stream> out;
  for (int m = 0; m <= mates; ++m) {
    out.push_back(h.stream(m == 0 ? tokens : random_tokens(20 + 30 * m, h.config().vocab_size, seed + static_cast<unsigned>(m)), 0));
    for (BlockId& b : out.back().blocks) b = all.blocks[next++];
  }
  return out;
}

struct Situation { int threads, chunk, mates, block_tokens; };
constexpr Situation kSituations[] = {{1, 128, 0, 16}, {1, 7, 3, 32}, {2, 1, 0, 8}, {2, 7, 0, 64}, {2, 128, 3, 16}};

// A8, A15, A21, B10: one request's logits are the same bytes for every chunk size, thread count, block size and
// permutation, and set of batch mates; for each architecture, weight format, KV format and ISA level of this machine.
TEST(Model, logits_are_the_same_bytes_in_every_situation) {
  int combinations = 0;
  for (const char* architecture : {"llama", "qwen2"})
    for (const tensor::DType weights : ops::packable_types()) {
      const io::testing::ScratchFolder scratch;
      const TinyModel tiny = tiny_of(architecture, weights);
      const std::string path = scratch.file("m.gguf", tiny.gguf().finish());
      const auto tokens = random_tokens(41, tiny.vocab, 5);
      for (const auto& [kv, kv_name, dtype] : kKvFormats)
        for (const std::string& isa : ops::runnable_backends()) {
          std::vector<float> want;
          for (const Situation& s : kSituations) {
            LoadOptions o = options(kv);
            o.threads = s.threads, o.isa = isa, o.block_tokens = s.block_tokens;
            Harness h(path, o);
            const std::vector<float> got = h.logits(with_mates(h, tokens, s.mates, static_cast<unsigned>(s.chunk)), s.chunk);
            if (want.empty()) want = got;
            ++combinations;
            ASSERT_EQ(std::memcmp(got.data(), want.data(), want.size() * 4), 0)
                << architecture << " " << to_string(weights) << " kv " << kv_name << " " << isa << " threads " << s.threads << " chunk " << s.chunk
                << " mates " << s.mates << " blocks of " << s.block_tokens;
          }
        }
    }
  EXPECT_GE(combinations, 200);
}

// The same across the borders of key tiles (64) and splits (512), where partial results are merged.
TEST(Model, a_long_context_is_the_same_bytes_for_every_chunk) {
  const io::testing::ScratchFolder scratch;
  const TinyModel tiny{.architecture = "qwen2", .layers = 2, .positions = 1024};
  const std::string path = folder_of(scratch, tiny);
  const auto tokens = random_tokens(700, tiny.vocab, 12);
  for (const KvFormat kv : {KvFormat::f16, KvFormat::f32, KvFormat::int8}) {
    std::vector<float> want;
    for (const Situation& s : {Situation{2, 128, 0, 32}, Situation{1, 33, 3, 16}, Situation{2, 100, 1, 128}, Situation{2, 1, 0, 32}, Situation{1, 1, 1, 16}}) {
      LoadOptions o = options(kv);
      o.threads = s.threads, o.block_tokens = s.block_tokens;
      Harness h(path, o);
      const std::vector<float> got = h.logits(with_mates(h, tokens, s.mates, 3), s.chunk);
      if (want.empty()) want = got;
      EXPECT_EQ(std::memcmp(got.data(), want.data(), want.size() * 4), 0) << "chunk " << s.chunk;
    }
    EXPECT_LE(worst_row(want, testing::reference_logits(*read_config(**io::open_model(path)), tiny.tensors(), tokens), static_cast<std::size_t>(tiny.vocab)),
              kv == KvFormat::f32 ? 2e-5 : kv == KvFormat::f16 ? 5e-3 : 2e-2)  // f16 keys and values: 2^-11 relative each, as the weights' bound for f16
        << to_string(kv);                                                     // int8: 2^-8 of the largest, as the weights' bound for 8 bits
  }
}

// A6, A22: one submission and one host sync per step, whatever the batch. B13: decode never plans again.
TEST(Model, a_step_is_one_submission_and_one_sync_and_decode_never_plans_again) {
  const io::testing::ScratchFolder scratch;
  const TinyModel tiny;
  Harness h(folder_of(scratch, tiny), options());
  const testing::Stream s = h.stream(random_tokens(100, tiny.vocab, 6), 0);
  (void)h.logits({s}, 1);
  const auto misses = h.model().plan_misses(), submissions = h.model().submissions(), syncs = h.model().syncs();
  (void)h.logits({s}, 1);
  EXPECT_EQ(h.model().plan_misses(), misses);
  EXPECT_EQ(h.model().submissions() - submissions, 100);
  EXPECT_EQ(h.model().syncs() - syncs, 100);
}

// A2: the head's product has one row per row that comes back.
TEST(Model, the_head_runs_for_the_rows_that_come_back_only) {
  const io::testing::ScratchFolder scratch;
  const TinyModel tiny;
  Harness h(folder_of(scratch, tiny), options());
  const testing::Stream s = h.stream(random_tokens(40, tiny.vocab, 7), 0);
  const std::span<const BlockId> table = s.blocks;
  h.model().profile(true);
  const StepSlice slice{.tokens = s.tokens, .first = 0, .block_tables = {&table, 1}, .outputs = Outputs::last};
  const StepOutputs out = h.model().wait(h.model().submit({&slice, 1})).value();
  EXPECT_EQ(out.logits.size(), static_cast<std::size_t>(tiny.vocab));
  const auto ops = h.model().profiled();
  EXPECT_EQ(ops.back().op, "linear");
  EXPECT_EQ(ops.back().work.flops, 2.0 * tiny.vocab * tiny.dim);  // one row
}

// Two steps under way: the second is prepared while the first runs; results of both stay apart.
TEST(Model, a_step_may_be_submitted_while_another_runs) {
  const io::testing::ScratchFolder scratch;
  const TinyModel tiny;
  Harness h(folder_of(scratch, tiny), options());
  const testing::Stream a = h.stream(random_tokens(20, tiny.vocab, 8), 0), b = h.stream(random_tokens(20, tiny.vocab, 9), 8);
  const auto want_a = h.logits({a}, 128), want_b = h.logits({b}, 128);
  const std::span<const BlockId> tables[2] = {a.blocks, b.blocks};
  const StepSlice slices[2] = {{.tokens = a.tokens, .first = 0, .block_tables = {&tables[0], 1}, .outputs = Outputs::all},
                               {.tokens = b.tokens, .first = 0, .block_tables = {&tables[1], 1}, .outputs = Outputs::all}};
  const Ticket first = h.model().submit({&slices[0], 1}), second = h.model().submit({&slices[1], 1});
  const StepOutputs got_a = h.model().wait(first).value(), got_b = h.model().wait(second).value();
  EXPECT_TRUE(std::ranges::equal(got_a.logits, want_a));
  EXPECT_TRUE(std::ranges::equal(got_b.logits, want_b));
}

// A14: INT8 takes at most 0.54 of f16's bytes, scales counted, for the heads that models have.
constexpr double int8_to_f16(int head_dim) {
  return static_cast<double>(ops::kv_vector_bytes(dtype_of(KvFormat::int8), head_dim)) / static_cast<double>(ops::kv_vector_bytes(dtype_of(KvFormat::f16), head_dim));
}
static_assert(int8_to_f16(64) <= 0.54 && int8_to_f16(80) <= 0.54 && int8_to_f16(96) <= 0.54 && int8_to_f16(128) <= 0.54 && int8_to_f16(256) <= 0.54);

// A14: what is said of a token's bytes is what the pool takes.
TEST(Model, each_format_of_the_cache_takes_the_bytes_that_it_says) {
  const io::testing::ScratchFolder scratch;
  const TinyModel tiny{.heads = 4, .kv_heads = 2};
  const std::string path = folder_of(scratch, tiny);
  for (const auto& [kv, kv_name, dtype] : kKvFormats) {
    Harness h(path, options(kv));
    const std::int64_t vector = kv == KvFormat::f32 ? 4 * tiny.head_dim : kv == KvFormat::int8 ? tiny.head_dim + 4 : 2 * tiny.head_dim;
    EXPECT_EQ(h.model().memory().kv_bytes_per_token, 2 * tiny.layers * tiny.kv_heads * vector) << kv_name;
    EXPECT_EQ(h.model().memory().kv_bytes, h.model().memory().kv_bytes_per_token * 1024) << kv_name;
    EXPECT_EQ(h.model().info().kv_format, kv_name);
    const CacheGroupInfo& group = h.model().info().cache_groups[0];
    EXPECT_EQ(group.block_bytes, h.model().memory().kv_bytes_per_token * group.block_tokens) << kv_name;
    EXPECT_EQ(find_kv_format(kv_name), kv);
  }
  EXPECT_FALSE(find_kv_format("int4"));
}

// A7: K and V of every layer have shape [tokens, kv_heads, head_dim], grouped heads included; A14's base: bytes per token.
TEST(Model, the_estimate_before_loading_is_what_the_model_then_takes) {
  const io::testing::ScratchFolder scratch;
  const TinyModel tiny{.heads = 4, .kv_heads = 2};
  const std::string path = folder_of(scratch, tiny);
  Harness h(path, options(KvFormat::f16));
  const auto source = *io::open_model(path);
  const MemoryEstimate before = *estimate_memory(*source, h.config(), options(KvFormat::f16)), after = h.model().memory();
  EXPECT_EQ(before.kv_bytes_per_token, 2 * tiny.layers * tiny.kv_heads * tiny.head_dim * 2);
  EXPECT_EQ(before.kv_bytes, before.kv_bytes_per_token * 1024);
  EXPECT_EQ(before.total(), after.total());
}

TEST(Model, the_scratch_of_a_row_task_is_counted_where_it_is_more_than_that_of_ops) {
  const io::testing::ScratchFolder scratch;
  const TinyModel tiny;
  const std::string path = folder_of(scratch, tiny);
  const Harness h(path, options());
  const auto source = *io::open_model(path);
  LoadOptions with = options();
  const auto bytes = [&] { return estimate_memory(*source, h.config(), with)->scratch_bytes; };
  const std::int64_t ops = bytes();
  with.row_scratch_bytes = [](std::size_t) { return std::size_t{1}; };
  EXPECT_EQ(bytes(), ops);
  with.row_scratch_bytes = [](std::size_t vocab) { return vocab << 16; };
  EXPECT_EQ(bytes(), (std::int64_t{tiny.vocab} << 16) * with.threads);
}

/// The logits of the last token of `s` alone: everything before it is read from the cache.
std::vector<float> last_row(Model& model, const Stream& s) {
  const std::span<const BlockId> table = s.blocks;
  const StepSlice slice{.tokens = std::span(s.tokens).last(1), .first = static_cast<int>(s.tokens.size()) - 1, .block_tables = {&table, 1}, .outputs = Outputs::last};
  const StepOutputs out = model.wait(model.submit({&slice, 1})).value();
  return {out.logits.begin(), out.logits.end()};
}

// What save, restore and the disk tier rest on: a block's bytes are all there is to it, wherever it lies, in every format.
TEST(Model, blocks_carried_to_another_model_object_continue_with_the_same_bits) {
  for (const auto& [kv, kv_name, dtype] : kKvFormats) {
    SCOPED_TRACE(kv_name);
    const io::testing::ScratchFolder scratch;
    const TinyModel tiny;
    const std::string path = folder_of(scratch, tiny);
    Harness from(path, options(kv)), to(path, options(kv));
    EXPECT_EQ(from.model().info().fingerprint, to.model().info().fingerprint);
    const auto tokens = random_tokens(49, tiny.vocab, 4);  // three blocks of 16 and one token
    const Stream a = from.stream(tokens, 2), b = to.shuffled(tokens, 5);
    (void)from.logits({a}, 64);
    const auto want = last_row(from.model(), a);
    std::vector<std::byte> bytes(3 * static_cast<std::size_t>(from.model().info().cache_groups[0].block_bytes));
    from.model().read_blocks(0, std::span(a.blocks).first(3), bytes);
    to.model().write_blocks(0, std::span(b.blocks).first(3), bytes);
    EXPECT_EQ(last_row(to.model(), b), want);
    bytes[bytes.size() / 2 + 1] ^= std::byte{0x40};  // the last row does depend on them
    to.model().write_blocks(0, std::span(b.blocks).first(3), bytes);
    EXPECT_NE(last_row(to.model(), b), want);
  }
}

// A10, B3: a decode plan holds the paged attention kernel in every layer, and its work splits are those of setup whatever
// the context length.
TEST(Model, a_decode_plan_attends_through_the_block_table_and_keeps_its_tilings) {
  const io::testing::ScratchFolder scratch;
  const TinyModel tiny{.layers = 3};
  Harness h(folder_of(scratch, tiny), options());
  h.model().profile(true);
  std::string tilings[2];
  for (const int context : {20, 100}) {
    (void)h.logits({h.stream(random_tokens(context, tiny.vocab, 10), 0)}, 1);
    int paged = 0;
    for (const auto& op : h.model().profiled()) {
      paged += op.op == "attend";
      tilings[context == 100] += op.op + " " + op.tiling + "\n";
    }
    EXPECT_EQ(paged, tiny.layers);
  }
  EXPECT_EQ(tilings[0], tilings[1]);
  EXPECT_NE(tilings[0].find("linear rows=1 panels="), std::string::npos);
}

// The task sees each row of logits once, and what it leaves is what comes back; other rows are none of its business.
TEST(Model, a_row_task_runs_once_for_each_row_of_logits) {
  struct Seen {
    std::vector<float> rows;  // [rows, vocab]
    std::array<std::atomic<int>, 64> calls{};
  };
  const decltype(RowTask::run) run = [](void* context, int row, std::span<float> logits, std::span<std::byte> memory) noexcept {
    auto& seen = *static_cast<Seen*>(context);
    if (memory.size() < logits.size() << 12) std::abort();  // what it was loaded with
    std::ranges::fill(memory, static_cast<std::byte>(row));
    ++seen.calls[static_cast<std::size_t>(row)];
    std::ranges::copy(logits, seen.rows.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(row) * logits.size()));
    logits[0] = static_cast<float>(row);
  };
  const io::testing::ScratchFolder scratch;
  const TinyModel tiny;
  const std::string path = folder_of(scratch, tiny);
  const auto vocab = static_cast<std::size_t>(tiny.vocab);
  for (const int threads : {1, 2, 3}) {
    LoadOptions with = options();
    with.threads = threads;
    with.row_scratch_bytes = [](std::size_t row) { return row << 12; };
    Harness h(path, with);
    std::vector<testing::Stream> streams;
    std::vector<std::span<const BlockId>> tables;
    for (int i = 0; i < 7; ++i) streams.push_back(h.stream(random_tokens(5 + i, tiny.vocab, static_cast<unsigned>(i)), 2 * i));
    for (const testing::Stream& s : streams) tables.emplace_back(s.blocks);
    const Outputs asked[] = {Outputs::last, Outputs::none, Outputs::all, Outputs::hidden, Outputs::last, Outputs::all, Outputs::none};
    const int most[] = {1, 3, 7};  // slices of the step
    for (const int n : most) {
      std::vector<StepSlice> slices;
      std::size_t rows = 0;
      for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
        slices.push_back({.tokens = streams[i].tokens, .first = 0, .block_tables = {&tables[i], 1}, .outputs = asked[i]});
        rows += asked[i] == Outputs::last ? 1 : asked[i] == Outputs::all ? streams[i].tokens.size() : 0;
      }
      const StepOutputs plain = h.model().wait(h.model().submit(slices)).value();
      const std::vector<float> want(plain.logits.begin(), plain.logits.end()), want_hidden(plain.hidden.begin(), plain.hidden.end());
      ASSERT_EQ(want.size(), rows * vocab);
      Seen seen;
      seen.rows.resize(rows * vocab);
      const StepOutputs out = h.model().wait(h.model().submit(slices, {run, &seen})).value();
      for (std::size_t r = 0; r < seen.calls.size(); ++r) EXPECT_EQ(seen.calls[r], r < rows ? 1 : 0) << "row " << r;
      EXPECT_EQ(seen.rows, want) << threads << " threads, " << n << " slices";
      for (std::size_t r = 0; r < rows; ++r) EXPECT_EQ(out.logits[r * vocab], static_cast<float>(r));
      EXPECT_TRUE(std::ranges::equal(out.hidden, want_hidden));
    }
  }
}

// What one more layer adds: q, k, v | rope + cache write | attend and quantize | output | add + norm + quantize | gate and up
// with swiglu and quantize | down | add + norm + quantize.
TEST(Model, a_layer_is_eight_launches) {
  std::size_t launches[2];
  for (const int layers : {2, 3}) {
    const io::testing::ScratchFolder scratch;
    const TinyModel tiny{.layers = layers, .matrices = tensor::DType::q8_0};
    Harness h(scratch.file("m.gguf", tiny.gguf().finish()), options());
    h.model().profile(true);
    (void)h.logits({h.stream(random_tokens(20, tiny.vocab, 10), 0)}, 20);
    launches[layers - 2] = h.model().profiled().size();
  }
  EXPECT_EQ(launches[1] - launches[0], 8u);
}

// B5, B9: a copied block serves in the place of the original. A14: its scales are copied with it.
TEST(Model, a_sequence_goes_on_over_copied_blocks) {
  const io::testing::ScratchFolder scratch;
  const TinyModel tiny;
  const std::string path = folder_of(scratch, tiny);
  for (const KvFormat kv : {KvFormat::f16, KvFormat::int8}) {
    Harness h(path, options(kv));
    testing::Stream s = h.stream(random_tokens(48, tiny.vocab, 11), 0);
    const std::vector<float> want = h.logits({s}, 16);
    const std::vector<BlockId> from = {{0}, {1}}, to = {{40}, {33}};
    h.model().copy_blocks(0, from, to);
    s.blocks = {{40}, {33}, {7}};
    const std::span<const BlockId> table = s.blocks;
    const StepSlice slice{.tokens = std::span(s.tokens).subspan(32), .first = 32, .block_tables = {&table, 1}, .outputs = Outputs::all};
    const StepOutputs got = h.model().wait(h.model().submit({&slice, 1})).value();
    EXPECT_TRUE(std::ranges::equal(got.logits, std::span(want).last(got.logits.size()))) << to_string(kv);
  }
}

TEST(Model, a_missing_or_misshapen_tensor_is_named) {
  const TinyModel tiny;
  for (const bool missing : {true, false}) {
    const io::testing::ScratchFolder scratch;
    auto tensors = tiny.tensors();
    for (auto& t : tensors)
      if (t.name == "model.norm.weight") missing ? (void)(t.name = "model.norm.wrong") : (void)(t.shape = {tiny.dim / 2, 2});
    io::testing::write_file(scratch.path() / "config.json", tiny.config_json());
    io::testing::write_file(scratch.path() / "model.safetensors", io::testing::safetensors_bytes(tensors));
    const auto source = *io::open_model(scratch.path().string());
    const auto model = load_model(*source, *read_config(*source), options());
    ASSERT_FALSE(model.ok());
    EXPECT_EQ(model.error().message, missing ? "tensor 'model.norm.weight' is missing" : "tensor 'model.norm.weight' has shape [32, 2], expected [64]");
  }
}

}  // namespace
}  // namespace millrace::model
