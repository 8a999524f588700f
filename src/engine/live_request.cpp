#include "engine/live_request.h"

#include <algorithm>
#include <exception>
#include <limits>

namespace millrace::engine {

LiveRequest::LiveRequest(Request request, std::shared_ptr<EventChannel> channel, const text::Tokenizer& tokenizer,
                         std::span<const TokenId> end_tokens, Microseconds submitted_us, int answer)
    : request_(std::move(request)),
      channel_(std::move(channel)),
      answer_(answer),
      tokenizer_(&tokenizer),
      detokenizer_(tokenizer, /*continues=*/true, request_.keep_special),
      stops_(request_.stop, request_.include_stop ? StopMatcher::Ends::after_match : StopMatcher::Ends::before_match),
      submitted_us_(submitted_us) {
  usage_.prompt_tokens = static_cast<int>(request_.prompt.size());
  const sampling::Params& params = request_.sampling;
  penalised_ = params.repetition_penalty != 1 || params.presence_penalty != 0 || params.frequency_penalty != 0;
  if (penalised_)
    for (const TokenId token : request_.prompt) counts_.add_prompt(token);
  if (request_.min_tokens == 0) return;
  barred_ = request_.stop_token_ids;
  if (!request_.ignore_eos) barred_.insert(barred_.end(), end_tokens.begin(), end_tokens.end());
}

void LiveRequest::start(Microseconds now) {
  started_us_ = now;
  usage_.queue_us = now - submitted_us_;
}

LiveRequest::Counted LiveRequest::count_prompt(int cached, const kv::MissCounts& computed) {
  Counted added{cached - std::exchange(cache_.cached, cached), computed};
  for (std::size_t c = 0; c < computed.size(); ++c) added.computed[c] -= cache_.computed[c];
  cache_.computed = computed;
  usage_.cached_tokens = cached;
  return added;
}

void LiveRequest::set_divergence(int position, TokenId own, TokenId known) {
  try {
    cache_.own = tokenizer_->piece(own);
    cache_.known = tokenizer_->piece(known);
    cache_.diverged_at = position;
  } catch (const std::exception&) {
    cache_.own.clear();  // a report that cannot be spelled is no reason for an answer to fail
  }
}

void LiveRequest::draw(std::span<float> logits, int position, std::span<std::byte> scratch, sampling::Sampled& sampled) const {
  const sampling::DrawKey key{request_.sampling.seed, static_cast<std::uint64_t>(answer_), static_cast<std::uint64_t>(position)};
  if (usage_.completion_tokens < request_.min_tokens)
    for (const TokenId token : barred_) logits[static_cast<std::size_t>(token)] = -std::numeric_limits<float>::infinity();
  sampling::sample(logits, {}, counts_, request_.sampling, key, scratch, sampled);
}

std::optional<Finish> LiveRequest::add(sampling::Sampled sampled, Microseconds now) {
  if (usage_.completion_tokens++ == 0) {
    first_token_us_ = now;
    usage_.ttft_us = now - submitted_us_;
    usage_.prefill_us = now - started_us_;
    last_token_us_ = now;
  }
  gap_us_ = now - std::exchange(last_token_us_, now);
  usage_.gap_max_us = std::max(usage_.gap_max_us, gap_us_);
  usage_.decode_us = now - first_token_us_;
  if (penalised_) counts_.add_generated(sampled.token);
  event_.tokens.push_back({sampled.token, now - submitted_us_, sampled.logprob, std::move(sampled.top)});
  // A barred token comes all the same where every token is one.
  const auto match = usage_.completion_tokens <= request_.min_tokens ? StopMatcher::Match::ignored : StopMatcher::Match::counts;
  const bool last = match == StopMatcher::Match::counts && ends(sampled.token);
  if (!last || request_.include_stop) event_.text += stops_.push(detokenizer_.push(sampled.token), last ? StopMatcher::Match::ignored : match);
  if (last || stops_.matched()) return Finish::stop;
  if (usage_.completion_tokens == request_.max_new_tokens) return Finish::length;
  return std::nullopt;
}

/// Says why in the event.
bool LiveRequest::ends(TokenId token) {
  if (!request_.ignore_eos && tokenizer_->ends_generation(token)) return true;
  if (std::ranges::find(request_.stop_token_ids, token) == request_.stop_token_ids.end()) return false;
  event_.stop_reason = StopToken{token};
  return true;
}

bool LiveRequest::deliver() {
  event_.usage = usage_;
  const auto [unread, first] = channel_->push(event_);
  if (first) tell();
  return unread <= static_cast<std::size_t>(request_.max_unread_tokens);
}

Finish LiveRequest::finish(Finish reason, std::optional<Error> error) {
  try {
    if (!stops_.matched()) {
      const bool early = usage_.completion_tokens <= request_.min_tokens;
      event_.text += stops_.push(detokenizer_.finish(), early ? StopMatcher::Match::ignored : StopMatcher::Match::counts);
      if (stops_.matched() && reason == Finish::length) reason = Finish::stop;
      if (!stops_.matched()) event_.text += stops_.finish();
    }
    if (stops_.matched()) event_.stop_reason = StopString{stops_.match()};
  } catch (const std::exception& failure) {
    if (reason != Finish::error) error = millrace::error(Code::exhausted, "the last characters could not be made: {}", failure.what());
    reason = Finish::error;
  }
  if (reason != Finish::stop) event_.stop_reason = {};
  event_.finished = reason;
  event_.error = std::move(error);
  event_.usage = usage_;
  event_.cache = cache_;
  return reason;
}

void LiveRequest::publish() {
  channel_->push(event_);
  tell();
}

void LiveRequest::tell() const noexcept {
  if (request_.on_event) request_.on_event(answer_);
}

}  // namespace millrace::engine
