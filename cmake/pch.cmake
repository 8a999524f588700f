# Headers that are no part of this project, compiled once for all files instead of once in each: near half of the build
# time. Kernels do without: what an object with ISA flags contains has to stay in sight (kernels.cmake). The fuzz build
# has none, and so proves that every file includes what it uses.
function(millrace_pch name)  # millrace_pch(NAME [LIBRARY HEADER OPTION])
  file(CONFIGURE OUTPUT ${name}.cpp CONTENT "")
  add_library(${name} OBJECT ${PROJECT_BINARY_DIR}/${name}.cpp)
  target_link_libraries(${name} PRIVATE fmt::fmt spdlog::spdlog Threads::Threads millrace_flags ${ARGV1})
  target_compile_options(${name} PRIVATE ${ARGV3})
  target_precompile_headers(${name} PRIVATE
    <algorithm> <array> <atomic> <bit> <cmath> <cstdint> <cstring> <functional> <limits> <map> <memory> <mutex> <numeric>
    <optional> <set> <span> <string> <string_view> <unordered_map> <utility> <variant> <vector> <fmt/core.h> ${ARGV2})
endfunction()

function(millrace_use_pch target pch)
  if(TARGET ${pch} AND NOT target MATCHES "^kernels")
    target_precompile_headers(${target} REUSE_FROM ${pch})
  endif()
endfunction()

if(NOT MILLRACE_FUZZ)
  millrace_pch(pch)
  if(MILLRACE_TESTS)
    millrace_pch(pch_tests GTest::gtest <gtest/gtest.h> ${quick_build})
  endif()
endif()
