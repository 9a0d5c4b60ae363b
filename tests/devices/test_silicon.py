# SPDX-License-Identifier: Apache-2.0
"""Cores as chips have them: with or without the extensions that their makers leave to those who build chips."""

from __future__ import annotations

import subprocess

import pytest

from pillion.boards.board import BOARDS
from pillion.boards.toolchain import ARM_COMPILER
from pillion.devices.cortex_m import CORES, Core, Isa
from pillion.devices.cortex_m.cycles import CYCLES
from pillion.emitters.c.project import boards_for
from pillion.errors import PillionError
from pillion.run.time_estimate import STAND_IN_BOARDS
from pillion.targets import TARGETS, find_target

UNKNOWN_TO_OLD_COMPILERS = ("cortex-m52", "cortex-m85")


def macros(core: Core) -> str:
    """What the compiler defines for a core; nothing where it does not know it."""
    command = [ARM_COMPILER.path(), *core.cflags, "-mfloat-abi=soft", "-dM", "-E", "-x", "c", "/dev/null"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0 or core.plain in UNKNOWN_TO_OLD_COMPILERS, done.stderr
    return done.stdout if done.returncode == 0 else ""


@pytest.mark.skipif(ARM_COMPILER.find() is None, reason="needs arm-none-eabi-gcc")
@pytest.mark.parametrize("core", CORES.values(), ids=list(CORES))
def test_the_compiler_knows_the_same_extensions(core: Core) -> None:
    said = macros(core)
    if said:
        dsp = "#define __ARM_FEATURE_DSP 1" in said
        assert dsp == (core.isa is not Isa.SCALAR)
        assert core.isa is not Isa.MVE or core.left_out == ()


@pytest.mark.parametrize("name", CORES)
def test_a_core_is_a_target_with_or_without_the_number_format(name: str) -> None:
    assert find_target(name) is find_target(f"{name}+int8") is TARGETS[f"{name}+int8"]
    assert find_target(name.upper()).core.name == name


@pytest.mark.parametrize(
    ("name", "summary"),
    [
        ("cortex-m0", "Arm Cortex-M0, scalar kernels"),
        ("cortex-m0plus", "Arm Cortex-M0+, scalar kernels"),
        ("cortex-m33+nodsp", "Arm Cortex-M33 without the DSP extension, scalar kernels"),
        ("cortex-m55+nomve", "Arm Cortex-M55 without Helium, DSP kernels"),
        ("cortex-m35p", "Arm Cortex-M35P, DSP kernels"),
    ],
)
def test_summaries_name_missing_extensions(name: str, summary: str) -> None:
    assert find_target(name).summary == summary


@pytest.mark.parametrize(
    ("name", "rule", "instead"),
    [
        ("cortex-m4+nodsp", "every Cortex-M4 has the DSP extension", "cortex-m4"),
        (
            "cortex-m55+nodsp",
            "every Cortex-M55 has the DSP extension, and may lack Helium",
            "cortex-m55+nomve",
        ),
        ("cortex-m85+nomve+nodsp", "every Cortex-M85 has the DSP extension", "cortex-m85+nomve"),
        ("cortex-m3+nodsp", "no Cortex-M3 has the DSP extension", "cortex-m3"),
        ("cortex-m33+nomve", "no Cortex-M33 has Helium", "cortex-m33"),
        ("cortex-m55+nofp", "Helium kernels use floating-point vectors", "cortex-m55+nomve"),
        ("cortex-m55+nomve.fp", "Helium kernels use floating-point vectors", "cortex-m55+nomve"),
        ("cortex-m33+nofp+int8", "programs are the same with and without floating point", "cortex-m33"),
        ("cortex-m0+", "the + of a core's name is written `plus`", "cortex-m0plus"),
        ("cortex-m33+fast", "what silicon may lack is +nodsp, +nomve", "cortex-m33"),
    ],
)
def test_targets_with_an_unbuilt_core_are_refused(name: str, rule: str, instead: str) -> None:
    with pytest.raises(PillionError) as error:
        find_target(name)
    assert rule in error.value.rule
    assert error.value.help == f"--target {instead}"
    assert find_target(instead).core.name == instead


def test_a_core_without_an_extension_runs_on_boards_that_have_its_kernels() -> None:
    assert "mps3-an547" not in [board.name for board in boards_for(find_target("cortex-m55+nomve").isa)]
    for name, board in STAND_IN_BOARDS.items():
        core = CORES[name]
        assert core.board is None
        assert CORES[BOARDS[board].core].runs(core.isa)
        assert core.plain in CYCLES
