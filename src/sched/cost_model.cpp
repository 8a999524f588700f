#include "sched/cost_model.h"

#include <algorithm>

#include "base/check.h"

namespace millrace::sched {
namespace {

// A memory of 1 / (1 - 0.95) = 20 steps: one second at 50 ms. While young, what was seen first is likely a cold machine.
constexpr int kYoung = 8;
constexpr double kRemembers = 0.95, kRemembersYoung = 0.6;
constexpr double kMostSurprise = 2, kMostSurpriseYoung = 4;

constexpr double kLargestFades = 0.95;

// How strongly the proportions that were there first hold, in steps: they decide only what no step has told apart.
constexpr double kPrior = 0.05;
constexpr int kSweeps = 24;

}  // namespace

CostModel::Vector CostModel::features(const StepWork& work) {
  return {1, static_cast<double>(work.tokens), static_cast<double>(work.rows), static_cast<double>(work.attended)};
}

double CostModel::step_us(const StepWork& work) const {
  const Vector x = features(work);
  double us = 0;
  for (std::size_t i = 0; i < kFeatures; ++i) us += x[i] * unit_us_[i] * shares_[i];
  return us;
}

double CostModel::more_us(int first, int count) const {
  return count * unit_us_[1] * shares_[1] + static_cast<double>(attended_by(first, count)) * unit_us_[3] * shares_[3];
}

int CostModel::tokens_within(double us, int first, int most) const {
  most = std::min(most, std::max(static_cast<int>(2 * largest_), 1));
  int fit = 0, beyond = most + 1;
  while (beyond - fit > 1) {
    const int middle = fit + (beyond - fit) / 2;
    (more_us(first, middle) <= us ? fit : beyond) = middle;
  }
  return fit;
}

void CostModel::observe(const StepWork& work, double us) {
  MILLRACE_CHECK(us > 0 && work.tokens > 0, "a step has tokens and takes time");
  if (n_observed() == 0) {
    const double scale = us / step_us(work);
    for (double& unit : unit_us_) unit *= scale;
  }
  Memory& memory = work.prompt_tokens > 0 ? prompts_ : decodes_;
  if (work.prompt_tokens > 0) largest_ = std::max(static_cast<double>(work.tokens), kLargestFades * largest_);
  const bool young = memory.n_observed++ < kYoung;
  const double expected = std::max(step_us(work), 1.0), surprise = young ? kMostSurpriseYoung : kMostSurprise;
  // Relative to what was expected: a step of 10 ms says as much as one of 100 ms.
  const double answer = std::clamp(us / expected, 1 / surprise, surprise);
  Vector x = features(work);
  for (std::size_t i = 0; i < kFeatures; ++i) x[i] *= unit_us_[i] / expected;

  const double keep = young ? kRemembersYoung : kRemembers;
  for (std::size_t i = 0; i < kFeatures; ++i) {
    for (std::size_t j = 0; j < kFeatures; ++j) memory.products[i][j] = keep * memory.products[i][j] + x[i] * x[j];
    memory.answers[i] = keep * memory.answers[i] + x[i] * answer;
  }
  solve();
}

/// Least squares over what both memories hold, no share below zero: each in turn takes its best value given the others.
void CostModel::solve() {
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    for (std::size_t i = 0; i < kFeatures; ++i) {
      double left = decodes_.answers[i] + prompts_.answers[i] + kPrior;
      for (std::size_t j = 0; j < kFeatures; ++j)
        if (j != i) left -= (decodes_.products[i][j] + prompts_.products[i][j]) * shares_[j];
      shares_[i] = std::max(0.0, left / (decodes_.products[i][i] + prompts_.products[i][i] + kPrior));
    }
  }
}

}  // namespace millrace::sched
