#pragma once

// How fast the line of waiting requests moves: what a refused client is told. Time is an argument.

#include <cstdint>

#include "base/clock.h"

namespace millrace::engine {

class LinePace {
 public:
  /// The line, empty until now, has a request.
  void begin(Microseconds now) { since_us_ = now; }

  /// That many requests with so many prompt tokens have left it.
  void move(int requests, std::int64_t tokens, Microseconds now) {
    passed_us_ += static_cast<double>(now - since_us_);
    requests_ += requests;
    tokens_ += static_cast<double>(tokens);
    since_us_ = now;
    if (requests_ < kRemembered) return;
    passed_us_ /= 2, requests_ /= 2, tokens_ /= 2;
  }

  /// A line that stands still grows slower by the moment.
  double us_per_request(Microseconds now) const { return passed(now) / requests_; }
  double us_per_token(Microseconds now) const { return passed(now) / tokens_; }

 private:
  double passed(Microseconds now) const { return passed_us_ + static_cast<double>(now - since_us_); }

  static constexpr double kRemembered = 32;  // requests

  // As if one request of 1,000 tokens had taken a second: outweighed as soon as some have left the line.
  double passed_us_ = 1e6, requests_ = 1, tokens_ = 1000;
  Microseconds since_us_ = 0;
};

}  // namespace millrace::engine
