#pragma once

// The line of requests that were submitted and have not started: how many, how long their prompts are, and whose. It is
// bounded, and when it is full its places are shared among the tenants in it by weight, so that whoever fills it keeps
// nobody else out. Time is an argument; who calls holds the lock.

#include <cstdint>
#include <unordered_map>

#include "base/clock.h"
#include "base/result.h"
#include "engine/line_pace.h"

namespace millrace::engine {

class WaitingLine {
 public:
  WaitingLine(int most_requests, std::int64_t most_tokens) : most_requests_(most_requests), most_tokens_(most_tokens) {}

  /// Whether `n` answers to one prompt may wait. Errors: invalid_argument (they never may), exhausted (retry_after_us says
  /// when the line will have moved on so far).
  Result<void> check(int tenant, int weight, int n, int prompt_tokens, Microseconds now) const;

  void join(int tenant, int weight, int n, int prompt_tokens, Microseconds now);
  void leave(int tenant, int n, std::int64_t prompt_tokens, Microseconds now);

  int requests() const { return all_.requests; }
  std::int64_t tokens() const { return all_.tokens; }

 private:
  struct Part {
    int requests = 0;
    std::int64_t tokens = 0;  // of their prompts
    int weight = 0;           // what the tenant said last
  };

  const int most_requests_;
  const std::int64_t most_tokens_;
  Part all_;
  std::unordered_map<int, Part> parts_;  // by tenant: those who have somebody in line
  LinePace pace_;
};

}  // namespace millrace::engine
