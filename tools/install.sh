#!/bin/sh
# Installs the Debian packages that a build needs, those that are missing only: with all of them there, nothing is asked
# of any server. Usage: tools/install.sh [build|ci]      ci: what the slower gates of .ci/run need, too
set -eu

packages="build-essential cmake ninja-build pkg-config ca-certificates curl python3 python3-pip python3-venv
  nlohmann-json3-dev libcli11-dev libfmt-dev libspdlog-dev libssl-dev libboost-dev prometheus-cpp-dev libpcre2-dev libutf8proc-dev libxxhash-dev libhwloc-dev
  libsystemd-dev
  libgtest-dev libsimde-dev"
[ "${1:-build}" = ci ] && packages="$packages clang ccache g++-aarch64-linux-gnu qemu-user googletest prometheus help2man"

missing_of() {
  for package in "$@"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || printf '%s ' "$package"
  done
}

install() {
  [ $# -gt 0 ] || return 0
  as_root=
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || { echo "install.sh: needs root or sudo to install: $*" >&2; exit 1; }
    as_root=sudo
  fi
  echo "installing $*" >&2
  $as_root apt-get -qq update >&2 </dev/null
  $as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install "$@" >&2 </dev/null
}

install $(missing_of $packages)

# The Node.js of some machines brings its own npm, and Debian's npm would not go with it.
if [ "${1:-build}" = ci ] && ! command -v npm >/dev/null; then install nodejs npm; fi

# clang's sanitizer and fuzzer libraries are a package named after its version.
if [ "${1:-build}" = ci ]; then
  version=$(clang --version | sed -n 's/.*clang version \([0-9]*\).*/\1/p')
  install $(missing_of "libclang-rt-$version-dev")
fi
