#pragma once

// exp and a lane sum, operation by operation as the vector levels do them.

#include <bit>
#include <cmath>
#include <cstdint>

namespace millrace::kernels::generic {

/// exp(x), relative error <= 1.5 * 2^-24 (2^-149 absolute below the normal numbers), measured over all floats;
/// exp(-inf) = 0, exp(0) = 1, exp(inf) = inf, NaN stays NaN.
///
/// x = n ln 2 + r with n to nearest, |r| <= ln 2 / 2; a polynomial of degree 6 in r (minimax, constant term 1), times
/// 2^n in two factors, because n runs from -150 to 128 and one float exponent does not.
inline float exp(float x) {
  x = 89.0f < x ? 89.0f : x;  // so that NaN passes
  x = -104.0f > x ? -104.0f : x;
  const float shifted = std::fma(x, 0x1.715476p+0f, 0x1.8p23f);  // the low mantissa bits now hold n
  const float n = shifted - 0x1.8p23f;
  float r = std::fma(n, -0x1.62e400p-1f, x);  // ln 2 in two parts, the first short enough to be exact
  r = std::fma(n, -0x1.7f7d1cp-20f, r);
  float p = 0x1.6ae6e0p-10f;
  p = std::fma(p, r, 0x1.1267d8p-7f);
  p = std::fma(p, r, 0x1.555824p-5f);
  p = std::fma(p, r, 0x1.555418p-3f);
  p = std::fma(p, r, 0x1.fffffcp-2f);
  p = std::fma(p, r, 1.0f);
  p = std::fma(p, r, 1.0f);
  const auto power = static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(shifted) - 0x4B400000u);
  const std::int32_t half = power >> 1;
  const auto two_to = [](std::int32_t e) { return std::bit_cast<float>((static_cast<std::uint32_t>(e) + 127u) << 23); };
  return p * two_to(half) *
         two_to(static_cast<std::int32_t>(static_cast<std::uint32_t>(power) - static_cast<std::uint32_t>(half)));
}

/// The sum of 16 lanes: lane i + lane i + 8, then + 4, + 2, + 1.
inline float sum_lanes(const float (&lane)[16]) {
  float s[8];
  for (int i = 0; i < 8; ++i) s[i] = lane[i] + lane[i + 8];
  for (int i = 0; i < 4; ++i) s[i] += s[i + 4];
  return (s[0] + s[2]) + (s[1] + s[3]);
}

}  // namespace millrace::kernels::generic
