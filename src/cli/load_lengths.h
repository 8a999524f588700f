#pragma once

// How long prompts and answers of a load are: one length, a range, or a long tail.

#include <string>
#include <string_view>

#include "base/result.h"
#include "cli/draws.h"

namespace millrace::cli {

struct Lengths {
  enum class Kind { fixed, uniform, lognormal };
  Kind kind = Kind::fixed;
  int least = 1, most = 1;        // both are drawn, too
  double median = 1, spread = 0;  // of lognormal: the spread is that of the logarithm

  int draw(Draws& draws) const;
};

/// "128", "uniform:16:512", "lognormal:100:0.8" or, with bounds, "lognormal:100:0.8:4:800".
/// Errors: invalid_argument with what was expected.
Result<Lengths> parse_lengths(std::string_view text);

}  // namespace millrace::cli
