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
  /// `tokenizer` outlives the request.
  LiveRequest(Request request, std::shared_ptr<EventChannel> channel, const text::Tokenizer& tokenizer,
              Microseconds submitted_us);

  const Request& request() const { return request_; }
  std::vector<TokenId> take_prompt() { return std::move(request_.prompt); }
  bool cancelled() const { return channel_->cancelled(); }
  Usage& usage() { return usage_; }

  bool started() const { return started_us_ >= 0; }
  /// Its first slice runs from now on.
  void start(Microseconds now);

  /// Takes the prompt tokens computed and cached so far; returns what is new since the last call.
  std::pair<int, int> count_prompt(int computed, int cached);

  bool late(Microseconds now) const { return is_late(request_, submitted_us_, now); }

  /// The token for `position`, from its row, which is overwritten. Any thread, while nobody changes the request.
  sampling::Sampled draw(std::span<float> logits, int position) const;

  /// Adds a drawn token; the reason when the request ends with it.
  std::optional<Finish> add(sampling::Sampled sampled, Microseconds now);

  /// Hands over what add() made. False when the client has left too much unread.
  bool deliver();

  /// Completes the last event; `publish` hands it over. A stop string that only the very last characters complete makes
  /// it Finish::stop. Returns the reason the client sees.
  Finish finish(Finish reason, std::optional<Error> error = std::nullopt);
  void publish();

 private:
  bool ends(TokenId token) const;

  Request request_;
  std::shared_ptr<EventChannel> channel_;
  const text::Tokenizer* tokenizer_;
  text::Detokenizer detokenizer_;
  StopMatcher stops_;
  sampling::TokenCounts counts_;  // filled only when a penalty reads it
  bool penalised_ = false;
  Event event_;
  Usage usage_;
  int computed_tokens_ = 0;  // of the prompt
  Microseconds submitted_us_, started_us_ = -1, first_token_us_ = -1;
};

}  // namespace millrace::engine
