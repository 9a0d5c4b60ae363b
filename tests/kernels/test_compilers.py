# SPDX-License-Identifier: Apache-2.0
"""Clang takes all kernels that GCC takes: those for hosts are in test_portable.py, those for Cortex-M here."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from nightly import part_of, runs_all

pytestmark = pytest.mark.slow

KERNELS = Path(__file__).parents[2] / "kernels"
GCC, CLANG = "arm-none-eabi-gcc", "clang"
WARNINGS = ("-std=c99", "-pedantic", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-ffp-contract=off")
CORES = {
    "dsp": (("cortex-m4", "soft"), ("cortex-m7", "hard"), ("cortex-m33", "soft")),
    "mve": (("cortex-m55", "hard"),),
    "scalar": (("cortex-m0plus", "soft"), ("cortex-m3", "soft")),
    "portable": (("cortex-m0plus", "soft"),),
}
BUILDS = [(folder, *core) for folder, cores in CORES.items() for core in cores]
FRAMES = ("-fno-omit-frame-pointer",)
"""What debuggers and profilers ask for: r7 is taken, so that assembly in functions of C has a register less."""
WITH_ASSEMBLY = [
    ("dsp", "cortex-m33", "soft"),
    ("mve", "cortex-m55", "hard"),
    *(b for b in BUILDS if b[0] == "scalar"),
]


def c_library() -> str:
    """Where the headers of the C library for Arm lie: the cross compiler knows."""
    command = [GCC, "-M", "-x", "c", "-"]
    done = subprocess.run(command, input="#include <string.h>\n", capture_output=True, text=True, check=True)
    found = re.search(r"(\S+)/string\.h", done.stdout)
    assert found is not None, done.stdout
    return found[1]


@pytest.mark.skipif(
    not (shutil.which("make") and shutil.which("cc")), reason="needs make and a C compiler: make test-tools"
)
def test_the_library_passes_its_own_tests(tmp_path: Path) -> None:
    command = ["make", "-C", str(KERNELS), "test", f"BUILD={tmp_path}"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 failures" in done.stdout


@pytest.mark.skipif(
    not (shutil.which(GCC) and shutil.which(CLANG)), reason=f"needs {CLANG} and {GCC}: make test-tools"
)
@pytest.mark.nightly
@pytest.mark.parametrize(("folder", "core", "floats"), BUILDS)
def test_clang_compiles_without_a_warning(folder: str, core: str, floats: str, tmp_path: Path) -> None:
    clang_compiles(folder, core, floats, ("-O2",), tmp_path)


@pytest.mark.turns(5)
@pytest.mark.skipif(
    not (shutil.which(GCC) and shutil.which(CLANG)), reason=f"needs {CLANG} and {GCC}: make test-tools"
)
@pytest.mark.parametrize("options", part_of([("-Os", *FRAMES), ("-O0",)], 2), ids=" ".join)
@pytest.mark.parametrize(("folder", "core", "floats"), part_of(WITH_ASSEMBLY, 2))
def test_clang_compiles_at_other_levels(
    folder: str, core: str, floats: str, options: tuple[str, ...], tmp_path: Path
) -> None:
    clang_compiles(folder, core, floats, options, tmp_path)


def clang_compiles(folder: str, core: str, floats: str, options: tuple[str, ...], tmp_path: Path) -> None:
    sources = sorted((KERNELS / folder).glob("*.c"))
    command = [
        *(CLANG, "--target=arm-none-eabi", f"-mcpu={core}", "-mthumb", f"-mfloat-abi={floats}", *options),
        *(*WARNINGS, "-isystem", c_library(), "-I", str(KERNELS / "include"), "-c", *map(str, sources)),
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(list(tmp_path.glob("*.o"))) == len(sources)


@pytest.mark.turns(4)
@pytest.mark.skipif(not shutil.which(GCC), reason=f"needs {GCC}: make test-tools")
@pytest.mark.parametrize("level", part_of(["-O0", "-O1", "-Og", "-Os", "-O3"], 5))
@pytest.mark.parametrize(("folder", "core", "floats"), BUILDS if runs_all() else WITH_ASSEMBLY[1:2])
def test_gcc_compiles_at_every_level(folder: str, core: str, floats: str, level: str, tmp_path: Path) -> None:
    gcc_compiles(folder, core, floats, (level,), tmp_path)


@pytest.mark.turns(4)
@pytest.mark.skipif(not shutil.which(GCC), reason=f"needs {GCC}: make test-tools")
@pytest.mark.parametrize("level", part_of(["-Os", "-Og", "-O2", "-O3"], 4))
@pytest.mark.parametrize(("folder", "core", "floats"), part_of(WITH_ASSEMBLY, 3))
def test_gcc_compiles_with_frame_pointers(
    folder: str, core: str, floats: str, level: str, tmp_path: Path
) -> None:
    gcc_compiles(folder, core, floats, (level, *FRAMES), tmp_path)


def gcc_compiles(folder: str, core: str, floats: str, options: tuple[str, ...], tmp_path: Path) -> None:
    sources = sorted((KERNELS / folder).glob("*.c"))
    command = [
        *(GCC, f"-mcpu={core}", "-mthumb", f"-mfloat-abi={floats}", *options, "-g", *WARNINGS),
        *(("-mfpu=fpv5-sp-d16",) if core == "cortex-m7" else ()),
        *("-I", str(KERNELS / "include"), "-c", *map(str, sources)),
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
