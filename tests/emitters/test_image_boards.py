# SPDX-License-Identifier: Apache-2.0
"""Program images on emulated boards: one firmware that is never rebuilt, to which images are handed as files."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from image_programs import kernel_numbers
from pillion import zoo
from pillion.boards.board import find_board
from pillion.boards.toolchain import ARM_COMPILER, arm_compiler
from pillion.devices.cortex_m import CORES
from pillion.emitters.image.kernel_set import kernel_set_files, kernels_of_core, write_kernel_set
from pillion.emitters.image.writer import image_bytes
from pillion.errors import PillionError
from pillion.ir.types import Array
from pillion.run.image_board import image_firmware
from tiling.test_row_input import BOARDS as CAMERA_BOARDS
from tiling.test_row_input import by_rows, picture, whole
from zoo_programs import SMALL, compiled

pytestmark = [pytest.mark.slow, pytest.mark.torch, pytest.mark.qemu]

BOARDS = {"cortex-m33+int8": "mps2-an505", "cortex-m55+int8": "mps3-an547"}
NAMES = ("ds_cnn", "mobilenet_v3_small", "resnet8", "deep_autoencoder")
MOST_INSTRUCTIONS = 1.0065
"""Of an image whose calls are resolved, as a share of those of the C project."""
MOST_CODE = 3 * 1024


def raw(outputs: tuple[Array, ...]) -> bytes:
    return b"".join(np.ascontiguousarray(y).tobytes() for y in outputs)


@pytest.mark.turns(2)
@pytest.mark.parametrize("target", BOARDS)
def test_one_firmware_runs_several_models_as_fast_as_their_projects(target: str, tmp_path: Path) -> None:
    board = find_board(BOARDS[target])
    programs = [compiled(name, target) for name in NAMES]
    firmware = image_firmware(tmp_path, kernel_numbers(p.lowered for p in programs), board)
    for name, program in zip(NAMES, programs, strict=True):
        inputs = [x.numpy() for x in zoo.random_inputs(name, 1, SMALL.get(name), seed=3)[0]]
        project = program.measure(*inputs, on=board.name)
        image = firmware.run(image_bytes(program.lowered, program.target.core.name), [inputs], profile=True)
        assert image.outputs == raw(project.outputs), name
        assert image.instructions is not None
        assert project.profile is not None
        share = image.instructions / project.profile.instructions
        print(f"{name} {target}: {share:.4f} of the instructions, {image.stack_bytes} bytes of stack")
        assert share <= MOST_INSTRUCTIONS


@pytest.mark.turns(2)
@pytest.mark.parametrize("target", CAMERA_BOARDS)
def test_rows_in_and_stripes_give_the_same_bytes_and_another_kernel_set_refuses(
    target: str, tmp_path: Path
) -> None:
    plain, board = whole(target), find_board(CAMERA_BOARDS[target])
    program = by_rows(plain, extra="5%")
    firmware = image_firmware(tmp_path, kernel_numbers([program.lowered]), board)
    x = picture(plain, 1)
    image = image_bytes(program.lowered, program.target.core.name)
    assert firmware.run(image, [[x]], profile=True).outputs == raw(plain.graph.reference(x))
    with pytest.raises(PillionError, match="no kernel"):
        firmware.run(image_bytes(compiled("resnet8", f"{target}+int8").lowered, target), [[x]])
    with pytest.raises(PillionError, match="damaged"):
        firmware.run(image[:-1] + bytes([image[-1] ^ 1]), [[x]])


@pytest.mark.skipif(ARM_COMPILER.find() is None, reason="missing: a C compiler for Cortex-M")
@pytest.mark.parametrize("core", ["cortex-m0", "cortex-m33", "cortex-m55"])
def test_the_run_time_is_small_and_all_kernels_compile(core: str, tmp_path: Path) -> None:
    """The table of all kernels checks the layout of their params when it is compiled."""
    files = kernel_set_files(kernels_of_core(CORES[core]), CORES[core])
    write_kernel_set(files, tmp_path)
    flags = ["-std=c99", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-Os", *CORES[core].cflags]
    flags += ["-mfloat-abi=hard"] * (core != "cortex-m0")
    command = [*arm_compiler(), *flags, "-I.", "-Iinclude", "-c"]
    sources = ["pillion_image.c", "pillion_image_bind.c", "pillion_kernels.c"]
    subprocess.run([*command, *sources], cwd=tmp_path, check=True)
    shown = subprocess.run(
        ["arm-none-eabi-size", "pillion_image.o"], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    text, data, bss = map(int, shown.stdout.splitlines()[1].split()[:3])
    assert text <= MOST_CODE
    assert data == bss == 0
