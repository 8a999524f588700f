# Benchmarks: built by name only (ninja kernels_bench sampling_bench), when Google Benchmark is installed.
find_package(benchmark QUIET)
if(benchmark_FOUND)
  add_executable(kernels_bench EXCLUDE_FROM_ALL bench/kernels_bench.cpp)
  target_link_libraries(kernels_bench PRIVATE kernels benchmark::benchmark)
  add_executable(sampling_bench EXCLUDE_FROM_ALL bench/sampling_bench.cpp)
  target_link_libraries(sampling_bench PRIVATE sampling benchmark::benchmark)
endif()
