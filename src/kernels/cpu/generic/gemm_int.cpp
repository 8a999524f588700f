// Block-scaled integer weights times INT8 activations, one output element after the other.

#include <cmath>
#include <cstring>

#include "kernels/cpu/generic/kernels.h"
#include "tensor/half.h"

namespace millrace::kernels::generic {
namespace {

constexpr int kPanelRows = 8;

/// One block of one output row: weights as integers, and what they are multiplied with. Without group scales, 1 each.
struct Block {
  int w[32];
  int scale[2], min[2];  // of the halves
  float d, m;
};

float half_at(const std::uint8_t* p) {
  std::uint16_t h;
  std::memcpy(&h, p, 2);
  return tensor::f16_to_f32(h);
}

/// Element i of the block at `data`, planes of this row; step, side and byte as in params.h.
int code_at(int bits, const std::uint8_t* data, int i) {
  const auto group = [&](int g, int j) { return data[g * kPanelRows * 4 + j]; };
  if (bits == 8) return group(i / 4, i % 4);
  const int high = i / 16, s = i % 16 / 4, j = i % 4;
  const int t_at = bits == 6 ? 4 : 0, o_at = bits == 5 ? 4 : 2;
  int code = 0;
  if (bits >= 4) code = group(s, j) >> 4 * high & 15;
  if (bits != 4 && bits != 5) code |= (group(t_at + s / 2, j) >> (4 * (s % 2) + 2 * high) & 3) << t_at;
  if (bits % 2 == 1) code |= (group(o_at, j) >> (4 * high + s) & 1) << (bits - 1);
  return code;
}

Block load_block(IntFormat f, const std::uint8_t* panel, const IntPanel& at, std::int64_t b, int row) {
  Block out{};
  const std::int64_t half = ((f.super ? b / 8 : b) * kPanelRows + row) * 2;
  out.d = half_at(panel + at.scales + half);
  if (f.has_min) out.m = half_at(panel + at.mins + half);
  for (int h = 0; h < 2; ++h) {
    out.scale[h] = out.min[h] = 1;
    if (!f.super) continue;
    const std::int64_t group = f.group == 16 ? (b * kPanelRows + row) * 2 + h : b * kPanelRows + row;
    const int scale = static_cast<std::int8_t>(panel[at.group_scales + group]);
    out.scale[h] = shares_scale_byte(f) ? scale & 15 : scale;
    if (f.has_min) out.min[h] = shares_scale_byte(f) ? (scale & 255) >> 4 : panel[at.group_mins + group];
  }
  const std::uint8_t* data = panel + at.data + (b * f.bits * kPanelRows + row) * 4;
  for (int i = 0; i < 32; ++i) {
    const int code = code_at(f.bits, data, i);
    out.w[i] = f.table ? kIq4Table[code] : code - f.offset;
  }
  return out;
}

void gemm(IntFormat f, const GemmIntArgs& p) {
  const IntPanel at = int_panel(f, p.blocks, kPanelRows);
  for (std::int64_t i = 0; i < p.n; ++i) {
    const std::uint8_t* panel = p.w + i / kPanelRows * p.panel_bytes;
    for (std::int64_t r = 0; r < p.rows; ++r) p.c[r * p.c_stride + i] = 0;
    for (std::int64_t b = 0; b < p.blocks; ++b) {
      const Block w = load_block(f, panel, at, b, static_cast<int>(i % kPanelRows));
      for (std::int64_t r = 0; r < p.rows; ++r) {
        const std::int8_t* a = p.a + (r * p.blocks + b) * 32;
        const float a_scale = p.a_scale[r * p.blocks + b];
        const std::int16_t* a_sum = p.a_sum + (r * p.blocks + b) * 2;
        std::int32_t dot[2] = {};
        for (int j = 0; j < 32; ++j) dot[j / 16] += w.w[j] * a[j];
        float& c = p.c[r * p.c_stride + i];
        if (f.group == 32) {
          c = std::fma(static_cast<float>(dot[0] + dot[1]) * a_scale, w.d * static_cast<float>(w.scale[0]), c);
          const float sum = static_cast<float>(a_sum[0] + a_sum[1]);
          if (f.has_min) c = std::fma(sum * a_scale, w.m * static_cast<float>(w.min[0]), c);
        } else {
          c = std::fma(static_cast<float>(w.scale[0] * dot[0] + w.scale[1] * dot[1]) * a_scale, w.d, c);
          if (f.has_min) c = std::fma(static_cast<float>(w.min[0] * a_sum[0] + w.min[1] * a_sum[1]) * a_scale, w.m, c);
        }
      }
    }
  }
}

}  // namespace

#define FORMAT(name, ...) \
  void gemm_##name(const GemmIntArgs& p) { gemm(int_formats::name, p); }
MILLRACE_INT_FORMATS(FORMAT)
#undef FORMAT

}  // namespace millrace::kernels::generic
