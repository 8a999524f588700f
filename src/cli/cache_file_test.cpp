// Saved and restored prefixes, and the disk tier, with a real model: the same bits as computing them, in every KV format.

#include <gtest/gtest.h>

#include <stdexcept>

#include "engine/engine.h"
#include "engine/kv_disk.h"
#include "engine/testing/fake_tokenizer.h"
#include "io/testing/model_files.h"
#include "model/model.h"

namespace millrace {
namespace {

using namespace std::chrono_literals;

struct Answer {
  std::vector<TokenId> ids;
  std::vector<float> logprobs;  // one rounding anywhere before would show in them
  int cached = 0;
};

engine::Request request() {
  engine::Request r;
  for (int t = 0; t < 61; ++t) r.prompt.push_back((t * t + 3 * t) % engine::testing::kVocab);
  r.max_new_tokens = 24;
  r.ignore_eos = true;
  r.sampling.top_logprobs = 0;
  return r;
}

Answer ask(engine::Engine& engine) {
  engine::Handle handle = engine.submit(request()).value();
  Answer out;
  for (;;) {
    const auto event = handle.next(10s);
    if (!event) throw std::runtime_error("no answer");
    for (const auto& token : event->tokens) out.ids.push_back(token.id), out.logprobs.push_back(token.logprob);
    if (event->finished) return out.cached = event->usage.cached_tokens, out;
  }
}

class Carried : public ::testing::TestWithParam<model::KvFormat> {
 protected:
  Carried() : path_(scratch_.file("m.gguf", io::testing::TinyModel{.vocab = engine::testing::kVocab, .matrices = tensor::DType::q8_0}.gguf().finish())) {}

  std::unique_ptr<model::Model> load(model::KvFormat kv, const std::string& isa = "") const {
    const auto source = *io::open_model(path_);
    return *model::load_model(*source, *model::read_config(*source),
                              {.threads = 2, .isa = isa, .kv = kv, .pool_tokens = 512, .block_tokens = 8, .max_step_tokens = 32, .max_step_outputs = 4, .max_slices = 4});
  }
  std::unique_ptr<engine::Engine> start(std::unique_ptr<model::Model> model, std::shared_ptr<engine::KvDisk> disk = nullptr) const {
    return std::make_unique<engine::Engine>(std::move(model), tokenizer_, engine::EngineOptions{.step_tokens = 32, .max_running = 4, .check_invariants = true, .kv_disk = std::move(disk)});
  }
  std::string file(const char* name) const { return (scratch_.path() / name).string(); }

  const io::testing::ScratchFolder scratch_;
  const std::string path_;
  const engine::testing::FakeTokenizer tokenizer_;
};

TEST_P(Carried, a_restored_prefix_gives_the_bits_of_a_computed_one) {
  const auto first = start(load(GetParam()));
  const Answer computed = ask(*first);
  EXPECT_EQ(computed.cached, 0);
  EXPECT_EQ(first->save(request().prompt, file("prefix")).value(), 56);

  const auto second = start(load(GetParam()));
  EXPECT_EQ(second->restore(file("prefix")).value(), 56);
  const Answer restored = ask(*second);
  EXPECT_EQ(restored.cached, 56);
  EXPECT_EQ(restored.ids, computed.ids);
  EXPECT_EQ(restored.logprobs, computed.logprobs);
}

TEST_P(Carried, a_prefix_from_the_disk_tier_gives_the_bits_of_a_computed_one) {
  Answer answers[2];
  for (Answer& answer : answers) {
    auto model = load(GetParam());
    std::shared_ptr<engine::KvDisk> disk = *engine::KvDisk::open({file("tier")}, model->info());
    answer = ask(*start(std::move(model), disk));
  }
  EXPECT_EQ(answers[0].cached, 0);
  EXPECT_EQ(answers[1].cached, 56);
  EXPECT_EQ(answers[1].ids, answers[0].ids);
  EXPECT_EQ(answers[1].logprobs, answers[0].logprobs);
}

TEST_P(Carried, a_file_of_another_format_or_instruction_set_is_refused) {
  const auto first = start(load(GetParam()));
  (void)ask(*first);
  ASSERT_TRUE(first->save(request().prompt, file("prefix")));
  const auto other = GetParam() == model::KvFormat::f32 ? model::KvFormat::f16 : model::KvFormat::f32;
  EXPECT_PRED2(io::testing::says, start(load(other))->restore(file("prefix")).error().message, "holds a KV cache of ... this one is of");
  EXPECT_PRED2(io::testing::says, start(load(GetParam(), "generic"))->restore(file("prefix")).error().message, "was written by another model, instruction set or version");
}

INSTANTIATE_TEST_SUITE_P(EveryFormat, Carried, ::testing::Values(model::KvFormat::f32, model::KvFormat::f16, model::KvFormat::bf16, model::KvFormat::int8),
                         [](const auto& info) { return std::string(model::to_string(info.param)); });

}  // namespace
}  // namespace millrace
