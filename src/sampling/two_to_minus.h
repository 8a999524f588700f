#pragma once

// The exponential, for the loops of every level and for single numbers: one definition, so one result.

#include <cstdint>
#include <cstring>

namespace millrace::sampling {
namespace {

constexpr float kMostBits = 127;

/// y := 2^-y for -60 <= y <= 127: 2^n * 2^r with -y = n + r, |r| <= 1/2, which is exact. At 127, 2^n below is made of zero
/// bits. F and I: a float and an int32, or vectors of them.
///
/// 2^r is 1 and five terms fitted for the least relative error, 9.2e-8; with the roundings it is under 2^-22. Base 2
/// because the distance that a logit has from the best is multiplied anyway: by 1 / (temperature * ln 2).
template <class F, class I>
__attribute__((always_inline)) inline void two_to_minus(F& y) {
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer in the low mantissa bits
  constexpr std::int32_t kRoundBits = 0x4B400000;
  const F shifted = kRound - y;
  const F q = y + (shifted - kRound);  // -r
  const F q2 = q * q;  // three short chains instead of a long one
  F series = q * -0.0013264713f + 0.009671523f;
  series = series * q2 + (q * -0.05550734f + 0.24022242f);
  series = series * q2 + (q * -0.693147f + 1.0f);
  I bits;
  std::memcpy(&bits, &shifted, sizeof(bits));
  bits = (bits - (kRoundBits - 127)) << 23;
  F power;
  std::memcpy(&power, &bits, sizeof(power));
  y = series * power;
}

}  // namespace
}  // namespace millrace::sampling
