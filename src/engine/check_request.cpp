#include "engine/check_request.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "base/utf8.h"

namespace millrace::engine {
namespace {

// Each byte of text is compared with each stop string.
constexpr std::size_t kMostStops = 64, kMostStopBytes = 4096;
constexpr std::size_t kMostSaltBytes = 1024;

Result<void> check_tokens(const char* field, std::span<const TokenId> tokens, int vocab_size) {
  for (std::size_t i = 0; i < tokens.size(); ++i)
    if (tokens[i] < 0 || tokens[i] >= vocab_size)
      return error(Code::invalid_argument, "{}[{}] is token {}, the vocabulary has {}", field, i, tokens[i],
                   vocab_size);
  return {};
}

Result<void> check_stops(std::span<const std::string> stops) {
  if (stops.size() > kMostStops)
    return error(Code::invalid_argument, "{} stop strings, at most {} are possible", stops.size(), kMostStops);
  for (std::size_t i = 0; i < stops.size(); ++i) {
    if (stops[i].empty() || stops[i].size() > kMostStopBytes)
      return error(Code::invalid_argument, "stop[{}] has {} bytes, expected 1 to {}", i, stops[i].size(),
                   kMostStopBytes);
    if (!is_valid_utf8(stops[i])) return error(Code::invalid_argument, "stop[{}] is not valid UTF-8", i);
  }
  return {};
}

Result<void> check_length(Request& request, const model::RunnerInfo& info, const sched::Admission& admission) {
  if (request.prompt.empty()) return error(Code::invalid_argument, "the prompt has no tokens");
  if (request.max_new_tokens < -1)
    return error(Code::invalid_argument, "max_new_tokens is {}, expected 0 or more, or -1 for all that fit",
                 request.max_new_tokens);
  const auto prompt = static_cast<std::int64_t>(request.prompt.size());
  if (request.max_new_tokens == -1) {
    const std::int64_t room = std::min(info.max_positions, admission.room_tokens);
    if (prompt >= room)
      return error(Code::invalid_argument, "prompt of {} tokens leaves no room for an answer, {} tokens fit", prompt,
                   room);
    request.max_new_tokens = static_cast<int>(room - prompt);
  }
  if (request.min_tokens < 0 || request.min_tokens > request.max_new_tokens)
    return error(Code::invalid_argument, "min_tokens is {}, expected 0 to {}, the most new tokens", request.min_tokens,
                 request.max_new_tokens);
  if (prompt + request.max_new_tokens > info.max_positions)
    return error(Code::invalid_argument, "prompt of {} tokens plus {} new ones exceeds the context of {} tokens",
                 prompt, request.max_new_tokens, info.max_positions);
  return {};
}

Result<void> check_rows(const Request& request) {
  if (request.prompt_rows == model::Outputs::last)
    return error(Code::invalid_argument, "prompt_rows is last, expected none, all or hidden");
  if (request.prompt_rows != model::Outputs::none && !request.row_sink)
    return error(Code::invalid_argument, "prompt_rows are asked for and there is no row_sink");
  return {};
}

Result<void> check_wishes(const Request& request) {
  if (request.ttft_slo_us < 0)
    return error(Code::invalid_argument, "ttft_slo_us is {}, expected 0 (none) or more", request.ttft_slo_us);
  if (request.tpot_slo_us < 0)
    return error(Code::invalid_argument, "tpot_slo_us is {}, expected 0 (none) or more", request.tpot_slo_us);
  if (request.tenant_weight < 1 || request.tenant_weight > 1000)
    return error(Code::invalid_argument, "tenant_weight is {}, expected 1 to 1000", request.tenant_weight);
  return {};
}

}  // namespace

Result<Request> checked(Request request, const model::RunnerInfo& info, const sched::Admission& admission) {
  if (request.prompt_rows == model::Outputs::hidden && request.max_new_tokens == -1) request.max_new_tokens = 0;
  MILLRACE_TRY_VOID(check_length(request, info, admission));
  MILLRACE_TRY_VOID(check_tokens("prompt", request.prompt, info.vocab_size));
  MILLRACE_TRY_VOID(check_tokens("stop_token_ids", request.stop_token_ids, info.vocab_size));
  MILLRACE_TRY_VOID(check_stops(request.stop));
  MILLRACE_TRY_VOID(check_rows(request));
  MILLRACE_TRY_VOID(sampling::check_params(request.sampling, info.vocab_size));
  if (request.cache_salt.size() > kMostSaltBytes)
    return error(Code::invalid_argument, "cache_salt has {} bytes, at most {} are possible", request.cache_salt.size(), kMostSaltBytes);
  if (request.timeout_us < 0)
    return error(Code::invalid_argument, "timeout_us is {}, expected 0 (none) or more", request.timeout_us);
  if (request.max_unread_tokens < 1)
    return error(Code::invalid_argument, "max_unread_tokens is {}, expected 1 or more", request.max_unread_tokens);
  MILLRACE_TRY_VOID(check_wishes(request));
  MILLRACE_TRY_VOID(admission.check(std::ssize(request.prompt), sequence_spec(request)));
  return request;
}

Result<void> check_answers(const Request& request, int n) {
  if (n < 1 || n > Engine::kMostAnswers) return error(Code::invalid_argument, "{} answers, expected 1 to {}", n, Engine::kMostAnswers);
  if (n > 1 && request.max_new_tokens == 0) return error(Code::invalid_argument, "{} answers of no new tokens", n);
  if (n > 1 && request.prompt_rows != model::Outputs::none)
    return error(Code::invalid_argument, "prompt_rows come with one answer, {} were asked for", n);
  return {};
}

sched::SequenceSpec sequence_spec(const Request& request) {
  sched::SequenceSpec spec;
  spec.max_new = request.max_new_tokens;
  spec.priority = request.priority;
  spec.ttft_slo_us = request.ttft_slo_us;
  spec.tpot_slo_us = request.tpot_slo_us;
  spec.tenant = request.tenant;
  spec.tenant_weight = request.tenant_weight;
  switch (request.prompt_rows) {
    case model::Outputs::none:
      spec.prompt_rows = sched::Outputs::none;
      break;
    case model::Outputs::last:
      spec.prompt_rows = sched::Outputs::last;
      break;
    case model::Outputs::all:
      spec.prompt_rows = sched::Outputs::all;
      break;
    case model::Outputs::hidden:
      spec.prompt_rows = sched::Outputs::hidden;
      break;
  }
  return spec;
}

}  // namespace millrace::engine
