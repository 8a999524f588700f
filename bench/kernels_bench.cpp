// Kernels one by one on one thread: GOPS and GB/s beside this machine's measured roofs.
//
//   ninja -C build/release kernels_bench && build/release/kernels_bench [--isa=avx2] [--benchmark_filter=q4_0]
//
// `roof` is the share of the roof that the kernel's arithmetic has; `read` the share of the memory's speed. Up to 32
// rows weights come from memory (copies larger than any cache take turns), beyond that from the cache, as in a model.

#include <benchmark/benchmark.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

#include "kernels/kv_int8.h"
#include "kernels/registry.h"

namespace millrace::kernels {
namespace {

/// n zeroed bytes, 64-byte aligned. Zeros are as fast as anything here.
struct Bytes {
  explicit Bytes(std::int64_t n) {
    size = (n + 63) / 64 * 64;
    data = static_cast<std::uint8_t*>(
        std::aligned_alloc(2 << 20, static_cast<std::size_t>((size + (2 << 20) - 1) >> 21 << 21)));
    madvise(data, static_cast<std::size_t>(size), MADV_HUGEPAGE);  // as device/memory.cpp
    std::memset(data, 0, static_cast<std::size_t>(size));
  }
  Bytes(const Bytes&) = delete;
  ~Bytes() { std::free(data); }
  template <class T>
  T* as() {
    return reinterpret_cast<T*>(data);
  }

  std::uint8_t* data;
  std::int64_t size;
};

struct Roofs {
  double int8 = 0, bf16 = 0, f32 = 0, read = 0;  // GOPS, GFLOPS, GFLOPS, GB/s of one thread
};

/// This thread's own: what others do on a shared machine does not count, as in the benchmark library's CPU column.
double cpu_seconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

/// Both kinds of limit, from the level's own roof kernels (0: it has no such arithmetic).
Roofs measure_roofs(const KernelTable& table) {
  Bytes memory(256 << 20);
  const auto rate = [&](roof_f32_fn kernel) {
    double best = 0, operations = 0;
    for (int i = 0; i < 20; ++i) {
      const double start = cpu_seconds();
      kernel({memory.data, memory.size, 200'000, &operations});
      best = std::max(best, operations / (cpu_seconds() - start) / 1e9);
    }
    return best;
  };
  return {rate(table.roof_int8), rate(table.roof_bf16), rate(table.roof_f32), rate(table.roof_read)};
}

KernelTable table;
Roofs roofs;

void report(benchmark::State& state, double operations, double bytes, double operation_roof) {
  using benchmark::Counter;
  state.counters["GOPS"] = Counter(operations / 1e9, Counter::kIsIterationInvariantRate);
  state.counters["GB/s"] = Counter(bytes / 1e9, Counter::kIsIterationInvariantRate);
  if (operation_roof > 0)
    state.counters["roof"] = Counter(operations / 1e9 / operation_roof, Counter::kIsIterationInvariantRate);
  if (roofs.read > 0) state.counters["read"] = Counter(bytes / 1e9 / roofs.read, Counter::kIsIterationInvariantRate);
}

std::int64_t copies_of(std::int64_t bytes, std::int64_t rows) {
  return rows <= 32 ? std::max<std::int64_t>(1, (192 << 20) / bytes) : 1;
}

void gemm_int(benchmark::State& state, gemm_q4_0_fn kernel, IntFormat format) {
  const std::int64_t rows = state.range(0), n = state.range(1), k = state.range(2), blocks = k / 32,
                     p = table.panel_rows;
  const std::int64_t panels = (n + p - 1) / p, panel_bytes = int_panel(format, blocks, static_cast<int>(p)).bytes;
  const std::int64_t bytes = panels * panel_bytes, copies = copies_of(bytes, rows);
  Bytes w(bytes * copies), a(rows * k), scale(rows * blocks * 4), sum(rows * blocks * 4), c(rows * n * 4);
  std::int64_t copy = 0;
  for (auto _ : state) {
    kernel({a.as<std::int8_t>(), scale.as<float>(), sum.as<std::int16_t>(), rows, blocks, w.data + copy * bytes,
            panel_bytes, panels, c.as<float>(), n, n});
    copy = (copy + 1) % copies;
  }
  report(state, 2.0 * static_cast<double>(rows * n * k), static_cast<double>(bytes), roofs.int8);
}

void gemm_float(benchmark::State& state, gemm_f32_fn kernel, int element_bytes) {
  const std::int64_t rows = state.range(0), n = state.range(1), k = state.range(2), p = table.panel_rows,
                     panels = (n + p - 1) / p;
  const std::int64_t panel_bytes = k * p * element_bytes, bytes = panels * panel_bytes, copies = copies_of(bytes, rows);
  Bytes w(bytes * copies), a(rows * k * 4), c(rows * n * 4);
  std::int64_t copy = 0;
  for (auto _ : state) {
    kernel({a.as<float>(), k, rows, k, w.data + copy * bytes, panel_bytes, panels, c.as<float>(), n, n});
    copy = (copy + 1) % copies;
  }
  report(state, 2.0 * static_cast<double>(rows * n * k), static_cast<double>(bytes), roofs.f32);
}

void gemm_bf16(benchmark::State& state) {
  const std::int64_t rows = state.range(0), n = state.range(1), k = state.range(2), p = table.panel_rows,
                     panels = (n + p - 1) / p;
  const std::int64_t panel_bytes = k * p * 2, bytes = panels * panel_bytes, copies = copies_of(bytes, rows);
  Bytes w(bytes * copies), a(rows * k * 2), c(rows * n * 4);
  std::int64_t copy = 0;
  for (auto _ : state) {
    table.gemm_bf16(
        {a.as<std::uint16_t>(), k, rows, k, w.data + copy * bytes, panel_bytes, panels, c.as<float>(), n, n});
    copy = (copy + 1) % copies;
  }
  report(state, 2.0 * static_cast<double>(rows * n * k), static_cast<double>(bytes),
         roofs.bf16 > 0 ? roofs.bf16 : roofs.f32);
}

/// rows, tokens in the cache (the rows among them), query heads per KV head; head_dim 64, blocks of 32 tokens, as the
/// engine has. vector_bytes: of one token's keys, or values, with their scale.
void attend(benchmark::State& state, attend_f32_fn kernel, std::int64_t vector_bytes) {
  const std::int64_t rows = state.range(0), tokens = state.range(1), group = state.range(2), head_dim = 64,
                     block_tokens = 32;
  const std::int64_t block_bytes = block_tokens * vector_bytes, blocks = (tokens + block_tokens - 1) / block_tokens;
  const std::int64_t copies = copies_of(2 * blocks * block_bytes, rows);
  Bytes q(rows * group * head_dim * 4), k(copies * blocks * block_bytes), v(copies * blocks * block_bytes),
      m(rows * group * 4), l(rows * group * 4), o(rows * group * head_dim * 4),
      scratch(attend_scratch_floats(rows * group, head_dim) * 4);
  std::vector<std::int32_t> blocks_of(static_cast<std::size_t>(blocks));
  for (std::size_t b = 0; b < blocks_of.size(); ++b) blocks_of[b] = static_cast<std::int32_t>(b);
  std::int64_t copy = 0, keys = 0;
  for (std::int64_t r = 0; r < rows; ++r) keys += tokens - rows + r + 1;
  for (auto _ : state) {
    for (std::int64_t begin = 0; begin < tokens; begin += kKeySplit)
      kernel({q.as<float>(),
              group * head_dim,
              rows,
              group,
              head_dim,
              tokens - rows,
              begin,
              std::min(begin + kKeySplit, tokens),
              0,
              0.125f,
              k.data + copy * blocks * block_bytes,
              v.data + copy * blocks * block_bytes,
              blocks_of.data(),
              block_tokens,
              block_bytes,
              0,
              m.as<float>(),
              l.as<float>(),
              o.as<float>(),
              scratch.as<float>()});
    copy = (copy + 1) % copies;
  }
  report(state, 4.0 * static_cast<double>(keys * group * head_dim), 2.0 * static_cast<double>(blocks * block_bytes),
         roofs.f32);
}

template <class Run>
void small(const char* name, std::int64_t rows, std::int64_t dim, double bytes_per_value, Run run) {
  benchmark::RegisterBenchmark(
      (std::string(name) + "/" + std::to_string(rows) + "/" + std::to_string(dim)).c_str(),
      [=](benchmark::State& state) {
        Bytes x(rows * dim * 4), y(rows * dim * 4), z(rows * dim * 4), scale(rows * dim / 8), sum(rows * dim / 8);
        for (auto _ : state) run(x, y, z, scale, sum);
        report(state, static_cast<double>(rows * dim), bytes_per_value * static_cast<double>(rows * dim), 0);
      });
}

void register_all() {
  using Shapes = std::vector<std::pair<std::int64_t, std::int64_t>>;
  const auto with_rows = [](const Shapes& shapes) {
    return [shapes](benchmark::internal::Benchmark* b) {
      for (const std::int64_t rows : {1, 8, 32, 128, 256})
        for (const auto& [n, k] : shapes) b->Args({rows, n, k});
    };
  };
  const auto shapes =
      with_rows({{64, 576}, {144, 576}, {288, 576}, {576, 576}, {1536, 576}, {576, 1536}, {4864, 896}, {896, 4864}});
  const auto super_shapes = with_rows({{1536, 512}, {512, 1536}, {4864, 1024}, {1024, 4864}});  // k % 256 == 0
#define FORMAT(name, ...)                                                         \
  (int_formats::name.super ? super_shapes : shapes)(benchmark::RegisterBenchmark( \
      "gemm_" #name, [](benchmark::State& s) { gemm_int(s, table.gemm_##name, int_formats::name); }));
  MILLRACE_INT_FORMATS(FORMAT)
#undef FORMAT
  shapes(benchmark::RegisterBenchmark("gemm_f32", [](benchmark::State& s) { gemm_float(s, table.gemm_f32, 4); }));
  shapes(benchmark::RegisterBenchmark("gemm_f16", [](benchmark::State& s) { gemm_float(s, table.gemm_f16, 2); }));
  shapes(benchmark::RegisterBenchmark("gemm_bf16", gemm_bf16));
  const auto lengths = [](benchmark::internal::Benchmark* b) {
    for (const auto& [rows, tokens, group] : std::initializer_list<std::array<std::int64_t, 3>>{{1, 128, 3},
                                                                                                {1, 1024, 3},
                                                                                                {1, 8192, 7},
                                                                                                {4, 512, 7},
                                                                                                {10, 512, 3},
                                                                                                {21, 512, 3},
                                                                                                {9, 4096, 7},
                                                                                                {256, 256, 3},
                                                                                                {256, 4096, 7}})
      b->Args({rows, tokens, group});
  };
  lengths(benchmark::RegisterBenchmark("attend_f32", [](benchmark::State& s) { attend(s, table.attend_f32, 256); }));
  lengths(benchmark::RegisterBenchmark("attend_f16", [](benchmark::State& s) { attend(s, table.attend_f16, 128); }));
  lengths(benchmark::RegisterBenchmark("attend_bf16", [](benchmark::State& s) { attend(s, table.attend_bf16, 128); }));
  lengths(benchmark::RegisterBenchmark(
      "attend_int8", [](benchmark::State& s) { attend(s, table.attend_int8, 64 + kernels::kKvScaleBytes); }));
  for (const std::int64_t rows : {1, 256}) {
    const std::int64_t dim = 1536;
    small("rms_norm_f32", rows, dim, 8, [=](Bytes& x, Bytes& y, Bytes& z, Bytes&, Bytes&) {
      table.rms_norm_f32({x.as<float>(), y.as<float>(), z.as<float>(), rows, dim, 1e-5f});
    });
    small("quantize_q8", rows, dim, 5, [=](Bytes& x, Bytes& y, Bytes&, Bytes& scale, Bytes& sum) {
      table.quantize_q8({x.as<float>(), y.as<std::int8_t>(), scale.as<float>(), sum.as<std::int16_t>(), rows, dim});
    });
    small("swiglu_f32", rows, dim, 12, [=](Bytes& x, Bytes& y, Bytes& z, Bytes&, Bytes&) {
      table.swiglu_f32({x.as<float>(), y.as<float>(), z.as<float>(), rows * dim});
    });
    small("add_f32", rows, dim, 12, [=](Bytes& x, Bytes& y, Bytes& z, Bytes&, Bytes&) {
      table.add_f32({x.as<float>(), y.as<float>(), z.as<float>(), rows * dim});
    });
  }
}

}  // namespace
}  // namespace millrace::kernels

int main(int argc, char** argv) {
  using namespace millrace::kernels;
  std::string forced;
  for (int i = 1; i < argc; ++i)
    if (std::strncmp(argv[i], "--isa=", 6) == 0) {
      forced = argv[i] + 6;
      std::copy(argv + i + 1, argv + argc, argv + i);
      --argc, --i;
    }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  const auto isa = choose_isa(forced);
  if (!isa) return std::fprintf(stderr, "%s\n", isa.error().message.c_str()), 2;
  table = select_kernels(*isa).value();
  roofs = measure_roofs(table);
  std::printf("%s; one thread: int8 %.0f GOPS, bf16 %.0f, f32 %.0f GFLOPS, reading memory %.1f GB/s\n",
              std::string(to_string(*isa)).c_str(), roofs.int8, roofs.bf16, roofs.f32, roofs.read);
  register_all();
  benchmark::RunSpecifiedBenchmarks();
}
