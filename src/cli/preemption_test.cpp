// The whole chain under memory pressure: a real model, the real scheduler, a pool that is far too small. And its life: what
// an engine leaves behind.

#include <gtest/gtest.h>
#include <malloc.h>

#include <filesystem>

#include "engine/engine.h"
#include "io/testing/model_files.h"
#include "model/model.h"
#include "engine/testing/fake_tokenizer.h"

namespace millrace {
namespace {

using namespace std::chrono_literals;

struct Answer {
  std::vector<TokenId> ids;
  std::string text;
  engine::Finish finish;
  int preemptions;
  friend bool operator==(const Answer& a, const Answer& b) { return a.ids == b.ids && a.text == b.text && a.finish == b.finish; }
};

Answer collect(engine::Handle& handle) {
  Answer out{};
  for (;;) {
    auto event = handle.next(60s);
    if (!event) {
      ADD_FAILURE() << "no event within a minute";
      return out;
    }
    for (const auto& t : event->tokens) out.ids.push_back(t.id);
    out.text += event->text;
    if (event->finished) return out.finish = *event->finished, out.preemptions = event->usage.preemptions, out;
  }
}

engine::Request request(int i) {
  engine::Request r;
  for (int t = 0; t < 9 + i % 13; ++t) r.prompt.push_back((i * 31 + t * 7) % engine::testing::kVocab);
  r.max_new_tokens = 40;
  r.ignore_eos = true;
  r.sampling.temperature = i % 2 ? 1.0f : 0.0f;
  r.sampling.seed = static_cast<std::uint64_t>(i);
  r.sampling.frequency_penalty = i % 3 ? 0.0f : 0.7f;
  return r;
}

std::unique_ptr<engine::Engine> start(const std::string& path, const text::Tokenizer& tokenizer, int pool_tokens) {
  const auto source = *io::open_model(path);
  auto model = model::load_model(*source, *model::read_config(*source),
                                 {.threads = 2, .pool_tokens = pool_tokens, .block_tokens = 8, .max_step_tokens = 64, .max_step_outputs = 20, .max_slices = 20});
  return std::make_unique<engine::Engine>(*std::move(model), tokenizer, engine::EngineOptions{.step_tokens = 64, .max_running = 20, .check_invariants = true});
}

// A21: twenty requests at once in a quarter of the blocks that they need give what each gives alone, and all blocks come back.
TEST(Preemption, answers_of_a_real_model_are_those_of_each_request_alone) {
  constexpr int kRequests = 20, kNeed = kRequests * 64;  // up to 61 tokens each, in blocks of 8
  const io::testing::ScratchFolder scratch;
  const std::string path = scratch.file("m.gguf", io::testing::TinyModel{.vocab = engine::testing::kVocab, .matrices = tensor::DType::q8_0}.gguf().finish());
  const engine::testing::FakeTokenizer tokenizer;
  std::vector<Answer> alone;
  {
    const auto engine = start(path, tokenizer, kNeed);
    for (int i = 0; i < kRequests; ++i) {
      auto handle = engine->submit(request(i)).value();
      alone.push_back(collect(handle));
      EXPECT_EQ(alone.back().ids.size(), 40u);
    }
  }
  const auto engine = start(path, tokenizer, kNeed / 4);
  std::vector<engine::Handle> handles;
  for (int i = 0; i < kRequests; ++i) handles.push_back(engine->submit(request(i)).value());
  int preemptions = 0;
  for (int i = 0; i < kRequests; ++i) {
    const Answer answer = collect(handles[static_cast<std::size_t>(i)]);
    EXPECT_EQ(answer, alone[static_cast<std::size_t>(i)]) << "request " << i;
    preemptions += answer.preemptions;
  }
  EXPECT_GT(preemptions, 0);
  engine->drain(10s);
  EXPECT_EQ(engine->metrics().kv_blocks_used.value(), 0);
  EXPECT_EQ(engine->metrics().kv_blocks_total.value(), kNeed / 4 / 8);
}

// A16, A21: four answers to one prompt of a real model compute it once; in a pool that holds one and a half of them, beside
// others, they are the same; a greedy one is what a request of its own gets.
TEST(Preemption, several_answers_of_a_real_model_compute_the_prompt_once_and_stay_what_they_are) {
  const io::testing::ScratchFolder scratch;
  const std::string path = scratch.file("m.gguf", io::testing::TinyModel{.vocab = engine::testing::kVocab, .matrices = tensor::DType::q8_0}.gguf().finish());
  const engine::testing::FakeTokenizer tokenizer;
  const auto answers_of = [](engine::Engine& engine, int i) {
    std::vector<Answer> out;
    auto handles = engine.submit(request(i), 4).value();
    for (engine::Handle& handle : handles) out.push_back(collect(handle));
    return out;
  };
  const auto roomy = start(path, tokenizer, 4 * 64);
  const auto drawn = answers_of(*roomy, 1);
  EXPECT_EQ(roomy->metrics().computed_tokens_total.value(), request(1).prompt.size());
  EXPECT_NE(drawn[0], drawn[1]);
  auto alone = roomy->submit(request(1)).value();
  EXPECT_EQ(collect(alone), drawn[0]);
  const auto greedy = answers_of(*roomy, 2);
  for (const Answer& answer : greedy) EXPECT_EQ(answer, greedy[0]);

  const auto tight = start(path, tokenizer, 96);
  std::vector<engine::Handle> others;
  for (int i = 3; i < 7; ++i) others.push_back(tight->submit(request(i)).value());
  EXPECT_EQ(answers_of(*tight, 1), drawn);
  EXPECT_EQ(answers_of(*tight, 2), greedy);
  EXPECT_GT(tight->metrics().preemptions_total.value(), 0u);
}

std::ptrdiff_t threads_now() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return std::distance(begin(tasks), end(tasks));
}

/// Bytes that the heap has handed out. Large blocks, mapped on their own, count too. (Under a sanitizer, which has its own
/// heap and finds leaks itself, 0.)
std::size_t heap_now() {
  const auto info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

// Part 2, line 4: a model is loaded, an engine starts, answers (every tenth one is stopped in the middle of it) and goes, a
// thousand times.
TEST(Life, a_thousand_engines_leave_no_thread_and_no_memory_behind) {
  const io::testing::ScratchFolder scratch;
  const std::string path = scratch.file("m.gguf", io::testing::TinyModel{.layers = 1, .vocab = engine::testing::kVocab, .matrices = tensor::DType::q8_0}.gguf().finish());
  const engine::testing::FakeTokenizer tokenizer;
  const auto cycle = [&](int i) {
    const auto engine = start(path, tokenizer, 128);
    engine::Request r = request(i);
    r.max_new_tokens = 3;
    auto handle = engine->submit(std::move(r)).value();
    if (i % 10 != 0) {
      EXPECT_EQ(collect(handle).ids.size(), 3u);
    }
  };
  for (int i = 0; i < 20; ++i) cycle(i);  // what is made once and kept
  const auto threads = threads_now();
  const std::size_t heap = heap_now();
  for (int i = 0; i < 1000; ++i) cycle(i);
  EXPECT_EQ(threads_now(), threads);
  EXPECT_LE(heap_now(), heap + 1000 * 16);  // less than any object an engine has, for each of them
}

}  // namespace
}  // namespace millrace
