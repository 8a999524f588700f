// The limits of the tile unit: the loops that no kernel can beat. The other roofs stay AVX-512's.

#include "kernels/cpu/amx/tiles.h"

namespace millrace::kernels::MILLRACE_AMX {
namespace {

/// Six independent sums, C: tiles 2 to 7: a product takes 52 cycles and starts every 16. A round is a product of each.
template <class Round>
void run(const RoofArgs& p, double operations, Round round) {
  TileConfig config;
  config.set(0, 7, 16, 64);
  configure(config);
  for (std::int64_t i = 0; i < p.iterations; ++i) round();
  release();
  *p.operations = static_cast<double>(p.iterations) * 6 * operations;
}

}  // namespace

void roof_int8(const RoofArgs& p) {
  run(p, 16 * 16 * 64 * 2, [] {
    add_int8<2, 0, 1>();
    add_int8<3, 0, 1>();
    add_int8<4, 0, 1>();
    add_int8<5, 0, 1>();
    add_int8<6, 0, 1>();
    add_int8<7, 0, 1>();
  });
}

void roof_bf16(const RoofArgs& p) {
  run(p, 16 * 16 * 32 * 2, [] {
    add_bf16<2, 0, 1>();
    add_bf16<3, 0, 1>();
    add_bf16<4, 0, 1>();
    add_bf16<5, 0, 1>();
    add_bf16<6, 0, 1>();
    add_bf16<7, 0, 1>();
  });
}

}  // namespace millrace::kernels::MILLRACE_AMX
