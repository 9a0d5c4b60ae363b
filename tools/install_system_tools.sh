#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs arm-none-eabi-gcc and qemu-system-arm from Debian's or Ubuntu's packages where they are missing.
# Without the right to do so it says what is missing; whatever needs no board still works.
set -u

missing=""
command -v arm-none-eabi-gcc >/dev/null 2>&1 || missing="$missing gcc-arm-none-eabi libnewlib-arm-none-eabi"
command -v qemu-system-arm >/dev/null 2>&1 || missing="$missing qemu-system-arm"
command -v cc >/dev/null 2>&1 || missing="$missing gcc libc6-dev"
[ -z "$missing" ] && exit 0

if ! command -v apt-get >/dev/null 2>&1; then
    echo "missing:$missing (no apt-get here: install them with your system's package manager). Boards are left out." >&2
    exit 0
fi
if [ "$(id -u)" = 0 ]; then
    as_root=""
elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
    as_root="sudo"
else
    echo "missing:$missing. Install with: sudo apt-get install$missing. Until then boards are left out." >&2
    exit 0
fi

echo "installing$missing ..."
$as_root apt-get update -qq >/dev/null 2>&1
# shellcheck disable=SC2086
if ! DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends $missing >/dev/null 2>&1; then
    echo "could not install$missing. Boards are left out." >&2
fi
exit 0
