#pragma once

// What is known of one HTTP request while it lives: for the log line at its end, the live list, and the counters. Told by who
// handles the request; knows nothing of how. Any thread, each call once unless said otherwise.

#include <memory>
#include <string>

#include "engine/engine.h"
#include "server/tenant.h"

namespace millrace::server {

class RequestRecord {
 public:
  virtual ~RequestRecord() = default;  // the last owner gone: ended

  virtual const std::string& id() const = 0;          // X-Request-Id of the client, or made here
  virtual const Tenant& tenant() const = 0;

  /// Found right, before it is submitted; `prompt_tokens` of all prompts, `answers` to all of them. What is refused after this was never started.
  virtual void read(int prompt_tokens, int answers, int max_tokens, bool stream) = 0;
  virtual void tokens(int count) = 0;                  // new ones, as often as they come
  virtual void answer_ended(engine::Finish finish, const engine::Usage& usage, const engine::CacheReport& cache) = 0;  // each answer
  virtual void refused(int status, const std::string& reason) = 0;  // a word: "queue_full", "rate_limit", "invalid", "too_long", ...
  virtual void sent(int status) = 0;                   // the answer is through, as far as the client took it
  virtual void client_gone() = 0;
};

}  // namespace millrace::server
