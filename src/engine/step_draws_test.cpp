// What workers do in a step allocates nothing; and what is drawn from rows that several draw from.

#include "engine/step_draws.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "base/testing/allocations.h"
#include "engine/testing/fake_tokenizer.h"

namespace millrace::engine {
namespace {

const std::vector<TokenId> kEndTokens = {0};
constexpr int kVocab = 20'000;  // enough for sampling to look at an estimate first

std::vector<float> random_row(unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> row(kVocab);
  for (float& logit : row) logit = normal(random);
  return row;
}

// P15: at temperature 0 and above, whatever the parameters, from the first step on.
TEST(StepDraws, the_workers_allocate_nothing) {
  const testing::FakeTokenizer tokenizer;
  const std::vector<sampling::Params> kinds = {
      {.temperature = 0},
      {.temperature = 0.8f},
      {.temperature = 0.8f, .top_p = 0.95f},
      {.temperature = 0.8f, .top_p = 0.3f, .min_p = 0.01f},
      {.temperature = 0.8f, .top_p = 0.9f, .top_k = 40},
      {.temperature = 0.8f, .top_k = 15'000},
      {.temperature = 0.8f, .top_p = 0.95f, .typical_p = 0.9f},
      {.repetition_penalty = 1.1f, .presence_penalty = 0.5f, .logit_bias = {{3, 2.0f}}},
      {.temperature = 0.8f, .top_p = 0.95f, .top_logprobs = 5},
      {.temperature = 0, .top_logprobs = 256},
  };
  std::vector<std::unique_ptr<LiveRequest>> requests;
  for (const sampling::Params& params : kinds) {
    Request request;
    request.prompt = {1, 2, 3};
    request.sampling = params;
    request.min_tokens = 1000;
    request.stop_token_ids = {7, 8};
    requests.push_back(std::make_unique<LiveRequest>(std::move(request), nullptr, tokenizer, kEndTokens, 0));
  }
  std::vector<std::byte> scratch(sampling::scratch_bytes(kVocab));
  StepDraws draws(kVocab);
  long in_first_step = 0;
  for (int step = 0; step < 4; ++step) {
    std::vector<std::vector<float>> rows;
    draws.clear();
    for (std::size_t i = 0; i < requests.size(); ++i) {
      if (i == 2) draws.skip(1), rows.push_back(random_row(99));
      draws.add(*requests[i], 3 + step, /*keep=*/i % 2 == 1);
      rows.push_back(random_row(static_cast<unsigned>(i)));
    }
    const auto before_step = rows;
    const model::RowTask task = draws.task();
    const long before = millrace::testing::t_allocations;
    for (std::size_t row = rows.size(); row-- > 0;) task.run(task.context, static_cast<int>(row), rows[row], scratch);
    EXPECT_EQ(millrace::testing::t_allocations - before, 0) << "step " << step;
    in_first_step += step == 0 ? millrace::testing::t_allocations : 0;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const std::size_t row = i + (i >= 2 ? 1 : 0);
      const sampling::Sampled sampled = draws.take(row);
      EXPECT_GE(sampled.token, 1) << "request " << i;
      EXPECT_EQ(sampled.top.size(), static_cast<std::size_t>(std::max(kinds[i].top_logprobs, 0)));
      if (i % 2 == 1) { EXPECT_EQ(rows[row], before_step[row]) << "a kept row, of request " << i; }
    }
    EXPECT_EQ(rows[2], before_step[2]) << "a row that nobody draws from";
  }
  EXPECT_GT(in_first_step, 0) << "nothing is counted";
}

TEST(StepDraws, several_answers_draw_from_one_row_what_each_draws_alone) {
  const testing::FakeTokenizer tokenizer;
  std::vector<std::unique_ptr<LiveRequest>> answers;
  for (int number = 0; number < 3; ++number) {
    Request request;
    request.prompt = {1, 2, 3};
    request.sampling = {.temperature = 1, .repetition_penalty = 1.3f, .logit_bias = {{7, 1.0f}}};
    answers.push_back(std::make_unique<LiveRequest>(std::move(request), nullptr, tokenizer, kEndTokens, 0, number));
  }
  std::vector<std::byte> scratch(sampling::scratch_bytes(kVocab));
  for (const bool keep : {false, true}) {
    StepDraws together(kVocab);
    together.add(*answers[0], 3, keep);
    for (std::size_t i = 1; i < 3; ++i) together.add_answer(*answers[i]);
    std::vector<float> row = random_row(5);
    const model::RowTask task = together.task();
    task.run(task.context, 0, row, scratch);
    if (keep) { EXPECT_EQ(row, random_row(5)); }
    for (std::size_t i = 0; i < 3; ++i) {
      StepDraws alone(kVocab);
      alone.add(*answers[i], 3, /*keep=*/false);
      std::vector<float> own = random_row(5);
      const model::RowTask single = alone.task();
      single.run(single.context, 0, own, scratch);
      EXPECT_EQ(i == 0 ? together.take(0).token : together.take_answer(0, i - 1).token, alone.take(0).token) << "answer " << i;
    }
  }
}

}  // namespace
}  // namespace millrace::engine
