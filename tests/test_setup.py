# SPDX-License-Identifier: Apache-2.0
"""The set-up brings what the tests ask for, and a machine on which it cannot says what is left out."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
SCRIPT = ROOT / "tools" / "install_system_tools.sh"
NEEDED = ("sh", "id", "echo")
"""What the script itself calls."""
TOOLS = {
    "arm-none-eabi-gcc": ("gcc-arm-none-eabi libnewlib-arm-none-eabi", "emulated boards"),
    "qemu-system-arm": ("qemu-system-arm", "emulated boards"),
    "cc": ("gcc libc6-dev", "programs on this computer"),
    "make": ("make", "tests of the generated Makefile"),
    "cmake": ("cmake", "tests of the generated CMakeLists.txt"),
    "c++": ("g++", "tests in ExecuTorch's runtime"),
    "clang": ("clang", "tests of the kernels with clang"),
    "chromedriver": ("chromium chromium-driver", "tests of reports in a browser"),
}
"""Each with its packages, and with what is left out without it."""
FOR_USERS = ("arm-none-eabi-gcc", "qemu-system-arm", "cc")


def said(folder: Path, missing: tuple[str, ...], *options: str) -> str:
    """What the script says on a machine without some tools and without apt-get."""
    for tool in (*NEEDED, *(tool for tool in TOOLS if tool not in missing)):
        (folder / tool).symlink_to(shutil.which(tool) or "/bin/true")
    command = ["sh", str(SCRIPT), *options]
    done = subprocess.run(command, env={**os.environ, "PATH": str(folder)}, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")
    return done.stderr


@pytest.mark.parametrize("tool", TOOLS)
def test_missing_tools_are_named_with_the_skipped_tests(tool: str, tmp_path: Path) -> None:
    text = said(tmp_path, (tool,), "--tests")
    packages, left_out = TOOLS[tool]
    assert text.startswith(f"missing: {packages} (")
    assert text.endswith(f"Left out: {left_out}.\n")


@pytest.mark.parametrize("tool", TOOLS)
def test_users_need_fewer_tools_than_tests(tool: str, tmp_path: Path) -> None:
    assert bool(said(tmp_path, (tool,))) == (tool in FOR_USERS)


def test_complete_setups_print_no_message(tmp_path: Path) -> None:
    assert said(tmp_path, (), "--tests") == ""


def test_tosa_tools_have_executorchs_version() -> None:
    try:
        wanted = importlib.metadata.requires("executorch") or []
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("pip install 'pillion[executorch]'")
    pinned = re.search(r"^TOSA\s*\?= (\S+)$", MAKEFILE, re.MULTILINE)
    assert pinned is not None
    assert {pinned[1]} == {w.split(";")[0].strip() for w in wanted if w.startswith("tosa-tools")}
