// Rounds values to a weight format, for tests only: fair scales, no search for better ones.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <span>

#include "base/check.h"
#include "io/testing/model_files.h"
#include "tensor/half.h"
#include "tensor/quant_blocks.h"

namespace millrace::io::testing {
namespace {

using tensor::DType;
using tensor::QuantCodes;

/// What a quantiser has to know of a format.
struct Rule {
  int group = 32;      // values with one scale
  int least = 0;       // of the codes less their offset
  int most = 15;
  int offset = 0;
  bool min = false;
  int most_scale = 0;  // of the groups of a super block
  bool table = false;
};

Rule rule_of(DType type) {
  switch (type) {
    case DType::q4_0: return {.least = -8, .most = 7, .offset = 8};
    case DType::q4_1: return {.min = true};
    case DType::q5_0: return {.least = -16, .offset = 16};
    case DType::q5_1: return {.most = 31, .min = true};
    case DType::q8_0: return {.least = -127, .most = 127, .offset = 128};
    case DType::q2_k: return {.group = 16, .most = 3, .min = true, .most_scale = 15};
    case DType::q3_k: return {.group = 16, .least = -4, .most = 3, .offset = 4, .most_scale = 31};
    case DType::q4_k: return {.min = true, .most_scale = 63};
    case DType::q5_k: return {.most = 31, .min = true, .most_scale = 63};
    case DType::q6_k: return {.group = 16, .least = -32, .most = 31, .offset = 32, .most_scale = 127};
    case DType::iq4_nl: return {.least = -127, .most = 113, .table = true};
    case DType::iq4_xs: return {.least = -127, .most = 113, .most_scale = 31, .table = true};
    default: MILLRACE_CHECK(false, "no encoder for this format");
  }
}

int nearest(float x, int least, int most) { return std::clamp(static_cast<int>(std::lround(x)), least, most); }

std::uint8_t nearest_in_table(float x) {
  constexpr std::array kTable = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
  const auto distance = [x](int entry) { return std::abs(static_cast<float>(entry) - x); };
  return static_cast<std::uint8_t>(std::ranges::min_element(kTable, {}, distance) - kTable.begin());
}

float inverse(float x) { return x == 0 ? 0 : 1 / x; }

/// Codes and scales of one block, 32 values or 256.
QuantCodes quantise(const Rule& rule, std::span<const float> values) {
  QuantCodes out{};
  const auto width = static_cast<std::size_t>(rule.group);
  std::array<float, 16> step{}, low{};
  for (std::size_t g = 0; g * width < values.size(); ++g) {
    const auto group = values.subspan(g * width, width);
    if (rule.min) {
      low[g] = rule.most_scale ? std::min(0.0f, std::ranges::min(group)) : std::ranges::min(group);
      step[g] = (std::ranges::max(group) - low[g]) / static_cast<float>(rule.most);
    } else {  // the largest value of the group gets the largest code
      step[g] = *std::ranges::max_element(group, {}, [](float x) { return std::abs(x); }) / static_cast<float>(rule.least);
    }
  }
  const auto largest = [](float a, float b) { return std::abs(a) < std::abs(b); };
  const float scales = static_cast<float>(std::max(rule.most_scale, 1));
  const float d = rule.most_scale ? std::abs(std::ranges::max(step, largest)) / scales : step[0];
  const float m = rule.most_scale ? -std::ranges::min(low) / scales : low[0];
  out.d = tensor::f32_to_f16(d);
  out.m = tensor::f32_to_f16(m);
  for (std::size_t g = 0; g * width < values.size(); ++g) {
    float unit = d, base = rule.min ? m : 0;
    if (rule.most_scale) {
      out.scale[g] = static_cast<std::int8_t>(nearest(step[g] * inverse(d), -rule.most_scale, rule.most_scale));
      out.min[g] = static_cast<std::uint8_t>(nearest(-low[g] * inverse(m), 0, rule.most_scale));
      unit = d * static_cast<float>(out.scale[g]), base = -m * static_cast<float>(out.min[g]);
    }
    for (std::size_t i = g * width; i < (g + 1) * width; ++i) {
      const float x = (values[i] - base) * inverse(unit);
      out.code[i] = rule.table ? nearest_in_table(x) : static_cast<std::uint8_t>(nearest(x, rule.least, rule.most) + rule.offset);
    }
  }
  return out;
}

/// What one bit of a block does: it adds a power of two, modulo 256, to one byte of the QuantCodes that it unpacks to.
struct Bit {
  std::size_t byte;
  std::uint8_t power;
};

std::uint8_t byte_of(const QuantCodes& q, std::size_t i) { return reinterpret_cast<const std::uint8_t*>(&q)[i]; }

QuantCodes unpacked(DType type, const std::string& block) {
  QuantCodes out{};
  tensor::unpack_block(type, reinterpret_cast<const std::byte*>(block.data()), out);
  return out;
}

/// Every bit of a block, found by asking: so there is no second text of each format's bits here.
std::vector<Bit> bits_of(DType type) {
  std::string block(static_cast<std::size_t>(tensor::layout_of(type).bytes), '\0');
  const QuantCodes zero = unpacked(type, block);
  std::vector<Bit> out;
  for (std::size_t bit = 0; bit < block.size() * 8; ++bit) {
    block[bit / 8] = static_cast<char>(1 << bit % 8);
    const QuantCodes one = unpacked(type, block);
    block[bit / 8] = '\0';
    std::size_t i = 0;
    while (byte_of(one, i) == byte_of(zero, i)) ++i;
    out.push_back({i, static_cast<std::uint8_t>(byte_of(one, i) - byte_of(zero, i))});
  }
  return out;
}

/// The block that unpacks to `want`.
std::string block_of(const std::vector<Bit>& bits, const QuantCodes& zero, const QuantCodes& want) {
  std::string out(bits.size() / 8, '\0');
  for (std::size_t bit = 0; bit < bits.size(); ++bit) {
    const std::size_t i = bits[bit].byte;
    const bool set = static_cast<std::uint8_t>(byte_of(want, i) - byte_of(zero, i)) & bits[bit].power;
    if (set) out[bit / 8] = static_cast<char>(out[bit / 8] | 1 << bit % 8);
  }
  return out;
}

}  // namespace

std::string encode(DType type, const std::vector<float>& values) {
  std::string out;
  if (type == DType::f32 || type == DType::f16 || type == DType::bf16) {
    for (const float v : values) out += type == DType::f32 ? bytes_of(v) : bytes_of(type == DType::f16 ? tensor::f32_to_f16(v) : tensor::f32_to_bf16(v));
    return out;
  }
  const Rule rule = rule_of(type);
  const auto size = static_cast<std::size_t>(tensor::layout_of(type).elements);
  MILLRACE_CHECK(values.size() % size == 0, "values that are not whole blocks");
  const std::vector<Bit> bits = bits_of(type);
  const QuantCodes zero = unpacked(type, std::string(bits.size() / 8, '\0'));
  for (std::size_t i = 0; i < values.size(); i += size)
    out += block_of(bits, zero, quantise(rule, std::span(values).subspan(i, size)));
  return out;
}

}  // namespace millrace::io::testing
