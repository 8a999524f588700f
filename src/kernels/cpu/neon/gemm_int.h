#pragma once

// Integer weights on NEON: register tiles of MR rows x NR panels, shared by both levels; a Dot says how their INT8
// products are made. Every function is internal to the file that includes it (kernels/registry.h says why).
//
// Both instructions take signed bytes, so table values go as they are, and so do codes of less than 8 bits: their
// offset is taken back by the accumulators' start value, -offset * a_sum. Codes of 8 bits become their weights by one
// bit.

#include "kernels/cpu/neon/kernels.h"
#include "kernels/cpu/neon/vec.h"

namespace millrace::kernels::neon {
namespace {

constexpr int kPanelRows = 8;  // two vectors: V = 2 * NR below, vector j has rows j % 2 * 4 and on of panel j / 2

/// Every byte's bits moved up by `by`, or down.
[[gnu::always_inline]] inline uint8x16_t move_bits(uint8x16_t v, int by) {
  return by > 0 ? v << static_cast<std::uint8_t>(by) : v >> static_cast<std::uint8_t>(-by);
}

/// What is left to be subtracted from what weights() gives.
constexpr int offset_left(IntFormat f) { return f.bits == 8 ? 0 : f.offset; }

/// Four rows' weights of step s of the block at w, plus offset_left: of its low elements (high = 0) or of the others.
/// `w` points to those rows in the first plane.
template <IntFormat kFormat>
[[gnu::always_inline]] inline int8x16_t weights(int s, int high, const std::uint8_t* w) {
  constexpr IntFormat f = kFormat;
  constexpr int kFirst = f.bits == 6 ? 4 : 0;  // plane T begins there, and so do its bits of a code
  const auto plane = [&](int i) { return vld1q_u8(w + i * kPanelRows * 4); };
  if constexpr (f.bits == 8) return vreinterpretq_s8_u8(veorq_u8(plane(4 * high + s), vdupq_n_u8(128)));
  uint8x16_t q = vdupq_n_u8(0);
  if constexpr (f.bits >= 4) q = high ? plane(s) >> 4 : vandq_u8(plane(s), vdupq_n_u8(15));
  if constexpr (f.bits == 6 || f.bits < 4) {
    const uint8x16_t t = move_bits(plane(kFirst + s / 2), kFirst - (s % 2 * 4 + high * 2));
    q = vorrq_u8(q, vandq_u8(t, vdupq_n_u8(3 << kFirst)));
  }
  if constexpr (f.bits % 2 == 1) {
    const uint8x16_t o = move_bits(plane(f.bits - 1), f.bits - 1 - (high * 4 + s));
    q = vorrq_u8(q, vandq_u8(o, vdupq_n_u8(1 << (f.bits - 1))));
  }
  if constexpr (f.table) return vqtbl1q_s8(vld1q_s8(kIq4Table), q);
  return vreinterpretq_s8_u8(q);
}

/// sdot: four products of each of four rows, times four activations that all of them share: a lane of the register that
/// holds half a block of one row of `a`.
struct Sdot {
  static constexpr int kRows = 4;

  /// acc += dot products of halves [begin, end) of one block: MR rows of `a` (stride a_stride), V vectors of rows
  /// whose panels' data is at `w` (stride w_stride). Inlined, or acc would live in memory.
  template <IntFormat kFormat, int MR, int V>
  [[gnu::always_inline]] static void add_products(const std::int8_t* a, int64_t a_stride, const std::uint8_t* w,
                                                  int64_t w_stride, int begin, int end, int32x4_t (&acc)[MR][V]) {
#pragma GCC unroll 2
    for (int high = begin; high < end; ++high) {
      int8x16_t x[MR];
#pragma GCC unroll 8
      for (int i = 0; i < MR; ++i) x[i] = vld1q_s8(a + i * a_stride + 16 * high);
      step<kFormat, 0>(x, high, w, w_stride, acc);
      step<kFormat, 1>(x, high, w, w_stride, acc);
      step<kFormat, 2>(x, high, w, w_stride, acc);
      step<kFormat, 3>(x, high, w, w_stride, acc);
    }
  }

 private:
  template <IntFormat kFormat, int kStep, int MR, int V>
  [[gnu::always_inline]] static void step(const int8x16_t (&x)[MR], int high, const std::uint8_t* w, int64_t w_stride,
                                          int32x4_t (&acc)[MR][V]) {
#pragma GCC unroll 8
    for (int j = 0; j < V; ++j) {
      const int8x16_t q = weights<kFormat>(kStep, high, w + j / 2 * w_stride + j % 2 * 16);
#pragma GCC unroll 8
      for (int i = 0; i < MR; ++i) acc[i][j] = vdotq_laneq_s32(acc[i][j], q, x[i], kStep);
    }
  }
};

/// Which of the two numbers that a group of a super format has.
enum class Group { scale, min };

/// That number of half `high` of a block, for four rows. `at`: those of the block, of all rows of the panel.
template <IntFormat kFormat, Group kWhich>
[[gnu::always_inline]] inline int32x4_t groups(const std::uint8_t* at, int high, int second_four) {
  constexpr IntFormat f = kFormat;
  int8x8_t rows;
  if constexpr (f.group == 32) {
    rows = vld1_s8(reinterpret_cast<const std::int8_t*>(at));
  } else {
    uint8x16_t v = vld1q_u8(at);
    if constexpr (shares_scale_byte(f)) v = kWhich == Group::scale ? vandq_u8(v, vdupq_n_u8(15)) : v >> 4;
    rows = vget_low_s8(vreinterpretq_s8_u8(high ? vuzp2q_u8(v, v) : vuzp1q_u8(v, v)));
  }
  const int16x8_t wide = vmovl_s8(rows);
  return second_four ? vmovl_high_s16(wide) : vmovl_s16(vget_low_s16(wide));
}

template <class Dot, IntFormat kFormat, int MR, int NR>
[[gnu::noinline]] void tile(const GemmIntArgs& p, int64_t row, int64_t panel) {
  constexpr IntFormat f = kFormat;
  constexpr int V = 2 * NR, kGroupBytes = f.group == 16 ? 2 * kPanelRows : kPanelRows;
  const IntPanel at = int_panel(f, p.blocks, kPanelRows);
  const int64_t k = p.blocks * 32;
  const std::uint8_t* first = p.w + panel * p.panel_bytes;
  const std::uint8_t* data = first + at.data;
  const std::int8_t* a = p.a + row * k;
  const float* a_scale = p.a_scale + row * p.blocks;
  const std::int16_t* a_sum = p.a_sum + row * p.blocks * 2;

  float32x4_t acc_f[MR][V];
#pragma GCC unroll 8
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < V; ++j) acc_f[i][j] = vdupq_n_f32(0);

  for (int64_t b = 0; b < p.blocks; ++b, data += f.bits * kPanelRows * 4) {
    const auto sum_of = [&](int i, int high) -> int { return a_sum[(i * p.blocks + b) * 2 + high]; };
    const auto group_at = [&](int j) { return first + j / 2 * p.panel_bytes + b * kGroupBytes; };
    int32x4_t acc[MR][V];
    if constexpr (f.group == 32) {
#pragma GCC unroll 8
      for (int i = 0; i < MR; ++i)
#pragma GCC unroll 8
        for (int j = 0; j < V; ++j) acc[i][j] = vdupq_n_s32(-offset_left(f) * (sum_of(i, 0) + sum_of(i, 1)));
      Dot::template add_products<kFormat, MR, V>(a + b * 32, k, data, p.panel_bytes, 0, 2, acc);
    } else {
#pragma GCC unroll 2
      for (int high = 0; high < 2; ++high) {
        int32x4_t part[MR][V];
#pragma GCC unroll 8
        for (int i = 0; i < MR; ++i)
#pragma GCC unroll 8
          for (int j = 0; j < V; ++j) part[i][j] = vdupq_n_s32(-offset_left(f) * sum_of(i, high));
        Dot::template add_products<kFormat, MR, V>(a + b * 32, k, data, p.panel_bytes, high, high + 1, part);
#pragma GCC unroll 8
        for (int j = 0; j < V; ++j) {
          const int32x4_t scale = groups<kFormat, Group::scale>(group_at(j) + at.group_scales, high, j % 2);
#pragma GCC unroll 8
          for (int i = 0; i < MR; ++i)
            acc[i][j] = high ? vmlaq_s32(acc[i][j], part[i][j], scale) : vmulq_s32(part[i][j], scale);
        }
      }
    }

    const int64_t half = (f.super ? b / 8 : b) * kPanelRows * 2;
#pragma GCC unroll 8
    for (int j = 0; j < V; ++j) {
      const auto* halves = reinterpret_cast<const std::uint16_t*>(first + j / 2 * p.panel_bytes + half) + j % 2 * 4;
      float32x4_t d = F16::load4(halves);
      if constexpr (f.super && f.group == 32)
        d = vmulq_f32(d, vcvtq_f32_s32(groups<kFormat, Group::scale>(group_at(j) + at.group_scales, 0, j % 2)));
#pragma GCC unroll 8
      for (int i = 0; i < MR; ++i) {
        const float32x4_t x = vmulq_n_f32(vcvtq_f32_s32(acc[i][j]), a_scale[i * p.blocks + b]);
        acc_f[i][j] = vfmaq_f32(acc_f[i][j], x, d);
      }
      if constexpr (f.has_min) {
        float32x4_t m = F16::load4(halves + at.mins / 2);
        int32x4_t min[2] = {};
        if constexpr (f.super) min[0] = groups<kFormat, Group::min>(group_at(j) + at.group_mins, 0, j % 2);
        if constexpr (f.super && f.group == 32) m = vmulq_f32(m, vcvtq_f32_s32(min[0]));
        if constexpr (f.group == 16) min[1] = groups<kFormat, Group::min>(group_at(j) + at.group_mins, 1, j % 2);
#pragma GCC unroll 8
        for (int i = 0; i < MR; ++i) {
          const float scale = a_scale[i * p.blocks + b];
          if constexpr (f.group == 32) {
            acc_f[i][j] = vfmaq_n_f32(acc_f[i][j], m, static_cast<float>(sum_of(i, 0) + sum_of(i, 1)) * scale);
          } else {
            const int32x4_t sum = vmlaq_n_s32(vmulq_n_s32(min[0], sum_of(i, 0)), min[1], sum_of(i, 1));
            acc_f[i][j] = vfmaq_f32(acc_f[i][j], vmulq_n_f32(vcvtq_f32_s32(sum), scale), m);
          }
        }
      }
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < V; ++j) {
      const int64_t column = panel * kPanelRows + j * 4;
      store_upto(p.c + (row + i) * p.c_stride + column, p.n - column, acc_f[i][j]);
    }
}

// 4 x 1 for many rows: 8 integer and 8 float accumulators, the 4 rows' activations and what unpacking needs fit 32
// registers, and unpacking is shared by rows only. 1 x 4 for one row: it waits for memory, and four panels are four
// streams. Never measured on hardware.
template <class Dot, IntFormat kFormat>
void gemm(const GemmIntArgs& p) {
  constexpr int64_t kActivationBytes = 128 * 1024;  // rows that stay in L2 while all panels pass
  constexpr int kRows = Dot::kRows;
  const int64_t chunk = max64(kRows, kActivationBytes / (p.blocks * 32) / kRows * kRows);
  for (int64_t begin = 0; begin < p.rows; begin += chunk) {
    const int64_t end = min64(begin + chunk, p.rows);
    for (int64_t panel = 0; panel < p.panels; panel += 4) {
      const int64_t count = min64(4, p.panels - panel);
      int64_t row = begin;
      for (; row + kRows <= end; row += kRows)
        for (int64_t j = 0; j < count; ++j) tile<Dot, kFormat, kRows, 1>(p, row, panel + j);
      for (; row < end; ++row)
        if (count == 4)
          tile<Sdot, kFormat, 1, 4>(p, row, panel);
        else
          for (int64_t j = 0; j < count; ++j) tile<Sdot, kFormat, 1, 1>(p, row, panel + j);
    }
  }
}

}  // namespace
}  // namespace millrace::kernels::neon
