#pragma once

// For tests of the whole chain: a tiny random model on this CPU, engines that take turns with it, and answers that compare
// by equality, log-probabilities included.

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/borrowed_runner.h"
#include "engine/engine.h"
#include "engine/testing/fake_tokenizer.h"
#include "io/testing/model_files.h"
#include "model/model.h"

namespace millrace::cli::testing {

/// What a client got: everything that must not depend on who ran beside it.
struct Answer {
  std::vector<TokenId> ids;
  std::string text;
  std::vector<float> logprobs;  // of the drawn tokens, then of each token's best ones
  std::vector<TokenId> best;
  engine::Finish finish = engine::Finish::error;
  friend bool operator==(const Answer&, const Answer&) = default;
};

struct Collected {
  Answer answer;
  engine::Usage usage;
  engine::CacheReport cache;
};

/// Reads to the end. A minute without an event is a failure.
inline Collected collect(engine::Handle& handle) {
  Collected out;
  std::vector<float> best;
  for (;;) {
    auto event = handle.next(std::chrono::seconds(60));
    if (!event) {
      ADD_FAILURE() << "no event within a minute";
      return out;
    }
    out.answer.text += event->text;
    for (const engine::TokenEvent& token : event->tokens) {
      out.answer.ids.push_back(token.id);
      out.answer.logprobs.push_back(token.logprob);
      for (const auto& [id, logprob] : token.top) out.answer.best.push_back(id), best.push_back(logprob);
    }
    if (!event->finished) continue;
    EXPECT_FALSE(event->error) << event->error->message;
    out.answer.logprobs.insert(out.answer.logprobs.end(), best.begin(), best.end());
    out.answer.finish = *event->finished;
    out.usage = event->usage;
    out.cache = event->cache;
    return out;
  }
}

/// The first blocks of another runner's pool, as if that were all.
class SmallPool : public BorrowedRunner {
 public:
  SmallPool(model::Runner& runner, int n_blocks) : BorrowedRunner(runner), info_(runner.info()) { info_.cache_groups[0].n_blocks = n_blocks; }
  const model::RunnerInfo& info() const override { return info_; }

 private:
  model::RunnerInfo info_;
};

/// `prompt` one token after the other: alike for the same numbers, another text for another `family`.
inline std::vector<TokenId> tiny_prompt(int family, int tokens) {
  std::vector<TokenId> prompt;
  for (int i = 0; i < tokens; ++i) prompt.push_back(2 + (family * 17 + i * (5 + family % 7)) % (engine::testing::kVocab - 2));
  return prompt;
}

/// A file of a random model of the fake tokenizer's vocabulary, and the weights loaded from it.
class TinyFile {
 public:
  explicit TinyFile(io::testing::TinyModel shape = {}) {
    shape.vocab = engine::testing::kVocab;
    shape.matrices = tensor::DType::q8_0;
    path_ = scratch_.file("m.gguf", shape.gguf().finish());
  }

  std::unique_ptr<model::Model> load(model::LoadOptions options) const {
    const auto source = *io::open_model(path_);
    options.row_scratch_bytes = sampling::scratch_bytes;
    return *model::load_model(*source, *model::read_config(*source), options);
  }

 private:
  io::testing::ScratchFolder scratch_;
  std::string path_;
};

/// A first request that holds the engine in its step until open(): what is submitted meanwhile arrives at once, whatever
/// the threads do.
class Gate {
 public:
  explicit Gate(engine::Engine& engine) {
    engine::Request request;
    request.prompt = {2};
    request.max_new_tokens = 0;
    request.cache_salt = "gate";
    request.prompt_rows = model::Outputs::all;
    request.row_sink = [opened = opened_.get_future().share()](auto...) { opened.wait_for(std::chrono::seconds(60)); };
    handle_ = std::make_unique<engine::Handle>(engine.submit(std::move(request)).value());
  }
  void open() {
    opened_.set_value();
    collect(*handle_);
  }

 private:
  std::promise<void> opened_;
  std::unique_ptr<engine::Handle> handle_;
};

}  // namespace millrace::cli::testing
