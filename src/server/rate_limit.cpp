#include "server/rate_limit.h"

#include <fmt/core.h>

#include <algorithm>

namespace millrace::server {
namespace {

ApiError refusal(std::string message, Microseconds wait) {
  ApiError error;
  error.status = 429;
  error.message = std::move(message);
  error.code = "rate_limit_exceeded";
  error.retry_after_us = wait;
  return error;
}

void add_headers(std::vector<Header>& headers, const char* what, const std::optional<MinuteBucket>& bucket, Microseconds now) {
  if (!bucket) return;
  headers.push_back({fmt::format("x-ratelimit-limit-{}", what), std::to_string(bucket->per_minute())});
  headers.push_back({fmt::format("x-ratelimit-remaining-{}", what), std::to_string(bucket->left(now))});
  headers.push_back({fmt::format("x-ratelimit-reset-{}", what), duration_text(bucket->until_full(now))});
}

void follow(std::optional<MinuteBucket>& bucket, std::int64_t per_minute, Microseconds now) {
  if (per_minute <= 0) bucket.reset();
  else if (!bucket) bucket.emplace(per_minute, now);
  else bucket->set_per_minute(per_minute, now);
}

}  // namespace

std::int64_t MinuteBucket::level_at(Microseconds now) const {
  const std::int64_t full = per_minute_ * kUnit;
  const Microseconds passed = std::max<Microseconds>(now - at_, 0);
  // Both sides are below 2^63: a limit has at most 10 digits, and the bucket is full long before the product overflows.
  if (passed >= (full - level_) / per_minute_ + 1) return full;
  return std::min(level_ + passed * per_minute_, full);
}

Microseconds MinuteBucket::wait_for(std::int64_t n, Microseconds now) const {
  const std::int64_t missing = std::min(n, per_minute_) * kUnit - level_at(now);
  return missing <= 0 ? 0 : (missing + per_minute_ - 1) / per_minute_;
}

void MinuteBucket::take(std::int64_t n, Microseconds now) {
  level_ = level_at(now) - n * kUnit;
  at_ = std::max(at_, now);
}

std::int64_t MinuteBucket::left(Microseconds now) const { return std::max<std::int64_t>(level_at(now), 0) / kUnit; }

void MinuteBucket::set_per_minute(std::int64_t per_minute, Microseconds now) {
  if (per_minute == per_minute_) return;
  level_ = std::min(level_at(now), per_minute * kUnit);
  at_ = std::max(at_, now);
  per_minute_ = per_minute;
}

RateLimits::Buckets& RateLimits::buckets_of(const Tenant& tenant, Microseconds now) {
  Buckets& buckets = by_tenant_[tenant.id];
  follow(buckets.requests, tenant.requests_per_minute, now);
  follow(buckets.tokens, tenant.tokens_per_minute, now);
  return buckets;
}

RateLimits::Decision RateLimits::request(const Tenant& tenant, Microseconds now) {
  Decision decision;
  if (tenant.requests_per_minute <= 0 && tenant.tokens_per_minute <= 0) return decision;
  const std::lock_guard lock(mutex_);
  Buckets& buckets = buckets_of(tenant, now);
  const Microseconds wait_requests = buckets.requests ? buckets.requests->wait_for(1, now) : 0;
  const Microseconds wait_tokens = buckets.tokens ? buckets.tokens->wait_for(1, now) : 0;
  if (wait_requests > 0) {
    decision.refusal = refusal(fmt::format("requests per minute: tenant '{}' may make {}, the next one in {}", tenant.name, tenant.requests_per_minute,
                                           duration_text(wait_requests)),
                               std::max(wait_requests, wait_tokens));
  } else if (wait_tokens > 0) {
    decision.refusal = refusal(fmt::format("tokens per minute: tenant '{}' may use {} and has used them, the next one in {}", tenant.name,
                                           tenant.tokens_per_minute, duration_text(wait_tokens)),
                               wait_tokens);
  } else if (buckets.requests) {
    buckets.requests->take(1, now);
  }
  add_headers(decision.headers, "requests", buckets.requests, now);
  add_headers(decision.headers, "tokens", buckets.tokens, now);
  return decision;
}

std::optional<ApiError> RateLimits::prompt(const Tenant& tenant, std::int64_t tokens, Microseconds now) {
  if (tenant.tokens_per_minute <= 0) return std::nullopt;
  const std::lock_guard lock(mutex_);
  MinuteBucket& bucket = *buckets_of(tenant, now).tokens;
  if (const Microseconds wait = bucket.wait_for(tokens, now); wait > 0)
    return refusal(fmt::format("tokens per minute: tenant '{}' may use {} and has {} left, a prompt of {} tokens is admitted in {}", tenant.name,
                               tenant.tokens_per_minute, bucket.left(now), tokens, duration_text(wait)),
                   wait);
  bucket.take(tokens, now);
  return std::nullopt;
}

void RateLimits::completion(const Tenant& tenant, std::int64_t tokens, Microseconds now) {
  if (tenant.tokens_per_minute <= 0) return;
  const std::lock_guard lock(mutex_);
  buckets_of(tenant, now).tokens->take(tokens, now);
}

std::string duration_text(Microseconds us) {
  const std::int64_t all_ms = (std::max<Microseconds>(us, 0) + 999) / 1000;
  if (all_ms < 1000) return fmt::format("{}ms", all_ms);
  const std::int64_t minutes = all_ms / 60'000, seconds = all_ms / 1000 % 60, ms = all_ms % 1000;
  std::string out = minutes > 0 ? fmt::format("{}m{}", minutes, seconds) : fmt::format("{}", seconds);
  if (ms > 0) {
    out += fmt::format(".{:03}", ms);
    out.resize(out.find_last_not_of('0') + 1);
  }
  return out + 's';
}

}  // namespace millrace::server
