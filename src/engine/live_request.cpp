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
  event_.usage.prompt_tokens = static_cast<int>(request_.prompt.size());
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
  event_.usage.queue_us = now - submitted_us_;
}

LiveRequest::Counted LiveRequest::count_prompt(int cached, const kv::MissCounts& computed) {
  Counted added{cached - std::exchange(event_.cache.cached, cached), computed};
  for (std::size_t c = 0; c < computed.size(); ++c) added.computed[c] -= event_.cache.computed[c];
  event_.cache.computed = computed;
  event_.usage.cached_tokens = cached;
  return added;
}

void LiveRequest::set_divergence(int position, TokenId own, TokenId known) {
  try {
    event_.cache.own = tokenizer_->piece(own);
    event_.cache.known = tokenizer_->piece(known);
    event_.cache.diverged_at = position;
  } catch (const std::exception&) {
    event_.cache.own.clear();  // a report that cannot be spelled is no reason for an answer to fail
  }
}

void LiveRequest::draw(std::span<float> logits, int position, std::span<std::byte> scratch, sampling::Sampled& sampled) const {
  const sampling::DrawKey key{request_.sampling.seed, static_cast<std::uint64_t>(answer_), static_cast<std::uint64_t>(position)};
  if (event_.usage.completion_tokens < request_.min_tokens)
    for (const TokenId token : barred_) logits[static_cast<std::size_t>(token)] = -std::numeric_limits<float>::infinity();
  sampling::sample(logits, {}, counts_, request_.sampling, key, scratch, sampled);
}

std::optional<Finish> LiveRequest::add(sampling::Sampled sampled, Microseconds now) {
  Usage& usage = event_.usage;
  if (usage.completion_tokens++ == 0) {
    first_token_us_ = now;
    usage.ttft_us = now - submitted_us_;
    usage.prefill_us = now - started_us_;
    last_token_us_ = now;
  }
  gap_us_ = now - std::exchange(last_token_us_, now);
  usage.gap_max_us = std::max(usage.gap_max_us, gap_us_);
  usage.decode_us = now - first_token_us_;
  if (penalised_) counts_.add_generated(sampled.token);
  event_.tokens.push_back({sampled.token, now - submitted_us_, sampled.logprob, std::move(sampled.top)});
  const bool last = match() == StopMatcher::Match::counts && ends(sampled.token);
  if (!last || request_.include_stop) event_.text += stops_.push(detokenizer_.push(sampled.token), last ? StopMatcher::Match::ignored : match());
  if (last || stops_.matched()) return Finish::stop;
  if (usage.completion_tokens == request_.max_new_tokens) return Finish::length;
  return std::nullopt;
}

/// What an end of the text at the newest token is. A barred token comes all the same where every token is one.
StopMatcher::Match LiveRequest::match() const {
  return event_.usage.completion_tokens <= request_.min_tokens ? StopMatcher::Match::ignored : StopMatcher::Match::counts;
}

/// Says why in the event.
bool LiveRequest::ends(TokenId token) {
  if (!request_.ignore_eos && tokenizer_->ends_generation(token)) return true;
  if (std::ranges::find(request_.stop_token_ids, token) == request_.stop_token_ids.end()) return false;
  event_.stop_reason = StopToken{token};
  return true;
}

bool LiveRequest::deliver() {
  const auto [unread, first] = channel_->push(event_);
  if (first) tell();
  return unread <= static_cast<std::size_t>(request_.max_unread_tokens);
}

Finish LiveRequest::finish(Finish reason, std::optional<Error> error) {
  try {
    if (!stops_.matched()) {
      event_.text += stops_.push(detokenizer_.finish(), match());
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
