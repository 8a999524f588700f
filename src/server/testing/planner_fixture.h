#pragma once

// A served model without a model: an engine over the fake runner, a vocabulary of letters and a template; and ways to ask it as
// an endpoint does.

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "engine/testing/fake_runner.h"
#include "server/generation.h"
#include "server/json_body.h"
#include "server/planners.h"
#include "server/testing/fake_exchange.h"
#include "server/testing/letter_tokenizer.h"

namespace millrace::server::testing {

using text::Json;
using Planner = std::function<Result<GenerationPlan>(const Json&, RequestContext&)>;

class PlannerTest : public ::testing::Test {
 protected:
  PlannerTest() { start(); }

  void start(engine::testing::FakeRunnerOptions runner = {}, engine::EngineOptions options = {.check_invariants = true}) {
    engine_.reset();
    model_.context_tokens = runner.max_positions;
    engine_ = std::make_unique<engine::Engine>(std::make_unique<engine::testing::FakeRunner>(std::move(runner)), tokenizer_, options);
    model_.engine = engine_.get();
    model_.names = {"m"};
    model_.tokenizer = &tokenizer_;
    model_.embedding_dim = engine::testing::kDim;
    model_.fingerprint = "fp_0123456789ab";
    use_template("{% for m in messages %}<control>{{ m.role }} {{ m.content }} {% endfor %}{% if add_generation_prompt %}<control>a {% endif %}");
  }
  void use_template(std::string source) {
    auto parsed = text::ChatTemplate::parse(std::move(source));
    ASSERT_TRUE(parsed) << parsed.error().message;
    template_ = std::make_unique<text::ChatTemplate>(*std::move(parsed));
    model_.chat_template = template_.get();
  }

  RequestContext context() const {
    RequestContext context;
    context.model = &model_;
    context.tenant = &tenant_;
    context.id = "r1";
    context.now_s = 1'764'460'800;
    context.strict = strict_;
    context.random_seed = 99;
    return context;
  }

  Result<GenerationPlan> plan(const Planner& planner, const std::string& body) {
    auto parsed = parse_body(body);
    if (!parsed) return std::move(parsed).error();
    RequestContext own = context();
    auto made = planner(*parsed, own);
    unknown_ = own.unknown_fields;
    return made;
  }
  /// "" where it is accepted.
  std::string refusal(const Planner& planner, const std::string& body) {
    const auto made = plan(planner, body);
    return made ? "" : made.error().message;
  }

  std::string spelled(std::span<const TokenId> ids) const {
    std::string text;
    for (const TokenId id : ids) text += tokenizer_.piece(id);
    return text;
  }
  /// What the engine reads first, or why it is refused.
  std::string prompt(const Planner& planner, const std::string& body) {
    const auto made = plan(planner, body);
    return made ? spelled(made->prompts.at(0).prompt) : made.error().message;
  }

  /// What a client gets: the response's status and body.
  HttpResponse ask(const Planner& planner, const std::string& body) {
    auto made = plan(planner, body);
    if (!made) return error_response(to_api_error(made.error()), Dialect::openai);
    exchange_ = std::make_shared<FakeExchange>();
    record_ = std::make_shared<FakeRecord>();
    start_generation(*engine_, *std::move(made), exchange_, record_);
    return exchange_->answer();
  }

  LetterTokenizer tokenizer_;
  std::unique_ptr<text::ChatTemplate> template_;
  Tenant tenant_;
  bool strict_ = false;
  ServedModel model_;
  std::unique_ptr<engine::Engine> engine_;
  std::shared_ptr<FakeExchange> exchange_;
  std::shared_ptr<FakeRecord> record_;
  std::vector<std::string> unknown_;
};

}  // namespace millrace::server::testing
