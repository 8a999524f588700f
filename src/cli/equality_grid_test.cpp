// A15, A16, A21: the same bits, always. A handful of requests through the real engine and a real tiny model, in every
// combination of schedule, prefix cache, pool, format of the cache, number of answers, block size, step size and threads;
// ids, texts and log-probabilities are those that each request gets alone, in one piece, with an empty cache of that format.

#include <gtest/gtest.h>

#include <array>
#include <map>

#include "cli/testing/tiny_engine.h"

namespace millrace::cli {
namespace {

using namespace testing;

constexpr int kStepTokens = 64, kMostSequences = 24, kRoomyTokens = 2048;
constexpr std::array kSchedules = {std::pair{sched::Schedule::serial, "serial"}, std::pair{sched::Schedule::static_, "static"},
                                   std::pair{sched::Schedule::mixed, "mixed"}};

/// Seven requests: one system prompt of 34 tokens, more than a block of 32; one of 24, whole blocks of 8; and a short one.
/// All of them cross a border of 32 while they decode.
std::vector<engine::Request> requests() {
  const auto behind = [](int prefix_family, int prefix, int family, int own) {
    std::vector<TokenId> prompt = tiny_prompt(prefix_family, prefix);
    for (const TokenId token : tiny_prompt(family, own)) prompt.push_back(token);
    return prompt;
  };
  std::vector<engine::Request> all(7);
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].sampling.seed = 100 + i;
    all[i].sampling.top_logprobs = static_cast<int>(i % 3);
    all[i].ignore_eos = true;
    all[i].max_new_tokens = 14;
  }
  all[0].prompt = behind(1, 34, 4, 22);
  all[0].sampling.temperature = 0;
  all[1].prompt = behind(1, 34, 5, 20);
  all[1].sampling.top_k = 9;
  all[2].prompt = behind(1, 34, 6, 21);
  all[2].sampling.repetition_penalty = 1.3f;
  all[2].sampling.frequency_penalty = 0.5f;
  all[3].prompt = tiny_prompt(2, 24);
  all[3].sampling.temperature = 0.8f;
  all[3].sampling.top_p = 0.9f;
  all[4].prompt = tiny_prompt(2, 24);  // the same: at least one token of it is computed
  all[4].sampling.temperature = 0;
  all[4].sampling.presence_penalty = 0.6f;
  all[5].prompt = tiny_prompt(3, 5);
  all[5].sampling.min_p = 0.05f;
  all[5].stop = {"a", "STOP", "\u00e9"};
  all[5].max_new_tokens = 32;
  all[6].prompt = tiny_prompt(1, 34);  // the system prompt and nothing else
  all[6].sampling.temperature = 1.5f;
  all[6].sampling.logit_bias = {{5, 2.0f}, {6, 2.0f}, {7, -1.0f}};  // halves of characters
  all[6].ignore_eos = false;
  all[6].max_new_tokens = 32;
  return all;
}

struct Combination {
  model::KvFormat kv;
  int block_tokens, threads;
  std::pair<sched::Schedule, const char*> schedule;
  bool cache, tight;
  int answers, step_tokens;

  std::string name() const {
    return fmt::format("kv {}, blocks of {}, {} threads, {}, cache {}, pool {}, {} answers, steps of {}", model::to_string(kv), block_tokens, threads,
                       schedule.second, cache ? "on" : "off", tight ? "tight" : "roomy", answers, step_tokens);
  }
  /// The longest request takes 70 tokens. Tight: that and a little.
  int pool_blocks() const { return tight ? (block_tokens == 8 ? 13 : 4) : kRoomyTokens / block_tokens; }
};

/// All answers to all requests, request by request.
std::vector<Answer> answers_together(engine::Engine& engine, int n) {
  Gate gate(engine);
  std::vector<engine::Handle> handles;
  for (const engine::Request& request : requests()) {
    auto some = engine.submit(request, n).value();
    std::ranges::move(some, std::back_inserter(handles));
  }
  gate.open();
  std::vector<Answer> out;
  for (engine::Handle& handle : handles) out.push_back(collect(handle).answer);
  return out;
}

/// Whether it may run out of blocks: several sequences run at once. Serially those are the answers to
/// one prompt.
bool preempts(const Combination& c) { return c.tight && (c.schedule.first != sched::Schedule::serial || c.answers > 1); }

class EqualityGrid : public ::testing::Test {
 protected:
  engine::EngineOptions options_of(const Combination& c) const {
    return {.step_tokens = c.step_tokens, .max_running = kMostSequences, .prefix_sharing = c.cache, .schedule = c.schedule.first, .check_invariants = true};
  }

  std::unique_ptr<model::Model> load(model::KvFormat kv, int block_tokens, int threads) const {
    return file_.load({.threads = threads, .kv = kv, .pool_tokens = kRoomyTokens, .block_tokens = block_tokens, .max_step_tokens = kStepTokens,
                       .max_step_outputs = kMostSequences, .max_slices = kMostSequences});
  }

  /// Each request alone: one after the other, each in an engine of its own.
  std::vector<Answer> alone(model::Model& model, int n) const {
    std::vector<Answer> out;
    for (const engine::Request& request : requests()) {
      engine::Engine engine(std::make_unique<BorrowedRunner>(model), tokenizer_,
                            {.step_tokens = kStepTokens, .max_running = kMostSequences, .prefix_sharing = false, .schedule = sched::Schedule::serial});
      auto handles = engine.submit(request, n).value();
      for (engine::Handle& handle : handles) out.push_back(collect(handle).answer);
    }
    return out;
  }

  void compare(model::Model& model, const Combination& c, const std::vector<Answer>& want) const {
    engine::Engine engine(std::make_unique<SmallPool>(model, c.pool_blocks()), tokenizer_, options_of(c));
    const std::vector<Answer> got = answers_together(engine, c.answers);
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < got.size(); ++i)
      EXPECT_TRUE(got[i] == want[i]) << c.name() << ": answer " << i % static_cast<std::size_t>(c.answers) << " to request "
                                     << i / static_cast<std::size_t>(c.answers) << " differs";
    // What the combination is about did happen.
    const engine::EngineMetrics& m = engine.metrics();
    EXPECT_EQ(m.preemptions_total.value() > 0, preempts(c)) << c.name();
    // (A fork that finds no slot computes the rest of its prompt itself: cached may be less than the prompts of the forks.)
    const auto disabled = m.prefix_miss_tokens_total[static_cast<std::size_t>(kv::MissCause::disabled)].value();
    EXPECT_EQ(disabled == m.computed_tokens_total.value(), !c.cache) << c.name();
    if (c.answers == 1) {
      EXPECT_EQ(m.cached_tokens_total.value() > 0, c.cache) << c.name();
    }
    EXPECT_EQ(m.kv_blocks_used.value(), 0) << c.name();
  }

  /// The answer by definition: logits of its whole text in one piece, and a draw from each row with the stream (seed, number, position).
  Answer by_definition(model::Model& model, const engine::Request& asked, std::uint64_t number, const Answer& answer) const {
    engine::Request request;
    request.prompt = asked.prompt;
    request.prompt.insert(request.prompt.end(), answer.ids.begin(), answer.ids.end() - 1);
    request.max_new_tokens = 0;
    request.prompt_rows = model::Outputs::all;
    std::vector<float> rows;
    request.row_sink = [&rows](int, std::span<const float> some, int) { rows.insert(rows.end(), some.begin(), some.end()); };
    engine::Engine engine(std::make_unique<BorrowedRunner>(model), tokenizer_, {.prefix_sharing = false});
    auto handle = engine.submit(request).value();
    collect(handle);

    Answer out{.text = answer.text, .finish = answer.finish};
    std::vector<float> best;
    std::vector<std::byte> scratch(sampling::scratch_bytes(engine::testing::kVocab));
    sampling::TokenCounts counts;
    for (const TokenId token : asked.prompt) counts.add_prompt(token);
    for (std::size_t position = asked.prompt.size(); position <= request.prompt.size(); ++position) {
      sampling::Sampled drawn;
      sampling::sample(std::span(rows).subspan((position - 1) * engine::testing::kVocab, engine::testing::kVocab), {}, counts, asked.sampling,
                       {asked.sampling.seed, number, position}, scratch, drawn);
      counts.add_generated(drawn.token);
      out.ids.push_back(drawn.token);
      out.logprobs.push_back(drawn.logprob);
      for (const auto& [id, logprob] : drawn.top) out.best.push_back(id), best.push_back(logprob);
    }
    out.logprobs.insert(out.logprobs.end(), best.begin(), best.end());
    return out;
  }

  TinyFile file_;
  engine::testing::FakeTokenizer tokenizer_;
};

TEST_F(EqualityGrid, A15_A16_A21_no_combination_changes_a_byte) {
  int combinations = 0;
  for (const auto& format : model::kKvFormats) {
    std::map<int, std::vector<Answer>> want;
    {
      const auto model = load(format.format, 32, 1);
      for (const int n : {1, 3}) want[n] = alone(*model, n);
    }
    for (const auto& [block_tokens, threads] : {std::pair{8, 1}, std::pair{32, 1}, std::pair{32, 2}}) {
      const auto model = load(format.format, block_tokens, threads);
      for (const auto& schedule : kSchedules)
        for (const bool cache : {false, true})
          for (const bool tight : {false, true})
            for (const int answers : {1, 3})
              for (const int step_tokens : {5, kStepTokens}) {
                const Combination c{format.format, block_tokens, threads, schedule, cache, tight, answers, step_tokens};
                compare(*model, c, want[answers]);
                ++combinations;
              }
    }
  }
  EXPECT_EQ(combinations, 576);
}

// The references of the grid come from an engine, too: they are what sampling draws from the rows of the whole text.
TEST_F(EqualityGrid, A21_an_answer_alone_is_what_the_rows_of_its_text_draw) {
  for (const auto& format : model::kKvFormats) {
    SCOPED_TRACE(format.name);
    const auto model = load(format.format, 32, 1);
    const std::vector<engine::Request> asked = requests();
    const std::vector<Answer> one = alone(*model, 1), three = alone(*model, 3);
    for (std::size_t i = 0; i < asked.size(); ++i) {
      EXPECT_TRUE(one[i] == three[3 * i]) << "request " << i;
      for (std::size_t a = 0; a < 3; ++a)
        EXPECT_TRUE(by_definition(*model, asked[i], a, three[3 * i + a]) == three[3 * i + a]) << "answer " << a << " to request " << i;
      const bool greedy = asked[i].sampling.temperature == 0;
      EXPECT_EQ(three[3 * i] == three[3 * i + 1], greedy) << "request " << i;
    }
  }
}

}  // namespace
}  // namespace millrace::cli
