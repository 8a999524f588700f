#pragma once

// What a step will take, learned from what steps took: microseconds as a sum over a few features of the step, each with
// a cost that is fitted as steps come in. Knows no sequences and no clock: times are arguments.

#include <array>
#include <cstddef>
#include <cstdint>

namespace millrace::sched {

/// Positions that attention reads for `count` tokens from position `first` on: each sees what is before it, and itself.
constexpr std::int64_t attended_by(std::int64_t first, std::int64_t count) { return count * first + count * (count + 1) / 2; }

static_assert(attended_by(/*first=*/0, /*count=*/1) == 1);
static_assert(attended_by(100, 1) == 101);
static_assert(attended_by(10, 3) == 11 + 12 + 13);

/// What the time of a step depends on.
struct StepWork {
  int tokens = 0;             // all slices
  int prompt_tokens = 0;      // of them, those that are no decodes
  int rows = 0;               // that come back
  std::int64_t attended = 0;  // positions read by attention

  /// `sign` -1 takes a slice out again.
  void add(int first, int count, int n_rows, bool is_decode, int sign = 1) {
    tokens += sign * count;
    if (!is_decode) prompt_tokens += sign * count;
    rows += sign * n_rows;
    attended += sign * attended_by(first, count);
  }
};

/// Recursive least squares with forgetting, in information form: the sums of products stay, the costs are solved from
/// them after each step. A cost is never negative. Four things keep it safe:
///
///   - the first step says how large the model is: it scales all costs, whose proportions are those of a 0.5B model;
///   - a step counts as at most twice and at least half of what was expected (four times while little is known), so
///     that one slow step moves a prediction by a few percent, and a machine that has become slower still shows;
///   - steps of decodes only and steps with prompt tokens are remembered apart, each for some twenty steps of its kind,
///     so that a night of decoding does not make it forget what a prompt costs;
///   - it extrapolates to twice the tokens that it has seen, no further.
class CostModel {
 public:
  /// What a step takes. An empty one: what any step takes beside its tokens.
  double step_us(const StepWork& work) const;

  /// What `count` more prompt tokens from position `first` add to a step.
  double more_us(int first, int count) const;

  /// The most prompt tokens from position `first` on that add no more than `us`; in [0, most]. No more than twice what
  /// steps have lately had: a small chunk costs what reading the weights costs, and says little about a large one.
  int tokens_within(double us, int first, int most) const;

  /// A step took `us` > 0.
  void observe(const StepWork& work, double us);

  std::int64_t n_observed() const { return decodes_.n_observed + prompts_.n_observed; }

 private:
  static constexpr std::size_t kFeatures = 4;  // any step, a token, a row, an attended position
  using Vector = std::array<double, kFeatures>;
  struct Memory {
    std::array<Vector, kFeatures> products{};
    Vector answers{};
    std::int64_t n_observed = 0;
  };

  static Vector features(const StepWork& work);
  void solve();

  // Microseconds per feature: the unit in which shares_ count.
  Vector unit_us_ = {10'000, 900, 300, 0.3};
  Vector shares_ = {1, 1, 1, 1};
  Memory decodes_, prompts_;
  double largest_ = 64;  // tokens of a step with prompt tokens, lately
};

}  // namespace millrace::sched
