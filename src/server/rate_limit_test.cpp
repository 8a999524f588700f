#include "server/rate_limit.h"

#include <gtest/gtest.h>

#include <random>
#include <thread>

namespace millrace::server {
namespace {

constexpr Microseconds kSecond = 1'000'000;

TEST(MinuteBucket, a_minutes_worth_at_once_and_then_steadily) {
  MinuteBucket bucket(60, 0);
  EXPECT_EQ(bucket.left(0), 60);
  for (int i = 0; i < 60; ++i) {
    EXPECT_EQ(bucket.wait_for(1, 0), 0);
    bucket.take(1, 0);
  }
  EXPECT_EQ(bucket.wait_for(1, 0), kSecond);
  EXPECT_EQ(bucket.wait_for(1, kSecond / 2), kSecond / 2);
  EXPECT_EQ(bucket.wait_for(1, kSecond), 0);
  EXPECT_EQ(bucket.left(10 * kSecond), 10);
  EXPECT_EQ(bucket.until_full(10 * kSecond), 50 * kSecond);
  EXPECT_EQ(bucket.left(1000 * kSecond), 60) << "never more than a minute's worth";
}

TEST(MinuteBucket, a_debt_is_paid_before_anything_is_admitted) {
  MinuteBucket bucket(60, 0);
  bucket.take(180, 0);
  EXPECT_EQ(bucket.left(0), 0);
  EXPECT_EQ(bucket.wait_for(1, 0), 121 * kSecond);
  EXPECT_EQ(bucket.wait_for(1, 121 * kSecond), 0);
}

TEST(MinuteBucket, more_than_a_minutes_worth_is_admitted_alone) {
  MinuteBucket bucket(60, 0);
  EXPECT_EQ(bucket.wait_for(600, 0), 0);
  bucket.take(1, 0);
  EXPECT_EQ(bucket.wait_for(600, 0), kSecond);
}

TEST(MinuteBucket, a_new_limit_holds_from_now_on) {
  MinuteBucket bucket(60, 0);
  bucket.set_per_minute(6, 0);
  EXPECT_EQ(bucket.left(0), 6);
  bucket.set_per_minute(600, 0);
  EXPECT_EQ(bucket.left(0), 6) << "nothing is given for nothing";
  EXPECT_EQ(bucket.left(kSecond), 16);
}

TEST(MinuteBucket, time_that_seems_to_go_back_and_the_largest_limit_do_no_harm) {
  MinuteBucket bucket(1'000'000'000, 100 * kSecond);
  bucket.take(1'000'000'000, 100 * kSecond);
  EXPECT_EQ(bucket.left(0), 0);
  EXPECT_EQ(bucket.left(101 * kSecond), 16'666'666);
  EXPECT_EQ(bucket.left(std::int64_t{1} << 60), 1'000'000'000);
}

TEST(MinuteBucket, whoever_waits_as_long_as_told_is_admitted_and_not_before) {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    const std::int64_t limit = 1 + random() % 1000;
    MinuteBucket bucket(limit, 0);
    bucket.take(random() % 2000, 0);
    const std::int64_t wanted = 1 + random() % 1200;
    const Microseconds wait = bucket.wait_for(wanted, 0);
    ASSERT_EQ(bucket.wait_for(wanted, wait), 0) << round;
    ASSERT_TRUE(wait == 0 || bucket.wait_for(wanted, wait - 1) > 0) << round;
  }
}

std::string header_of(const RateLimits::Decision& decision, const std::string& name) {
  for (const Header& one : decision.headers)
    if (one.name == name) return one.value;
  return "";
}

TEST(RateLimits, without_a_limit_nothing_is_refused_and_nothing_said) {
  RateLimits limits;
  for (int i = 0; i < 1000; ++i) {
    const auto decision = limits.request({}, 0);
    ASSERT_FALSE(decision.refusal);
    ASSERT_TRUE(decision.headers.empty());
    ASSERT_FALSE(limits.prompt({}, 1'000'000, 0));
    limits.completion({}, 1'000'000, 0);
  }
}

TEST(RateLimits, a_request_too_many_is_told_when_to_come_again) {
  RateLimits limits;
  const Tenant tenant{.name = "a", .id = 1, .requests_per_minute = 2};
  const Tenant other{.name = "b", .id = 2, .requests_per_minute = 2};
  const auto first = limits.request(tenant, 0);
  EXPECT_FALSE(first.refusal);
  EXPECT_EQ(header_of(first, "x-ratelimit-limit-requests"), "2");
  EXPECT_EQ(header_of(first, "x-ratelimit-remaining-requests"), "1");
  EXPECT_EQ(header_of(first, "x-ratelimit-reset-requests"), "30s");
  EXPECT_EQ(header_of(first, "x-ratelimit-limit-tokens"), "");
  EXPECT_FALSE(limits.request(tenant, 0).refusal);
  const auto third = limits.request(tenant, 0);
  ASSERT_TRUE(third.refusal);
  EXPECT_EQ(third.refusal->status, 429);
  EXPECT_EQ(third.refusal->code, "rate_limit_exceeded");
  EXPECT_EQ(third.refusal->message, "requests per minute: tenant 'a' may make 2, the next one in 30s");
  EXPECT_EQ(third.refusal->retry_after_us, 30 * kSecond);
  EXPECT_EQ(header_of(third, "x-ratelimit-remaining-requests"), "0");
  EXPECT_FALSE(limits.request(other, 0).refusal) << "a tenant's limit is its own";
  EXPECT_FALSE(limits.request(tenant, 30 * kSecond).refusal);
}

TEST(RateLimits, tokens_of_prompts_and_of_answers_count) {
  RateLimits limits;
  const Tenant tenant{.name = "a", .id = 1, .tokens_per_minute = 600};
  EXPECT_FALSE(limits.request(tenant, 0).refusal);
  EXPECT_FALSE(limits.prompt(tenant, 500, 0));
  const auto refusal = limits.prompt(tenant, 200, 0);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->message, "tokens per minute: tenant 'a' may use 600 and has 100 left, a prompt of 200 tokens is admitted in 10s");
  EXPECT_EQ(refusal->retry_after_us, 10 * kSecond);
  EXPECT_EQ(header_of(limits.request(tenant, 0), "x-ratelimit-remaining-tokens"), "100") << "a refused prompt costs nothing";
  limits.completion(tenant, 150, 0);
  const auto in_debt = limits.request(tenant, 0);
  ASSERT_TRUE(in_debt.refusal);
  EXPECT_EQ(in_debt.refusal->message, "tokens per minute: tenant 'a' may use 600 and has used them, the next one in 5.1s");
  EXPECT_EQ(header_of(in_debt, "x-ratelimit-remaining-tokens"), "0");
  EXPECT_EQ(header_of(in_debt, "x-ratelimit-reset-tokens"), "1m5s");
}

TEST(RateLimits, limits_that_are_read_again_hold_for_the_next_request) {
  RateLimits limits;
  Tenant tenant{.name = "a", .id = 1, .requests_per_minute = 1};
  EXPECT_FALSE(limits.request(tenant, 0).refusal);
  EXPECT_TRUE(limits.request(tenant, 0).refusal);
  tenant.requests_per_minute = 0;
  EXPECT_FALSE(limits.request(tenant, 0).refusal);
  tenant.requests_per_minute = 60;
  EXPECT_TRUE(limits.request(tenant, 0).refusal) << "what was used stays used";
  EXPECT_FALSE(limits.request(tenant, kSecond).refusal);
}

TEST(RateLimits, many_threads_get_no_more_than_the_limit) {
  RateLimits limits;
  const Tenant tenant{.name = "a", .id = 1, .requests_per_minute = 100};
  std::atomic<int> admitted = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) admitted += limits.request(tenant, 0).refusal ? 0 : 1;
    });
  for (std::thread& one : threads) one.join();
  EXPECT_EQ(admitted, 100);
}

TEST(DurationText, is_as_openai_writes_it) {
  EXPECT_EQ(duration_text(0), "0ms");
  EXPECT_EQ(duration_text(1), "1ms");
  EXPECT_EQ(duration_text(20'000), "20ms");
  EXPECT_EQ(duration_text(kSecond), "1s");
  EXPECT_EQ(duration_text(8'640'000), "8.64s");
  EXPECT_EQ(duration_text(360 * kSecond), "6m0s");
  EXPECT_EQ(duration_text(90'951'000), "1m30.951s");
}

}  // namespace
}  // namespace millrace::server
