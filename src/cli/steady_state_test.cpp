// P15 with everything in it: a real model, its workers, sampling, scheduler and engine. Counts every operator new of this
// test program, per thread.

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "base/testing/count_allocations.h"
#include "cli/borrowed_runner.h"
#include "engine/engine.h"
#include "engine/testing/fake_tokenizer.h"
#include "io/testing/model_files.h"
#include "model/model.h"

namespace {
std::atomic<long> g_workers_allocations = 0;  // of threads that draw
}  // namespace

namespace millrace::cli {
namespace {

using namespace std::chrono_literals;

/// Notes how much the thread that runs steps, and the threads that draw, have allocated when each step begins.
class WatchedRunner : public BorrowedRunner {
 public:
  struct Counts { long engine, draws; };

  WatchedRunner(model::Runner& runner, std::vector<Counts>& counts, std::vector<engine::Handle>& clients, std::atomic<bool>& ready)
      : BorrowedRunner(runner), counts_(counts), clients_(clients), ready_(ready) {}

  model::Ticket submit(std::span<const model::StepSlice> slices, model::RowTask task) override {
    if (counts_.size() < counts_.capacity()) counts_.push_back({testing::t_allocations, g_workers_allocations.load()});
    task_ = task;
    return BorrowedRunner::submit(slices, {draw, this});
  }

  Result<model::StepOutputs> wait(model::Ticket ticket) override {
    auto outputs = BorrowedRunner::wait(ticket);
    testing::t_counts = false;  // clients that read each token at once: what they allocate is theirs
    while (!ready_.load()) std::this_thread::yield();
    for (engine::Handle& client : clients_) client.next(0ms);
    testing::t_counts = true;
    return outputs;
  }

 private:
  static void draw(void* self, int row, std::span<float> logits, std::span<std::byte> scratch) noexcept {
    const model::RowTask& task = static_cast<WatchedRunner*>(self)->task_;
    const long before = testing::t_allocations;
    task.run(task.context, row, logits, scratch);
    g_workers_allocations += testing::t_allocations - before;
  }

  std::vector<Counts>& counts_;
  std::vector<engine::Handle>& clients_;
  std::atomic<bool>& ready_;
  model::RowTask task_;
};

TEST(SteadyState, a_decode_step_of_a_real_model_allocates_nothing) {  // P15
  const io::testing::ScratchFolder scratch;
  const std::string path = scratch.file("m.gguf", io::testing::TinyModel{.vocab = engine::testing::kVocab, .matrices = tensor::DType::q8_0}.gguf().finish());
  const auto source = *io::open_model(path);
  const auto model = *model::load_model(*source, *model::read_config(*source),
                                        {.threads = 2, .pool_tokens = 1024, .block_tokens = 8, .max_step_tokens = 64, .max_step_outputs = 8, .max_slices = 8, .row_scratch_bytes = sampling::scratch_bytes});
  const engine::testing::FakeTokenizer tokenizer;
  std::vector<WatchedRunner::Counts> counts;
  counts.reserve(100);
  std::vector<engine::Handle> clients;
  std::atomic<bool> ready = false;
  engine::Engine engine(std::make_unique<WatchedRunner>(*model, counts, clients, ready), tokenizer, {.step_tokens = 64, .max_running = 8, .max_step_us = 100'000});
  for (int i = 0; i < 8; ++i) {
    engine::Request request;
    request.prompt.assign(5, 10 + i);
    request.max_new_tokens = 110;
    request.ignore_eos = true;
    request.sampling.temperature = i % 2 ? 0.0f : 1.0f;
    request.sampling.seed = static_cast<std::uint64_t>(i);
    auto handle = engine.submit(std::move(request));
    ASSERT_TRUE(handle.ok());
    clients.push_back(std::move(handle).value());
  }
  ready = true;
  engine.drain(60s);
  ASSERT_EQ(counts.size(), 100u);
  for (std::size_t step = 20; step < 100; ++step) {
    EXPECT_EQ(counts[step].engine, counts[step - 1].engine) << "step " << step;
    EXPECT_EQ(counts[step].draws, counts[step - 1].draws) << "step " << step;
  }
}

}  // namespace
}  // namespace millrace::cli
