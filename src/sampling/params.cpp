#include "sampling/sampler.h"

namespace millrace::sampling {
namespace {

/// NaN is in no range.
Result<void> check_range(const char* field, double value, double least, double most) {
  if (value >= least && value <= most) return {};
  return error(Code::invalid_argument, "{} is {}, expected {} to {}", field, value, least, most);
}

/// (0, most]
Result<void> check_positive(const char* field, double value, double most) {
  if (value > 0 && value <= most) return {};
  return error(Code::invalid_argument, "{} is {}, expected more than 0 and at most {}", field, value, most);
}

}  // namespace

Result<void> check_params(const Params& params, int vocab_size) {
  MILLRACE_TRY_VOID(check_range("temperature", params.temperature, 0, 100));
  MILLRACE_TRY_VOID(check_positive("top_p", params.top_p, 1));
  if (params.top_k < 0) return error(Code::invalid_argument, "top_k is {}, expected 0 (off) or more", params.top_k);
  MILLRACE_TRY_VOID(check_range("min_p", params.min_p, 0, 1));
  MILLRACE_TRY_VOID(check_positive("typical_p", params.typical_p, 1));
  MILLRACE_TRY_VOID(check_positive("repetition_penalty", params.repetition_penalty, 100));
  MILLRACE_TRY_VOID(check_range("presence_penalty", params.presence_penalty, -2, 2));
  MILLRACE_TRY_VOID(check_range("frequency_penalty", params.frequency_penalty, -2, 2));
  MILLRACE_TRY_VOID(check_range("top_logprobs", params.top_logprobs, -1, kMostTopLogprobs));
  for (const auto& [token, bias] : params.logit_bias) {
    if (token < 0 || token >= vocab_size)
      return error(Code::invalid_argument, "logit_bias names token {}, the vocabulary has {}", token, vocab_size);
    MILLRACE_TRY_VOID(check_range("logit_bias", bias, -100, 100));
  }
  return {};
}

void TokenCounts::remove_generated(TokenId token) {
  const auto found = counts_.find(token);
  MILLRACE_CHECK(found != counts_.end() && found->second.generated > 0, "a token is removed that was not added");
  if (--found->second.generated == 0 && found->second.prompt == 0) counts_.erase(found);
}

}  // namespace millrace::sampling
