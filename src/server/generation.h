#pragma once

// Runs one request's answers: hands its prompts to the engine, and what comes back to a writer. Lives on the exchange's
// connection thread; the engine only posts there. A client that goes away cancels all of it.

#include <functional>
#include <memory>
#include <vector>

#include "engine/engine.h"
#include "server/answer_writer.h"
#include "server/http.h"
#include "server/request_record.h"

namespace millrace::server {

/// A request that was read and found right; nothing has been started.
struct GenerationPlan {
  std::vector<engine::Request> prompts;  // not empty; each has `answers` answers
  int answers = 1;
  bool stream = false;
  std::unique_ptr<AnswerWriter> writer;
  /// Called once, when all answers have ended well (not on failure, not when the client is gone), before the writer's whole() or close(): a store of responses.
  std::function<void(std::span<const Answer>, const Totals&)> on_complete;
};

/// Any thread. Submits, and answers the exchange: errors of the engine before the first event are whole responses (400, 429, 503), later ones an
/// event of the stream or, not streamed, a response. Tells `record` what it reads, its tokens, endings and refusals; what was sent, and that the client
/// is gone, is the exchange's to tell.
void start_generation(engine::Engine& engine, GenerationPlan plan, ExchangePtr exchange, std::shared_ptr<RequestRecord> record);

}  // namespace millrace::server
