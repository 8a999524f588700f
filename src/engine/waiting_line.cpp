#include "engine/waiting_line.h"

#include <algorithm>
#include <string>

#include "base/check.h"
#include "sched/share.h"
#include "sched/policy.h"

namespace millrace::engine {

Result<void> WaitingLine::check(int tenant, int weight, int n, int prompt_tokens, Microseconds now) const {
  if (n > 1 && n > most_requests_)
    return error(Code::invalid_argument, "{} answers were asked for, at most {} requests may wait", n, most_requests_);
  const auto found = parts_.find(tenant);
  const Part mine = found == parts_.end() ? Part{} : found->second;
  const std::int64_t weights = std::int64_t{all_.weight} - mine.weight + weight;
  const std::int64_t request_share = sched::share_of(most_requests_, weight, weights), token_share = sched::share_of(most_tokens_, weight, weights);
  const bool fit = sched::may_wait(mine.requests, n, all_.requests, most_requests_, request_share);
  const bool tokens_fit = all_.requests == 0 || sched::may_wait(mine.tokens, prompt_tokens, all_.tokens, most_tokens_, token_share);
  if (fit && tokens_fit) return {};
  Error full = !fit ? error(Code::exhausted, "{} requests are waiting, at most {} may", all_.requests, most_requests_)
                    : error(Code::exhausted, "prompts of {} tokens are waiting, with these {} at most {} may", all_.tokens, prompt_tokens, most_tokens_);
  if (weights > weight)
    full.message += fmt::format("; {} of them are this tenant's, whose share is {}", !fit ? mine.requests : mine.tokens, !fit ? request_share : token_share);
  const std::int64_t requests = all_.requests + n - most_requests_, tokens = all_.tokens + prompt_tokens - most_tokens_;
  full.retry_after_us = sched::retry_after_us(std::max<std::int64_t>(requests, 0), std::clamp<std::int64_t>(tokens, 0, all_.tokens),
                                              pace_.us_per_request(now), pace_.us_per_token(now));
  return full;
}

void WaitingLine::join(int tenant, int weight, int n, int prompt_tokens, Microseconds now) {
  if (all_.requests == 0) pace_.begin(now);
  Part& mine = parts_[tenant];
  all_.weight += weight - mine.weight;
  mine.weight = weight;
  for (Part* part : {&mine, &all_}) part->requests += n, part->tokens += prompt_tokens;
}

void WaitingLine::leave(int tenant, int n, std::int64_t prompt_tokens, Microseconds now) {
  if (n == 0) return;
  const auto found = parts_.find(tenant);
  MILLRACE_CHECK(found != parts_.end() && found->second.requests >= n, "who leaves the line has joined it");
  for (Part* part : {&found->second, &all_}) part->requests -= n, part->tokens -= prompt_tokens;
  if (found->second.requests == 0) {
    all_.weight -= found->second.weight;
    parts_.erase(found);
  }
  pace_.move(n, prompt_tokens, now);
}

}  // namespace millrace::engine
