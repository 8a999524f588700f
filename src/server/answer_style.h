#pragma once

// What a request wants to be told, and who tells it: all that a writer knows beside what the generation brings.

#include <cstdint>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "server/field_table.h"
#include "server/request_context.h"
#include "text/tokenizer.h"

namespace millrace::server {

struct AnswerStyle {
  std::string id;            // "chatcmpl-..." or "cmpl-..."
  std::int64_t created_s = 0;
  std::string model, fingerprint;
  const text::Tokenizer* tokenizer = nullptr;
  int answers = 1;             // over all prompts
  int top_logprobs = -1;       // -1: no log-probabilities
  bool include_usage = false;  // in a stream
  bool timings = false;
  std::vector<std::string> stop;  // Request::stop
};

/// Reads stream_options and timings; the caller knows how its API asks for log-probabilities. Errors: stream_options without stream.
Result<AnswerStyle> read_answer_style(const Fields& fields, const char* id_prefix, const RequestContext& context);

}  // namespace millrace::server
