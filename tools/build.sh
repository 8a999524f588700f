#!/bin/sh
# Configures and builds one preset, output on standard error. Usage: tools/build.sh PRESET [TARGET...]
set -eu
cd "$(dirname "$0")/.."
preset=$1
shift
command -v ccache >/dev/null && export CMAKE_CXX_COMPILER_LAUNCHER="${CMAKE_CXX_COMPILER_LAUNCHER-ccache}"
cmake --preset "$preset" >&2
cmake --build "build/$preset" -j "$(nproc)" ${1:+--target "$@"} >&2
