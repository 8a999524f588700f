#!/bin/sh
# Installs what is missing, builds the release, passes all tests. Usage: ./test.sh [ctest options]
set -eu
cd "$(dirname "$0")"
tools/install.sh
tools/build.sh release
build/release/millrace fetch smollm2-135m-instruct >/dev/null || echo "test.sh: without the default model its tests are skipped" >&2
exec ctest --test-dir build/release --output-on-failure -j "$(nproc)" "$@"
