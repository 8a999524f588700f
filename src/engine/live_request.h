#pragma once

// One open request on the engine thread: turns drawn tokens into text and events, finds the end, keeps its times.
// Knows neither the scheduler nor the runner.

#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "engine/event_channel.h"
#include "engine/stop_matcher.h"

namespace millrace::engine {

/// Its time is up.
inline bool is_late(const Request& request, Microseconds submitted_us, Microseconds now) {
  return request.timeout_us > 0 && now - submitted_us >= request.timeout_us;
}

class LiveRequest {
 public:
  /// `tokenizer` outlives the request; `end_tokens` are those that it ends a text with.
  /// `answer`: which one to its prompt; names the stream it draws with.
  LiveRequest(Request request, std::shared_ptr<EventChannel> channel, const text::Tokenizer& tokenizer,
              std::span<const TokenId> end_tokens, Microseconds submitted_us, int answer = 0);

  const Request& request() const { return request_; }
  Microseconds submitted_us() const { return submitted_us_; }

  /// Prompt tokens that it brings to the line: the answers to one prompt bring them once.
  int queued_tokens() const { return answer_ == 0 ? event_.usage.prompt_tokens : 0; }
  std::vector<TokenId> take_prompt() { return std::move(request_.prompt); }
  bool cancelled() const { return channel_->cancelled(); }
  Usage& usage() { return event_.usage; }

  bool started() const { return started_us_ >= 0; }
  Microseconds started_us() const { return started_us_; }
  /// Its first slice runs from now on.
  void start(Microseconds now);

  /// Takes the prompt tokens cached and computed so far; returns what is new since the last call.
  struct Counted { int cached = 0; kv::MissCounts computed{}; };
  Counted count_prompt(int cached, const kv::MissCounts& computed);

  /// The prompt left what is known at `position`, with the token `own` where the nearest has `known`.
  void set_divergence(int position, TokenId own, TokenId known);

  /// From the token before the last one to that.
  Microseconds gap_us() const { return gap_us_; }

  bool late(Microseconds now) const { return is_late(request_, submitted_us_, now); }

  /// The token for `position`, from its row, which is overwritten. Any thread, while nobody changes the request. As
  /// sampling::sample().
  void draw(std::span<float> logits, int position, std::span<std::byte> scratch, sampling::Sampled& sampled) const;

  /// Adds a drawn token; the reason when the request ends with it.
  std::optional<Finish> add(sampling::Sampled sampled, Microseconds now);

  /// Hands over what add() made. False when the client has left too much unread.
  bool deliver();

  /// Completes the last event; `publish` hands it over. A stop string that only the very last characters complete makes
  /// it Finish::stop. Never fails: a text that cannot be completed makes it Finish::error. Returns the reason the client
  /// sees.
  Finish finish(Finish reason, std::optional<Error> error = std::nullopt);
  void publish();

 private:
  StopMatcher::Match match() const;
  bool ends(TokenId token);
  void tell() const noexcept;

  Request request_;
  std::shared_ptr<EventChannel> channel_;
  int answer_;
  const text::Tokenizer* tokenizer_;
  text::Detokenizer detokenizer_;
  StopMatcher stops_;
  sampling::TokenCounts counts_;  // filled only when a penalty reads it
  bool penalised_ = false;
  std::vector<TokenId> barred_;  // until there are min_tokens
  Event event_;  // the next one; its usage and cache grow from the first to the last
  Microseconds submitted_us_, started_us_ = -1, first_token_us_ = -1, last_token_us_ = -1, gap_us_ = 0;
};

}  // namespace millrace::engine
