#pragma once

// How one API says what a generation brings. generation.h feeds it with the same calls whether the client streams or not, so
// both say the same. Writers are strings in, strings out: no sockets, no engine.

#include <span>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "server/api_error.h"
#include "server/http.h"

namespace millrace::server {

/// What is new of one answer: whole characters, and the tokens behind them.
struct Piece {
  std::string text;
  std::vector<engine::TokenEvent> tokens;
};

/// How one answer ended.
struct Ending {
  engine::Finish finish = engine::Finish::error;
  engine::StopReason stopped_by;  // with Finish::stop: the stop string, the token, or neither
  engine::Usage usage;
  engine::CacheReport cache;
};

/// One answer as a whole: its pieces joined, and its ending.
struct Answer {
  std::string text;
  std::vector<engine::TokenEvent> tokens;
  Ending ending;
};

/// Over all answers; a prompt counts once however many answers it has.
struct Totals {
  int prompt_tokens = 0, cached_tokens = 0, completion_tokens = 0, reasoning_tokens = 0;
};

class AnswerWriter {
 public:
  virtual ~AnswerWriter() = default;

  // A stream: each returns server-sent events, ready to be sent, or "". `index` counts answers over all prompts:
  // prompt p, answer i is p * n + i.
  virtual std::string begin() = 0;
  virtual std::string piece(int index, const Piece& piece) = 0;
  virtual std::string end(int index, const Ending& ending) = 0;
  virtual std::string close(const Totals& totals) = 0;
  virtual std::string failure(const ApiError& error) = 0;  // in the middle of a stream; nothing follows
  /// Of the prompt of answer `index` so many tokens are through, `cached` of them found; with return_progress.
  struct Progress { int done = 0, cached = 0, total = 0; };
  virtual std::string progress(int /*index*/, const Progress& /*progress*/) { return ""; }

  /// Not streamed: the body of a 200.
  virtual std::string whole(std::span<const Answer> answers, const Totals& totals) = 0;

  virtual Dialect dialect() const { return Dialect::openai; }
};

}  // namespace millrace::server
