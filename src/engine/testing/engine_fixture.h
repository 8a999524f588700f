#pragma once

// An engine over the fake runner, and ways to ask it.

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "engine/testing/reference.h"

namespace millrace::engine::testing {

/// Checks all invariants after each step, unless the options say otherwise.
class EngineTest : public ::testing::Test {
 protected:
  Engine& start(FakeRunnerOptions runner = {}, EngineOptions options = {.check_invariants = true}) {
    engine_ = std::make_unique<Engine>(std::make_unique<FakeRunner>(std::move(runner)), tokenizer_, options);
    return *engine_;
  }
  Handle submit(Request request) {
    auto handle = engine_->submit(std::move(request));
    if (!handle) throw std::runtime_error(handle.error().message);
    return std::move(handle).value();
  }
  Answer ask(Request request) {
    Handle handle = submit(std::move(request));
    return read_all(handle);
  }
  std::string refusal(Request request) {
    const auto handle = engine_->submit(std::move(request));
    return handle ? std::string() : handle.error().message;
  }

  FakeTokenizer tokenizer_;
  std::unique_ptr<Engine> engine_;
};

/// Sixty drawn tokens that hold something of everything.
inline Request story(int max_new = 60, std::uint64_t seed = 5) {
  Request request;
  request.prompt = {10, 11, 12, 13, 14};
  request.max_new_tokens = max_new;
  request.sampling.seed = seed;
  request.ignore_eos = true;
  return request;
}

}  // namespace millrace::engine::testing
