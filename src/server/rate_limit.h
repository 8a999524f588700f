#pragma once

// How much each tenant may ask for in a minute: requests, and tokens of prompts and answers. A bucket holds a minute's worth
// and fills steadily; time is an argument. A refusal says when to come again. Knows no key and no engine.

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "server/api_error.h"
#include "server/http.h"
#include "server/tenant.h"

namespace millrace::server {

/// What is left of `per_minute`. Single-threaded.
class MinuteBucket {
 public:
  MinuteBucket(std::int64_t per_minute, Microseconds now) : per_minute_(per_minute), level_(per_minute * kUnit), at_(now) {}

  /// How long until `n` may be taken; 0: now. More than a minute's worth waits for the full bucket, and leaves a debt.
  Microseconds wait_for(std::int64_t n, Microseconds now) const;

  /// Takes them, whatever is there: what has been generated cannot be refused any more.
  void take(std::int64_t n, Microseconds now);

  /// Whole ones, 0 in debt.
  std::int64_t left(Microseconds now) const;

  Microseconds until_full(Microseconds now) const { return wait_for(per_minute_, now); }

  std::int64_t per_minute() const { return per_minute_; }
  void set_per_minute(std::int64_t per_minute, Microseconds now);

 private:
  static constexpr std::int64_t kUnit = 60'000'000;  // of one: a microsecond adds `per_minute` of these
  std::int64_t level_at(Microseconds now) const;

  std::int64_t per_minute_;
  std::int64_t level_;  // in 1 / kUnit; below 0: debt
  Microseconds at_;     // when that was so
};

/// The limits of all tenants, from their first request on. Any thread.
class RateLimits {
 public:
  struct Decision {
    std::vector<Header> headers;      // x-ratelimit-*, as OpenAI's; none without a limit
    std::optional<ApiError> refusal;  // 429
  };

  /// A request has come; it is charged unless refused. Who is in debt with tokens is refused before anybody reads the body.
  Decision request(const Tenant& tenant, Microseconds now);

  /// Its prompt was read and is charged, unless refused.
  std::optional<ApiError> prompt(const Tenant& tenant, std::int64_t tokens, Microseconds now);

  /// So many more tokens were generated.
  void completion(const Tenant& tenant, std::int64_t tokens, Microseconds now);

 private:
  struct Buckets {
    std::optional<MinuteBucket> requests, tokens;
  };
  Buckets& buckets_of(const Tenant& tenant, Microseconds now);

  std::mutex mutex_;
  std::map<int, Buckets> by_tenant_;
};

/// "20ms", "1s", "1m30.951s": rounded up.
std::string duration_text(Microseconds us);

}  // namespace millrace::server
