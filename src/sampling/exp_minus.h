#pragma once

// The exponential, for the loops of every level and for single numbers: one definition, so one result.

#include <cstdint>
#include <cstring>

namespace millrace::sampling {
namespace {

/// y := e^-y for y >= 0, infinity too: 2^n * e^r with -y = n ln 2 + r, |r| <= ln(2) / 2. At 88, n is -127, and 2^n below
/// is made of zero bits. F and I: a float and an int32, or vectors of them.
///
/// e^r is 1 + r + ... + r^6, whose last five coefficients were fitted for the least relative error, 3.1e-9. One term less
/// would be 1e-7; Taylor's series has 5e-9 with one term more.
template <class F, class I>
__attribute__((always_inline)) inline void exp_minus(F& y) {
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer in the low mantissa bits
  constexpr std::int32_t kRoundBits = 0x4B400000;
  const F limit = F{} + 88.0f;
  const F clamped = y < limit ? y : limit;
  const F shifted = clamped * -1.44269504f + kRound;
  const F n = shifted - kRound;
  // ln 2 in two parts: n times the first is exact.
  const F r = (n * -0.693359375f - clamped) + n * 2.12194440e-4f;
  const F r2 = r * r;  // three short chains instead of a long one
  F series = r2 * 0.0013814599f + (r * 0.008368717f + 0.04166839f);
  series = series * r2 + (r * 0.16666521f + 0.49999994f);
  series = series * r2 + (r + 1.0f);
  I bits;
  std::memcpy(&bits, &shifted, sizeof(bits));
  bits = (bits - (kRoundBits - 127)) << 23;
  F power;
  std::memcpy(&power, &bits, sizeof(power));
  y = series * power;
}

}  // namespace
}  // namespace millrace::sampling
