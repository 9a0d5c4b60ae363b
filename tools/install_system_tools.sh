#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs from Debian's or Ubuntu's packages what is missing: arm-none-eabi-gcc and qemu-system-arm, and with --tests what
# else the tests ask, clang among them. Without the right to do so it says what is missing and what is left out without it.
set -u

missing=""
left_out=""

# want COMMAND PACKAGES WHAT: the packages are missing if the command is, and without them WHAT is left out.
want() {
    command -v "$1" >/dev/null 2>&1 && return
    missing="$missing $2"
    case "$left_out" in
    *"$3"*) ;;
    "") left_out="$3" ;;
    *) left_out="$left_out, $3" ;;
    esac
}

want arm-none-eabi-gcc "gcc-arm-none-eabi libnewlib-arm-none-eabi" "emulated boards"
want qemu-system-arm qemu-system-arm "emulated boards"
want cc "gcc libc6-dev" "programs on this computer"
if [ "${1-}" = --tests ]; then
    want make make "tests of the generated Makefile"
    want cmake cmake "tests of the generated CMakeLists.txt"
    want c++ g++ "tests in ExecuTorch's runtime"
    want clang clang "tests of the kernels with clang"
    want chromedriver "chromium chromium-driver" "tests of reports in a browser"
fi
[ -z "$missing" ] && exit 0

if ! command -v apt-get >/dev/null 2>&1; then
    echo "missing:$missing (no apt-get here: install them with your system's package manager). Left out: $left_out." >&2
    exit 0
fi
if [ "$(id -u)" = 0 ]; then
    as_root=""
elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
    as_root="sudo"
else
    echo "missing:$missing. Install with: sudo apt-get install$missing. Left out until then: $left_out." >&2
    exit 0
fi

echo "installing$missing ..."
$as_root apt-get update -qq >/dev/null 2>&1
# shellcheck disable=SC2086
if ! DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends $missing >/dev/null 2>&1; then
    echo "could not install$missing. Left out: $left_out." >&2
fi
exit 0
