# Headers that are no part of this project, compiled once for all files instead of once in each: a file like
# graph/plan.cpp takes 1.8 s instead of 3.5 (EPYC Zen 3, GCC 12). Kernels do without: what an object with ISA flags contains has to stay in sight (kernels.cmake). The fuzz build
# has none, and so proves that every file includes what it uses. GCC takes one only at the -O level it was made with.
function(millrace_pch name option)  # millrace_pch(NAME OPTION [LIBRARY HEADER])
  file(CONFIGURE OUTPUT ${name}.cpp CONTENT "")
  add_library(${name} OBJECT ${PROJECT_BINARY_DIR}/${name}.cpp)
  target_link_libraries(${name} PRIVATE fmt::fmt spdlog::spdlog Threads::Threads millrace_flags ${ARGV2})
  target_compile_options(${name} PRIVATE ${option})
  target_precompile_headers(${name} PRIVATE
    <algorithm> <array> <atomic> <bit> <cmath> <cstdint> <cstring> <functional> <limits> <map> <memory> <mutex> <numeric>
    <optional> <set> <span> <string> <string_view> <unordered_map> <utility> <variant> <vector> <fmt/core.h> ${ARGV3})
endfunction()

function(millrace_use_pch target pch)
  if(TARGET ${pch} AND NOT target MATCHES "^kernels")
    target_precompile_headers(${target} REUSE_FROM ${pch})
  endif()
endfunction()

if(NOT MILLRACE_FUZZ)
  millrace_pch(pch "")
  millrace_pch(pch_quick "${quick_build}")
  if(MILLRACE_TESTS)
    millrace_pch(pch_tests "${quick_build}" GTest::gtest <gtest/gtest.h>)
  endif()
endif()
