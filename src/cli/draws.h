#pragma once

// Random numbers of loads and traces. Not the library's distributions: their numbers differ between libraries, and a load
// has to be the same everywhere for the same seed.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <random>

namespace millrace::cli {

class Draws {
 public:
  explicit Draws(unsigned seed) : random_(seed) {}

  std::size_t below(unsigned n) { return random_() % n; }

  /// Between two events of a Poisson process.
  double gap(double mean) { return -std::log(unit()) * mean; }

  /// Long-tailed: the logarithm is normal around that of `median`.
  int length(double median, double spread, int least, int most) {
    const double bell = std::sqrt(-2 * std::log(unit())) * std::cos(2 * std::numbers::pi * unit());
    return static_cast<int>(std::clamp(median * std::exp(spread * bell), double{1} * least, double{1} * most));
  }

 private:
  double unit() { return (static_cast<double>(random_()) + 0.5) / 4294967296.0; }
  std::mt19937 random_;
};

}  // namespace millrace::cli
