// Configs of both worlds, and values that no model can have. Ids in comments: the cases from the field.

#include "model/config.h"

#include <gtest/gtest.h>

#include <cmath>

#include <functional>

#include "io/testing/model_files.h"

namespace millrace::model {
namespace {

using io::testing::GgufWriter;
using io::testing::ScratchFolder;
using io::testing::TinyModel;

Result<ModelConfig> config_of(const std::string& path) {
  auto source = io::open_model(path);
  if (!source) return std::move(source).error();
  auto config = read_config(**source);
  if (!config) return config;
  return validated(*std::move(config));
}

Result<ModelConfig> gguf_config(const GgufWriter& writer) {
  const ScratchFolder scratch;
  return config_of(scratch.file("m.gguf", writer.finish()));
}

/// `more`: further members of config.json, such as `,"a":1`; one that is there already counts as a replacement.
Result<ModelConfig> folder_config(std::string more, TinyModel model = {}) {
  const ScratchFolder scratch;
  model.more_config = std::move(more);
  model.write_folder(scratch.path());
  return config_of(scratch.path().string());
}

/// config.json of the tiny model in which `from` is `to`.
Result<ModelConfig> edited_config(const std::string& from, const std::string& to) {
  const ScratchFolder scratch;
  TinyModel{}.write_folder(scratch.path());
  std::string text = TinyModel{}.config_json();
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  scratch.file("config.json", text.replace(at, from.size(), to));
  return config_of(scratch.path().string());
}

void expect_refused(const Result<ModelConfig>& config, const std::string& words) {
  ASSERT_FALSE(config) << "not refused; expected: " << words;
  EXPECT_NE(config.error().message.find(words), std::string::npos) << config.error().message << "\nexpected: " << words;
}

TEST(Config, one_model_reads_the_same_from_gguf_and_from_a_folder) {
  for (const char* architecture : {"llama", "qwen2"})
    for (const bool tied : {false, true}) {
      TinyModel model{.architecture = architecture, .rope_theta = 500000.0, .tied = tied};
      for (const auto& config : {gguf_config(model.gguf()), folder_config("", model)}) {
        ASSERT_TRUE(config) << config.error().message;
        EXPECT_EQ(config->architecture, architecture);
        EXPECT_EQ(config->n_layers, 2);
        EXPECT_EQ(config->dim, 64);
        EXPECT_EQ(config->ffn_dim, 96);
        EXPECT_EQ(config->n_heads, 4);
        EXPECT_EQ(config->n_kv_heads, 2);
        EXPECT_EQ(config->head_dim, 16);
        EXPECT_EQ(config->vocab_size, 96);
        EXPECT_EQ(config->max_positions, 128);
        EXPECT_EQ(config->norm_eps, 1e-6f);
        EXPECT_EQ(config->tied_head, tied);
        EXPECT_EQ(config->rope.theta, 500000.0);
        EXPECT_EQ(config->rope.dims, 16);
        EXPECT_EQ(config->rope.scaling, RopeScaling::none);
        EXPECT_EQ(config->kv_vectors_per_token(), 2 * 2 * 2);
      }
    }
}

TEST(GgufConfig, optional_keys_have_the_defaults_of_the_format) {
  GgufWriter w = TinyModel{.kv_heads = 4}.gguf();
  for (const char* key : {"llama.attention.head_count_kv", "llama.attention.key_length", "llama.attention.value_length",
                          "llama.rope.dimension_count", "llama.rope.freq_base"})
    ASSERT_TRUE(w.remove(key)) << key;
  const auto config = gguf_config(w);
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->n_kv_heads, 4);
  EXPECT_EQ(config->head_dim, 16);
  EXPECT_EQ(config->rope.dims, 16);
  EXPECT_EQ(config->rope.theta, 10000.0);
}

TEST(GgufConfig, a_missing_key_is_named) {
  for (const char* key :
       {"general.architecture", "llama.block_count", "llama.context_length", "llama.embedding_length",
        "llama.feed_forward_length", "llama.attention.head_count", "llama.attention.layer_norm_rms_epsilon"}) {
    GgufWriter w = TinyModel{}.gguf();
    ASSERT_TRUE(w.remove(key)) << key;
    expect_refused(gguf_config(w), std::string("'") + key + "' is missing");
  }
}

TEST(GgufConfig, values_of_a_wrong_type_or_size_are_refused_by_key) {  // O1.7 a to g
  const auto refused = [](const std::string& key, std::uint32_t value) {
    GgufWriter w = TinyModel{}.gguf();
    w.remove(key);
    expect_refused(gguf_config(w.u32(key, value)), key);
  };
  GgufWriter text = TinyModel{}.gguf();
  text.remove("llama.block_count");
  expect_refused(gguf_config(text.text("llama.block_count", "1")), "llama.block_count");
  for (const std::uint32_t value : {0u, 1025u, ~0u}) refused("llama.block_count", value);
  for (const std::uint32_t value : {0u, 1u << 31, ~0u}) refused("llama.embedding_length", value);
  for (const std::uint32_t value : {0u, ~0u}) refused("llama.feed_forward_length", value);
  for (const std::uint32_t value : {0u, 65u, ~0u}) refused("llama.attention.head_count", value);
  for (const std::uint32_t value : {0u, 3u, 5u, ~0u}) refused("llama.attention.head_count_kv", value);
  for (const std::uint32_t value : {0u, ~0u}) refused("llama.attention.key_length", value);
  for (const std::uint32_t value : {0u, 8u}) refused("llama.attention.value_length", value);
  for (const std::uint32_t value : {0u, ~0u}) refused("llama.context_length", value);
  for (const std::uint32_t value : {0u, 17u, 32u}) refused("llama.rope.dimension_count", value);
}

TEST(GgufConfig, heads_that_do_not_divide_the_width_are_refused_where_no_key_gives_their_length) {
  GgufWriter w = TinyModel{}.gguf();
  for (const char* key : {"llama.attention.key_length", "llama.attention.head_count", "llama.attention.head_count_kv"})
    w.remove(key);
  expect_refused(gguf_config(w.u32("llama.attention.head_count", 5)), "llama.attention.head_count");
}

TEST(GgufConfig, the_token_list_counts_and_not_a_smaller_vocab_size) {  // O1.7 h
  GgufWriter w = TinyModel{}.gguf();
  const auto config = gguf_config(w.u32("llama.vocab_size", 7));
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->vocab_size, 96);

  GgufWriter without_list = TinyModel{}.gguf();
  without_list.remove("tokenizer.ggml.tokens");
  EXPECT_EQ(gguf_config(without_list.u32("llama.vocab_size", 96))->vocab_size, 96);

  GgufWriter numbers = TinyModel{}.gguf();
  numbers.remove("tokenizer.ggml.tokens");
  expect_refused(gguf_config(numbers.array("tokenizer.ggml.tokens", 4, 1, "abcd")), "tokenizer.ggml.tokens");
}

TEST(GgufConfig, what_is_not_built_is_refused_by_name) {
  GgufWriter other = TinyModel{}.gguf(), experts = TinyModel{}.gguf(), window = TinyModel{}.gguf(),
             rope = TinyModel{}.gguf(), yarn = TinyModel{}.gguf();
  other.remove("general.architecture");
  expect_refused(gguf_config(other.text("general.architecture", "mamba\x1B[31m")),
                 "'mamba?[31m', this build reads llama, qwen2");
  expect_refused(gguf_config(experts.u32("llama.expert_count", 8)), "llama.expert_count is '8'");
  expect_refused(gguf_config(window.u32("llama.attention.sliding_window", 64)), "llama.attention.sliding_window");
  expect_refused(gguf_config(rope.text("llama.rope.scaling.type", "longrope")),
                 "llama.rope.scaling.type is 'longrope'");
  yarn.text("llama.rope.scaling.type", "yarn").f32("llama.rope.scaling.factor", 4);
  expect_refused(gguf_config(yarn.f32("llama.rope.scaling.yarn_ext_factor", 1)), "yarn_ext_factor");
}

TEST(GgufConfig, rope_scaling_is_read) {
  GgufWriter linear = TinyModel{}.gguf(), old = TinyModel{}.gguf(), yarn = TinyModel{}.gguf();
  const auto a = gguf_config(linear.text("llama.rope.scaling.type", "linear").f32("llama.rope.scaling.factor", 4));
  const auto b = gguf_config(old.f32("llama.rope.scale_linear", 4));
  for (const auto& config : {a, b}) {
    ASSERT_TRUE(config) << config.error().message;
    EXPECT_EQ(config->rope.scaling, RopeScaling::linear);
    EXPECT_EQ(config->rope.factor, 4.0);
  }
  yarn.text("llama.rope.scaling.type", "yarn")
      .f32("llama.rope.scaling.factor", 2)
      .u32("llama.rope.scaling.original_context_length", 64);
  const auto c = gguf_config(yarn.f32("llama.rope.scaling.yarn_beta_fast", 16));
  ASSERT_TRUE(c) << c.error().message;
  EXPECT_EQ(c->rope.scaling, RopeScaling::yarn);
  EXPECT_EQ(c->rope.original_context, 64.0);
  EXPECT_EQ(c->rope.beta_fast, 16.0);
  EXPECT_EQ(c->rope.attention_factor, 0.0);
  const auto d = gguf_config(yarn.f32("llama.rope.scaling.attn_factor", 2));
  ASSERT_TRUE(d) << d.error().message;
  EXPECT_NEAR(d->rope.attention_factor, 2 * (0.1 * std::log(2.0) + 1), 1e-12);
}

TEST(FolderConfig, rope_scaling_is_read_under_its_old_and_new_names) {
  const auto llama3 = folder_config(
      R"(,"rope_scaling":{"rope_type":"llama3","factor":8.0,"low_freq_factor":1,"high_freq_factor":4.0,"original_max_position_embeddings":64})");
  ASSERT_TRUE(llama3) << llama3.error().message;
  EXPECT_EQ(llama3->rope.scaling, RopeScaling::llama3);
  EXPECT_EQ(llama3->rope.factor, 8.0);
  EXPECT_EQ(llama3->rope.high_freq_factor, 4.0);
  EXPECT_EQ(llama3->rope.original_context, 64.0);

  const auto linear = folder_config(R"(,"rope_scaling":{"type":"linear","factor":2})");
  ASSERT_TRUE(linear) << linear.error().message;
  EXPECT_EQ(linear->rope.scaling, RopeScaling::linear);

  const auto yarn = folder_config(
      R"(,"rope_parameters":{"rope_type":"yarn","rope_theta":1000000.0,"factor":4.0,"original_max_position_embeddings":128})");
  ASSERT_TRUE(yarn) << yarn.error().message;
  EXPECT_EQ(yarn->rope.scaling, RopeScaling::yarn);
  EXPECT_EQ(yarn->rope.theta, 1000000.0);
  EXPECT_EQ(yarn->max_positions, 512);  // stretched: 4 * 128

  for (const char* none : {R"(,"rope_scaling":null)", R"(,"rope_parameters":{"rope_type":"default","rope_theta":5e4})"})
    EXPECT_EQ(folder_config(none)->rope.scaling, RopeScaling::none) << none;
  EXPECT_EQ(folder_config(R"(,"rope_parameters":{"rope_type":"default","rope_theta":5e4})")->rope.theta, 5e4);
}

TEST(FolderConfig, what_is_not_built_is_refused_by_name) {
  expect_refused(edited_config(R"("model_type":"llama")", R"("model_type":"gemma3")"), "model_type is 'gemma3'");
  expect_refused(edited_config(R"("hidden_act":"silu")", R"("hidden_act":"gelu")"), "hidden_act is 'gelu'");
  expect_refused(folder_config(R"(,"use_sliding_window":true)"), "use_sliding_window");
  expect_refused(folder_config(R"(,"attention_bias":true)"), "attention_bias");
  expect_refused(folder_config(R"(,"mlp_bias":true)"), "mlp_bias");
  expect_refused(folder_config(R"(,"partial_rotary_factor":0.5)"), "partial_rotary_factor");
  expect_refused(folder_config(R"(,"quantization_config":{"quant_method":"gptq"})"), "quant_method is 'gptq'");
  expect_refused(folder_config(R"(,"rope_scaling":{"type":"dynamic","factor":2.0})"), "rope_type is 'dynamic'");
  expect_refused(folder_config(R"(,"rope_scaling":{"type":"yarn","factor":2.0,"truncate":false})"), "truncate");
}

TEST(FolderConfig, values_of_a_wrong_type_or_size_are_refused_by_key) {
  const std::pair<const char*, const char*> edits[] = {
      {R"("hidden_size":64)", R"("hidden_size":"64")"},
      {R"("hidden_size":64)", R"("hidden_size":-64)"},
      {R"("hidden_size":64)", R"("hidden_size":64.0)"},
      {R"("hidden_size":64)", R"("hidden_size":null)"},
      {R"("hidden_size":64)", R"("hidden_size":99999999999999999999)"},
      {R"("num_hidden_layers":2)", R"("num_hidden_layers":0)"},
      {R"("num_attention_heads":4)", R"("num_attention_heads":0)"},
      {R"("num_key_value_heads":2)", R"("num_key_value_heads":3)"},
      {R"("head_dim":16)", R"("head_dim":0)"},
      {R"("vocab_size":96)", R"("vocab_size":0)"},
      {R"("max_position_embeddings":128)", R"("max_position_embeddings":0)"},
      {R"("tie_word_embeddings":false)", R"("tie_word_embeddings":"no")"},
      {R"("rms_norm_eps":1e-6)", R"("rms_norm_eps":[1e-6])"}};
  for (const auto& [from, to] : edits) {
    const std::string key = std::string(from).substr(1, std::string(from).find('"', 1) - 1);
    expect_refused(edited_config(from, to), key);
  }
  expect_refused(edited_config(R"({"model_type")", R"(["model_type")"), "config.json");
  expect_refused(folder_config(R"(,"hidden_size":64)"), "hidden_size is there twice");
}

TEST(Validated, every_range_and_every_division_is_checked) {
  const ModelConfig good = *folder_config("");
  const std::pair<const char*, std::function<void(ModelConfig&)>> damage[] = {
      {"n_layers", [](auto& c) { c.n_layers = 0; }},
      {"n_layers", [](auto& c) { c.n_layers = 2000; }},
      {"dim", [](auto& c) { c.dim = (1 << 20) + 1; }},
      {"ffn_dim", [](auto& c) { c.ffn_dim = -1; }},
      {"n_kv_heads", [](auto& c) { c.n_kv_heads = 3; }},
      {"n_kv_heads", [](auto& c) { c.n_kv_heads = 8; }},
      {"n_heads * head_dim", [](auto& c) { c.n_heads = 1 << 20; }},
      {"vocab_size", [](auto& c) { c.vocab_size = 0; }},
      {"max_positions", [](auto& c) { c.max_positions = 1 << 30; }},
      {"rope.dims", [](auto& c) { c.rope.dims = 15; }},
      {"rope.dims", [](auto& c) { c.rope.dims = 18; }},
      {"norm_eps", [](auto& c) { c.norm_eps = 0; }},
      {"norm_eps", [](auto& c) { c.norm_eps = NAN; }},
      {"rope.theta", [](auto& c) { c.rope.theta = -1; }},
      {"rope.theta", [](auto& c) { c.rope.theta = INFINITY; }},
      {"rope.factor", [](auto& c) { c.rope.scaling = RopeScaling::linear, c.rope.factor = 0; }},
      {"rope.original_context", [](auto& c) { c.rope.scaling = RopeScaling::yarn; }},
      {"rope.high_freq_factor",
       [](auto& c) {
         c.rope.scaling = RopeScaling::llama3, c.rope.original_context = 64, c.rope.high_freq_factor = 1;
       }},
  };
  EXPECT_TRUE(validated(good));
  for (const auto& [field, spoil] : damage) {
    ModelConfig bad = good;
    spoil(bad);
    expect_refused(validated(bad), field);
  }
}

TEST(GgufConfig, reference_files_are_read) {
  const std::filesystem::path folder = std::filesystem::path(MILLRACE_SOURCE_DIR) / "../shared/golden/logits";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no reference files at " << folder;
  for (const char* name :
       {"tiny-llama-f32", "tiny-llama-q4_0", "tiny-llama-mha-f32", "tiny-llama3-scaled-f32", "tiny-qwen2-f32"}) {
    const auto config = config_of((folder / (std::string(name) + ".gguf")).string());
    EXPECT_TRUE(config) << name << ": " << config.error().message;
  }
  expect_refused(config_of((folder / "tiny-mixtral-f32.gguf").string()), "expert_count");
}

}  // namespace
}  // namespace millrace::model
