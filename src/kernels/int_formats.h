#pragma once

// The integer weight formats: one row each, read by the kernels at compile time, by packing and tests at run time. What
// a row means for bytes and arithmetic is said in params.h. No STL, and functions are static: ISA files include this.

#include <cstdint>

namespace millrace::kernels {

struct IntFormat {
  int bits;        // of a code
  int offset;      // a weight is its code minus this
  bool table;      // a weight is kIq4Table[code]
  int group;       // values that share an integer scale: 32 or 16
  bool super;      // 256 values share the f16 scale, and each group has an integer one
  bool has_min;    // a weight also has a minimum that is added
  int most_scale;  // largest magnitude of a group's integer scale. 15: scale and minimum share a byte
};

// FORMAT(name, then the members of IntFormat in order)
#define MILLRACE_INT_FORMATS(FORMAT)               \
  FORMAT(q4_0, 4, 8, false, 32, false, false, 1)   \
  FORMAT(q4_1, 4, 0, false, 32, false, true, 1)    \
  FORMAT(q5_0, 5, 16, false, 32, false, false, 1)  \
  FORMAT(q5_1, 5, 0, false, 32, false, true, 1)    \
  FORMAT(q8_0, 8, 128, false, 32, false, false, 1) \
  FORMAT(q2_k, 2, 0, false, 16, true, true, 15)    \
  FORMAT(q3_k, 3, 4, false, 16, true, false, 32)   \
  FORMAT(q4_k, 4, 0, false, 32, true, true, 63)    \
  FORMAT(q5_k, 5, 0, false, 32, true, true, 63)    \
  FORMAT(q6_k, 6, 32, false, 16, true, false, 128) \
  FORMAT(iq4_nl, 4, 0, true, 32, false, false, 1)  \
  FORMAT(iq4_xs, 4, 0, true, 32, true, false, 32)

namespace int_formats {
#define FORMAT(name, ...) constexpr IntFormat name{__VA_ARGS__};
MILLRACE_INT_FORMATS(FORMAT)
#undef FORMAT
}  // namespace int_formats

/// The 16 values of iq4_nl and iq4_xs.
constexpr std::int8_t kIq4Table[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

/// Largest magnitude of a weight as an integer.
static constexpr int most_weight(IntFormat f) {
  if (f.table) return 127;
  const int above = (1 << f.bits) - 1 - f.offset;
  return above > f.offset ? above : f.offset;
}

// A block's sum of products, in group 16 of scaled ones, is exact in int32 and as a float, whatever the file holds.
#define FORMAT(name, ...)                                                                                              \
  static_assert(                                                                                                       \
      32 * 127 * most_weight(int_formats::name) * (int_formats::name.group == 16 ? int_formats::name.most_scale : 4) < \
          1 << 24,                                                                                                     \
      #name);
MILLRACE_INT_FORMATS(FORMAT)
#undef FORMAT

static constexpr bool scales_are_signed(IntFormat f) { return f.offset != 0 || f.table; }
static constexpr bool shares_scale_byte(IntFormat f) { return f.most_scale == 15; }

/// What makes a weight an unsigned byte when it is added: the products of unsigned with signed bytes want that.
static constexpr int unsigned_offset(IntFormat f) { return f.table ? 128 : f.offset; }

/// Formats that deserve more tile shapes than the others; each costs compile time.
static constexpr bool is_common(IntFormat f) { return !f.super && !f.table && f.bits != 5; }

/// The scale of a block of activations whose largest magnitude is amax: without its last two bits, so that its product
/// with 3 * 2^22 is exact and avx512/gemm_wide.h can scale and convert at once.
static inline float activation_scale(float amax) {
  float scale = amax / 127.0f;
  std::uint32_t bits;
  __builtin_memcpy(&bits, &scale, sizeof(bits));
  bits &= ~3u;
  __builtin_memcpy(&scale, &bits, sizeof(bits));
  return scale;
}

/// Where the parts of a panel lie, in bytes (params.h). mins and group_mins are where they would be, if there are none.
struct IntPanel {
  std::int64_t scales, mins, group_scales, group_mins, data, bytes;
};

static constexpr IntPanel int_panel(IntFormat f, std::int64_t blocks, int panel_rows) {
  const std::int64_t halves = (f.super ? blocks / 8 : blocks) * panel_rows * 2;
  const std::int64_t groups = f.super ? blocks * (32 / f.group) * panel_rows : 0;
  IntPanel at{};
  at.mins = halves;
  at.group_scales = f.has_min ? 2 * halves : halves;
  at.group_mins = at.group_scales + (shares_scale_byte(f) ? 0 : groups);
  at.data = (at.group_mins + (f.has_min ? groups : 0) + 63) / 64 * 64;
  at.bytes = (at.data + blocks * 4 * f.bits * panel_rows + 63) / 64 * 64;
  return at;
}

}  // namespace millrace::kernels
