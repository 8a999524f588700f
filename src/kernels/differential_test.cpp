// Thousands of random shapes: every level against the generic one, bit for bit. Most are tiny, which is where tails
// are.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/attend_test_support.h"
#include "kernels/test_support.h"
#include "tensor/half.h"

namespace millrace::kernels::testing {
namespace {

/// Bytes of finite floats in any of the formats, small enough that no sum overflows.
Array<std::uint8_t> random_weights(std::int64_t bytes, int element_bytes, bool f16, Rng& rng) {
  Array<std::uint8_t> out(align64(bytes));
  for (std::int64_t i = 0; i + element_bytes <= bytes; i += element_bytes) {
    const float x = static_cast<float>(pick(rng, -1000, 1000)) / 256.0f;
    const std::uint16_t half = f16 ? tensor::f32_to_f16(x) : tensor::f32_to_bf16(x);
    if (element_bytes == 4)
      std::memcpy(out.data() + i, &x, 4);
    else
      std::memcpy(out.data() + i, &half, 2);
  }
  return out;
}

/// The same logical rows in panels of 8 (every generic panel) and, two of them side by side, of 16. `group_bytes` is
/// what one row has at one step.
Array<std::uint8_t> widen_panels(const Array<std::uint8_t>& eight, std::int64_t panels, std::int64_t panel_bytes,
                                 std::int64_t wide_bytes, std::int64_t from, std::int64_t wide_from, std::int64_t steps,
                                 std::int64_t group_bytes, Array<std::uint8_t> wide) {
  for (std::int64_t p = 0; p < panels; ++p)
    for (std::int64_t s = 0; s < steps; ++s)
      std::memcpy(wide.data() + p / 2 * wide_bytes + wide_from + (2 * s + p % 2) * 8 * group_bytes,
                  eight.data() + p * panel_bytes + from + s * 8 * group_bytes,
                  static_cast<std::size_t>(8 * group_bytes));
  return wide;
}

struct Seed {
  unsigned number;
  Rng rng{number};
  bool emulated = number % 5 == 0;  // emulated levels take most of the time, so every fifth shape has to do for them
};

/// One in eight is anywhere up to `most`, the others up to `small`.
std::int64_t pick_small(Rng& rng, std::int64_t from, std::int64_t small, std::int64_t most) {
  return pick(rng, from, pick(rng, 0, 7) ? small : most);
}

struct Shape {
  std::int64_t rows, n, stride;
  std::int64_t panels(int panel_rows) const { return (n + panel_rows - 1) / panel_rows; }
};

/// Row counts 1 to 33 in turns: every tile of every kernel and every rest.
Shape random_shape(Seed& seed) {
  const std::int64_t n = pick_small(seed.rng, 1, 35, 150);
  return {1 + seed.number % 33, n, n + pick(seed.rng, 0, 5)};
}

void random_gemm_int(Seed& seed) {
  Rng& rng = seed.rng;
  const Shape shape = random_shape(seed);
  const IntKernel& format = kIntFormats[pick(rng, 0, std::size(kIntFormats) - 1)];
  const IntFormat f = format.f;
  const std::int64_t blocks = f.super ? 8 * pick_small(rng, 1, 1, 5) : pick_small(rng, 1, 5, 35), k = blocks * 32,
                     panels = shape.panels(8);
  const IntPanel at = int_panel(f, blocks, 8), wide_at = int_panel(f, blocks, 16);
  Array<std::uint8_t> eight(panels * at.bytes), sixteen((panels + 1) / 2 * wide_at.bytes);
  for (std::int64_t p = 0; p < panels; ++p) {
    std::uint8_t* panel = eight.data() + p * at.bytes;
    const auto scales = random_weights(at.group_scales, 2, true, rng);
    std::memcpy(panel, scales.data(), static_cast<std::size_t>(at.group_scales));
    for (std::int64_t i = at.group_scales; i < at.bytes; ++i) panel[i] = static_cast<std::uint8_t>(rng());
    for (std::int64_t i = at.group_scales; i < at.data && !shares_scale_byte(f); ++i)
      panel[i] = static_cast<std::uint8_t>(
          pick(rng, scales_are_signed(f) ? -f.most_scale : 0, f.most_scale - (scales_are_signed(f) ? 1 : 0)));
  }
  const auto widen = [&](std::int64_t from, std::int64_t wide_from, std::int64_t steps, std::int64_t group_bytes) {
    sixteen = widen_panels(eight, panels, at.bytes, wide_at.bytes, from, wide_from, steps, group_bytes, sixteen);
  };
  const std::int64_t units = f.super ? blocks / 8 : blocks;
  widen(at.scales, wide_at.scales, units, 2);
  if (f.has_min) widen(at.mins, wide_at.mins, units, 2);
  if (f.super) widen(at.group_scales, wide_at.group_scales, blocks, 32 / f.group);
  if (f.super && f.has_min && !shares_scale_byte(f)) widen(at.group_mins, wide_at.group_mins, blocks, 32 / f.group);
  widen(at.data, wide_at.data, blocks * f.bits, 4);

  Array<std::int8_t> a(shape.rows * k);
  for (auto& x : a) x = static_cast<std::int8_t>(pick(rng, -127, 127));
  Array<float> a_scale = random_floats(shape.rows * blocks, rng);
  for (auto& x : a_scale) x = without_two_bits(x);
  Array<std::int16_t> a_sum(shape.rows * blocks * 2);
  for (std::int64_t i = 0; i < shape.rows * k; ++i) a_sum[i / 16] = static_cast<std::int16_t>(a_sum[i / 16] + a[i]);
  Array<float> want(0);
  for (const Level& level : levels_with_own(format.kernel, seed.emulated)) {
    const bool wide = level.table.panel_rows == 16;
    Array<float> c(shape.rows * shape.stride, -1.0f);
    (level.table.*format.kernel)({a.data(), a_scale.data(), a_sum.data(), shape.rows, blocks,
                                  wide ? sixteen.data() : eight.data(), wide ? wide_at.bytes : at.bytes,
                                  shape.panels(level.table.panel_rows), c.data(), shape.stride, shape.n});
    if (want.size() == 0) want = c;
    ASSERT_TRUE(c.same_bits(want)) << level.name << " gemm_" << format.name << " rows " << shape.rows << " n "
                                   << shape.n << " blocks " << blocks;
  }
}

void random_gemm_float(Seed& seed) {
  Rng& rng = seed.rng;
  const Shape shape = random_shape(seed);
  const std::int64_t k = pick_small(rng, 1, 40, 200), kind = pick(rng, 0, 2),
                     panels = shape.panels(8);  // f32, f16, bf16
  const std::int64_t steps = kind == 2 ? (k + 1) / 2 : k, group = kind == 1 ? 2 : 4;
  const std::int64_t bytes = align64(steps * 8 * group), wide_bytes = align64(steps * 16 * group);
  Array<std::uint8_t> eight(panels * bytes);
  for (std::int64_t p = 0; p < panels; ++p) {
    const auto weights = random_weights(steps * 8 * group, kind == 0 ? 4 : 2, kind == 1, rng);
    std::memcpy(eight.data() + p * bytes, weights.data(), static_cast<std::size_t>(steps * 8 * group));
    if (kind == 2 && k % 2)  // the missing element of the last pair is 0
      for (int row = 0; row < 8; ++row) std::memset(eight.data() + p * bytes + ((steps - 1) * 8 + row) * 4 + 2, 0, 2);
  }
  const auto sixteen = widen_panels(eight, panels, bytes, wide_bytes, 0, 0, steps, group,
                                    Array<std::uint8_t>((panels + 1) / 2 * wide_bytes));
  const std::int64_t a_stride = k + pick(rng, 0, 3);
  const Array<float> a = random_floats(shape.rows * a_stride, rng);
  Array<std::uint16_t> halves(a.size());
  for (std::int64_t i = 0; i < a.size(); ++i) halves[i] = tensor::f32_to_bf16(a[i]);
  Array<float> want(0);
  const auto slot = kind == 0 ? &KernelTable::gemm_f32 : &KernelTable::gemm_f16;
  for (const Level& level :
       kind == 2 ? levels_with_own(&KernelTable::gemm_bf16, seed.emulated) : levels_with_own(slot, seed.emulated)) {
    if (kind == 2 && level.own_bf16_dot) continue;
    const bool wide = level.table.panel_rows == 16;
    const std::uint8_t* w = wide ? sixteen.data() : eight.data();
    Array<float> c(shape.rows * shape.stride, -1.0f);
    const std::int64_t count = shape.panels(level.table.panel_rows), w_bytes = wide ? wide_bytes : bytes;
    if (kind == 2)
      level.table.gemm_bf16(
          {halves.data(), a_stride, shape.rows, k, w, w_bytes, count, c.data(), shape.stride, shape.n});
    else
      (level.table.*slot)({a.data(), a_stride, shape.rows, k, w, w_bytes, count, c.data(), shape.stride, shape.n});
    if (want.size() == 0) want = c;
    ASSERT_TRUE(c.same_bits(want)) << level.name << " gemm_float kind " << kind << " rows " << shape.rows << " n "
                                   << shape.n << " k " << k;
  }
}

void random_attend(Seed& seed) {
  Rng& rng = seed.rng;
  const std::int64_t block_tokens = std::int64_t{8} << pick(rng, 0, 4),
                     head_dim = pick(rng, 1, 12) * (pick(rng, 0, 3) ? 8 : 7);
  const std::int64_t rows = pick(rng, 1, 12), first = pick_small(rng, 0, 70, 700), group = pick_small(rng, 1, 4, 8);
  const Kv kv = kKvTypes[pick(rng, 0, 3)];
  const std::int64_t key_begin = pick(rng, 0, (first + rows - 1) / kKeySplit) * kKeySplit;
  const std::int64_t key_end = std::min<std::int64_t>(key_begin + kKeySplit, first + rows),
                     window = pick(rng, 0, 2) ? 0 : pick(rng, 1, 300);
  const std::int64_t stride = align64(block_bytes(kv, block_tokens, head_dim)),
                     blocks = (first + rows + block_tokens - 1) / block_tokens;
  const auto cache = [&] {
    if (kv != Kv::int8) return random_weights(blocks * stride, static_cast<int>(size_of(kv)), kv == Kv::f16, rng);
    Array<std::uint8_t> out(blocks * stride);
    for (auto& x : out) x = static_cast<std::uint8_t>(pick(rng, -127, 127));
    for (std::int64_t b = 0; b < blocks; ++b) {
      const auto scales = random_weights(block_tokens * 4, 2, false, rng);  // bf16: of V an f32 with a tail
      std::memcpy(out.data() + b * stride + block_tokens * head_dim, scales.data(),
                  static_cast<std::size_t>(block_tokens * 4));
    }
    return out;
  };
  const auto k = cache(), v = cache();
  Array<std::int32_t> table(blocks);
  for (std::int64_t b = 0; b < blocks; ++b)
    table[b] = static_cast<std::int32_t>((b * 7 + 3) % blocks);  // any mapping will do
  const Array<float> q = random_floats(rows * group * head_dim, rng, 0.3f);
  Array<float> want_m(0), want_l(0), want_o(0);
  const auto slot = attend_slot(kv);
  for (const Level& level : levels_with_own(slot, seed.emulated)) {
    Array<float> m(rows * group), l(rows * group), o(rows * group * head_dim),
        scratch(attend_scratch_floats(rows * group, head_dim));
    (level.table.*slot)({q.data(), group * head_dim, rows,         group,        head_dim,
                         first,    key_begin,        key_end,      window,       0.2f,
                         k.data(), v.data(),         table.data(), block_tokens, stride,
                         0,        m.data(),         l.data(),     o.data(),     scratch.data()});
    if (want_m.size() == 0) want_m = m, want_l = l, want_o = o;
    ASSERT_TRUE(m.same_bits(want_m) && l.same_bits(want_l) && o.same_bits(want_o))
        << level.name << " attend kind " << static_cast<int>(kv) << " rows " << rows << " first " << first << " group "
        << group << " head_dim " << head_dim << " block_tokens " << block_tokens << " keys " << key_begin << ".."
        << key_end << " window " << window;
  }
}

TEST(Differential, ten_thousand_small_random_shapes_give_the_generic_bits_on_every_level) {
  for (unsigned number = 1; number <= 10000; ++number) {
    Seed seed{number};
    switch (number % 4) {
      case 0:
        random_attend(seed);
        break;
      case 1:
        random_gemm_float(seed);
        break;
      default:
        random_gemm_int(seed);
        break;
    }
    ASSERT_FALSE(HasFatalFailure()) << "seed " << number;
  }
}

}  // namespace
}  // namespace millrace::kernels::testing
