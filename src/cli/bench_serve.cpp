// bench serve: loads a server that speaks the OpenAI API, ours or another, and prints what its clients would have seen.
// docs/performance.md says what each figure means, where tools disagree.

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/utf8.h"
#include "cli/bench_modes.h"
#include "cli/bench_serve_report.h"
#include "cli/interrupts.h"
#include "cli/load_client.h"
#include "cli/output.h"

namespace millrace::cli {
namespace {

using namespace std::chrono_literals;
using Json = nlohmann::ordered_json;

constexpr int kRequests = 100, kConcurrency = 8, kPromptWords = 128, kAnswerTokens = 64;
constexpr double kAskTimeout_s = 10;

/// The load of a scenario takes one length, a rate and the seed from the command line; the rest is its own.
Result<LoadSpec> spec_of_scenario(const Options& options) {
  if (!options.trace.empty()) return error(Code::invalid_argument, "--scenario and --trace are both a load: give one");
  int words = static_cast<int>(options.prefix_words);
  if (options.scenario != "shared" && !options.prompt_words.empty()) {
    MILLRACE_TRY(lengths, parse_lengths(options.prompt_words));
    if (lengths.kind != Lengths::Kind::fixed) return error(Code::invalid_argument, "--scenario {} takes one length, got --prompt-words {}", options.scenario, options.prompt_words);
    words = lengths.least;
  }
  if (options.rate > 0 && options.scenario != "mixed") return error(Code::invalid_argument, "--scenario {} has arrivals of its own: --rate goes with mixed", options.scenario);
  LoadSpec spec = scenario_spec(options.scenario, words, options.rate);
  spec.seed = options.seed;
  return spec;
}

Result<LoadSpec> spec_of(const Options& options) {
  if (!options.scenario.empty()) return spec_of_scenario(options);
  LoadSpec spec;
  if (!options.trace.empty()) {
    MILLRACE_TRY(trace, read_trace(options.trace));
    spec.trace = std::move(trace);
  }
  const bool has_arrivals = options.rate > 0 || !options.trace.empty();
  spec.duration_s = options.duration_s;
  spec.requests = options.requests > 0 ? static_cast<int>(options.requests) : spec.duration_s > 0 ? INT_MAX : kRequests;
  if (!spec.trace.empty()) spec.requests = std::min(options.requests > 0 ? spec.requests : INT_MAX, static_cast<int>(spec.trace.size()));
  spec.concurrency = options.concurrency > 0 ? static_cast<int>(options.concurrency) : has_arrivals ? 0 : kConcurrency;
  if (options.rate > 0) spec.arrivals = options.arrivals == "even" ? Arrivals::even : Arrivals::poisson, spec.rate = options.rate;
  spec.burst = static_cast<int>(options.burst);
  if (spec.burst > 1 && options.rate <= 0) return error(Code::invalid_argument, "--burst {} needs a --rate", spec.burst);
  if (options.rate > 0 && !options.trace.empty()) return error(Code::invalid_argument, "a trace has arrivals of its own: --speed scales them, --rate does not");
  MILLRACE_TRY(prompt, parse_lengths(options.prompt_words.empty() ? std::to_string(kPromptWords) : options.prompt_words));
  MILLRACE_TRY(answer, parse_lengths(options.answer_tokens.empty() ? std::to_string(kAnswerTokens) : options.answer_tokens));
  spec.prompt_words = prompt, spec.answer_tokens = answer;
  spec.prefix_words = static_cast<int>(options.prefix_words), spec.prefix_groups = static_cast<int>(options.prefix_groups);
  if (options.speed > 0) spec.speed = options.speed;
  spec.seed = options.seed;
  return spec;
}

std::string words_of(const Options& options, const LoadSpec& spec) {
  std::string out = !options.scenario.empty() ? "scenario " + options.scenario : !options.trace.empty() ? "trace " + options.trace : "";
  const auto add = [&](const std::string& part) { out += (out.empty() ? "" : ", ") + part; };
  if (spec.requests < INT_MAX) add(fmt::format("{} request{}", spec.requests, spec.requests == 1 ? "" : "s"));
  if (spec.duration_s > 0) add(fmt::format("{} s", spec.duration_s));
  if (spec.arrivals != Arrivals::at_once) add(fmt::format("{} a second ({})", spec.rate, spec.arrivals == Arrivals::poisson ? "Poisson" : "even"));
  if (spec.burst > 1) add(fmt::format("in bursts of {}", spec.burst));
  if (spec.concurrency > 0) add(fmt::format("{} at a time", spec.concurrency));
  if (spec.prefix_words > 0) add(fmt::format("{} prefix{} of {} words", spec.prefix_groups, spec.prefix_groups > 1 ? "es" : "", spec.prefix_words));
  if (options.scenario.empty() && spec.trace.empty())
    add(fmt::format("prompts {} words, answers {} tokens", options.prompt_words.empty() ? std::to_string(kPromptWords) : options.prompt_words,
                    options.answer_tokens.empty() ? std::to_string(kAnswerTokens) : options.answer_tokens));
  return out;
}

/// The server's answer to a question that every such server knows; also shows that there is one, and that it is up.
Result<PlainAnswer> ask_models(const LoadTarget& target, double wait_s) {
  const auto last = std::chrono::steady_clock::now() + std::chrono::microseconds(static_cast<std::int64_t>(wait_s * 1e6));
  for (;;) {
    auto answer = get(target, "/v1/models", kAskTimeout_s);
    const bool is_up = answer && answer->status != 503;
    if (is_up || std::chrono::steady_clock::now() >= last) return answer;
    std::this_thread::sleep_for(100ms);
  }
}

Result<std::string> model_name(const Options& options, const PlainAnswer& answer) {
  if (!options.model_name.empty()) return options.model_name;
  if (answer.status != 200)
    return error(Code::not_found, "'{}' answers {} to /v1/models ({}): --model-name says which model to ask", options.model, answer.status, error_sentence(answer.body));
  const auto models = nlohmann::json::parse(answer.body, nullptr, /*allow_exceptions=*/false);
  const auto first = nlohmann::json::json_pointer("/data/0/id");
  if (!models.is_discarded() && models.contains(first) && models[first].is_string()) return models[first].get<std::string>();
  return error(Code::corrupt_data, "'{}' names no model in /v1/models: --model-name says which one to ask", options.model);
}

Result<Json> common_fields(const Options& options, const std::string& model) {
  Json fields = {{"model", model}, {"temperature", 0}, {"stream", true}, {"stream_options", {{"include_usage", true}}}};
  if (options.ignore_eos) fields["ignore_eos"] = true;
  if (options.extra_body.empty()) return fields;
  const auto extra = Json::parse(options.extra_body, nullptr, /*allow_exceptions=*/false);
  if (!extra.is_object()) return error(Code::invalid_argument, "--extra-body: expected a JSON object, got '{}'", options.extra_body);
  fields.update(extra);
  return fields;
}

std::string body_of(const LoadRequest& request, Json fields, bool is_chat) {
  fields["max_tokens"] = request.answer_tokens;
  if (is_chat) {
    Json messages = Json::array();
    if (!request.prefix.empty()) messages.push_back({{"role", "system"}, {"content", request.prefix}});
    messages.push_back({{"role", "user"}, {"content", request.prompt}});
    fields["messages"] = std::move(messages);
  } else {
    fields["prompt"] = request.prefix + request.prompt;
  }
  return fields.dump();
}

/// A line on a terminal's standard error that overwrites itself.
class ProgressLine {
 public:
  void show(const LoadProgress& now, const LoadSpec& spec) {
    if (!stderr_is_terminal() || now.elapsed_s < shown_s_ + 0.25) return;
    const double rate = static_cast<double>(now.text_chunks - chunks_) / (now.elapsed_s - shown_s_);
    shown_s_ = now.elapsed_s, chunks_ = now.text_chunks;
    const std::string all = spec.requests < INT_MAX ? fmt::format(" of {}", spec.requests) : "";
    std::fprintf(stderr, "\r%-*s", kWidth, fmt::format("{:.0f} s: {} sent{}, {} running, {} done, {} failed, {:.0f} chunks/s", now.elapsed_s, now.sent, all, now.running, now.done, now.failed, rate).c_str());
    std::fflush(stderr);
    is_shown_ = true;
  }
  ~ProgressLine() {
    if (is_shown_) std::fprintf(stderr, "\r%*s\r", kWidth, "");
  }

 private:
  static constexpr int kWidth = 78;
  double shown_s_ = 0;
  std::uint64_t chunks_ = 0;
  bool is_shown_ = false;
};

Result<LoadResult> run_spec(const LoadTarget& target, LoadSpec spec, LoadOrder order) {
  ProgressLine line;
  LoadPlan plan(std::move(spec));
  order.stop = [&](const LoadProgress& now) {
    line.show(now, plan.spec());
    return interrupts() > 0;
  };
  return run_load(target, plan, order);
}

}  // namespace

Result<int> run_bench_serve(const Options& options) {
  MILLRACE_TRY(url, parse_url(options.model));
  MILLRACE_TRY(spec, spec_of(options));
  LoadTarget target{.url = url, .headers = {}};
  if (options.api_key.find_first_of("\r\n") != options.api_key.npos) return error(Code::invalid_argument, "--api-key: a key has no line breaks");
  if (!options.api_key.empty()) target.headers.emplace_back("Authorization", "Bearer " + options.api_key);
  MILLRACE_TRY(models, ask_models(target, options.wait_s));
  MILLRACE_TRY(model, model_name(options, models));
  MILLRACE_TRY(fields, common_fields(options, repair_utf8(model)));
  watch_interrupts();  // not before: until something is measured, Ctrl-C ends it at once

  const bool is_chat = options.api == "chat";
  const LoadOrder order{.path = is_chat ? "/v1/chat/completions" : "/v1/completions",
                        .body = [fields, is_chat](const LoadRequest& request) { return body_of(request, fields, is_chat); },
                        .timeout_s = options.request_timeout_s,
                        .stop = {}};
  if (options.warmup > 0) MILLRACE_TRY_VOID(run_spec(target, warmup_spec(spec, static_cast<int>(options.warmup)), order));
  const std::string load = words_of(options, spec);
  MILLRACE_TRY(result, run_spec(target, std::move(spec), order));

  ServeReport report = report_on(result, {options.ttft_slo_ms, options.tpot_slo_ms, options.e2e_slo_ms}, options.scenario);
  report.url = options.model, report.model = model, report.api = options.api, report.load = load;
  MILLRACE_TRY_VOID(write_report(options.json, report.to_json(), report.to_text()));
  if (report.stopped) return kInterruptedStatus;
  if (report.done == 0) return error(Code::not_found, "none of {} requests was answered: {}", report.sent, report.errors.empty() ? "no reason is known" : report.errors[0].sentence);
  return 0;
}

}  // namespace millrace::cli
