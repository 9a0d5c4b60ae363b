# SPDX-License-Identifier: Apache-2.0
"""Images that nobody vouches for, on emulated boards: whatever the numbers in their params are, a guarded run stays in its memory."""

from __future__ import annotations

import json
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import pillion
from example_graphs import samples_of
from image_programs import kernel_numbers
from pillion.boards.board import Board, find_board, firmware_files
from pillion.boards.qemu import command_line
from pillion.boards.toolchain import arm_compiler
from pillion.devices.cortex_m import CORES
from pillion.emitters.c.lower import CProgram
from pillion.emitters.image.kernel_abi import kernel_abi
from pillion.emitters.image.kernel_set import kernel_set_files, write_kernel_set
from pillion.emitters.image.reader import image_in, schedule_steps
from pillion.emitters.image.writer import CALL, image_bytes
from pillion.ir.types import Array
from pillion.program import Program
from tiling.test_row_input import BOARDS, by_rows, whole

pytestmark = [pytest.mark.slow, pytest.mark.torch, pytest.mark.qemu]

SOURCE = Path(__file__).parents[1] / "data" / "images" / "guarded.c"
TIMES, TICKS = 1250, (1 << 24) - 1


def build(folder: Path, program: CProgram, board: Board, image: bytes, samples: int) -> Path:
    """Returns the firmware with the kernels of a program, which damages its image and runs it."""
    facts = image_in(image, "a test")
    write_kernel_set(kernel_set_files(kernel_numbers([program]), CORES[board.core]), folder / "set")
    for path, text in firmware_files("set", [board.name]).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(str(text), "utf-8")
    harness, code = folder / "harness", board.regions["CODE"]
    sources = [SOURCE, *(folder / "set").rglob("*.c")]
    sources += [harness / f"{name}.c" for name in ("startup", "semihosting", "memory", "cortex_m")]

    def rounded(size: int) -> int:
        return (size + 4096) // 4096 * 4096

    sizes = {"IMAGE": len(image), "INPUT": samples, "ARENA": facts.arena_bytes, "STATE": facts.state_bytes}
    defined = [f"-D{name}_BYTES={rounded(size)}u" for name, size in sizes.items()]
    defined += [f"-DPLAN_WORDS={rounded(len(image) // 4 + 8)}u", f"-DPILLION_TICK_NS={board.tick_ns:g}"]
    defined += [f"-DCODE_BEGIN=(void*){code.origin}u", f"-DCODE_END=(void*){code.origin + code.bytes}u"]
    command = [*arm_compiler(), *board.cflags, "-O2", "-std=c11", "-Wall", "-ffp-contract=off", *defined]
    command += [
        "-fno-tree-loop-distribute-patterns",
        f"-I{folder}/set",
        f"-I{folder}/set/include",
        f"-I{harness}",
    ]
    command += ["-nostdlib", "-Wl,--gc-sections", f"-L{harness}", "-T", str(harness / board.linker_script)]
    subprocess.run([*command, *map(str, sources), "-lgcc", "-o", str(folder / "fw.elf")], check=True)
    return folder / "fw.elf"


def places_of_params(image: bytes) -> list[int]:
    """The words of the params of all calls, without their pointers, which are checked."""
    words = struct.unpack(f"<{len(image) // 4}I", image)
    places = set()
    kernels = kernel_abi().kernels
    for step in schedule_steps(words, words[9] // 4, words[10]):
        if step.kind == CALL:
            kernel, at = kernels[step.number], words[step.at + 1]
            places |= {at + i for i in range(len(kernel.fields)) if i not in kernel.pointers}
    return sorted(places)


def fuzz(folder: Path, program: CProgram, board: Board, sample: list[Array]) -> dict[str, int]:
    """Damages params, and every word before the data, and returns what became of the runs."""
    image = image_bytes(program, board.core)
    raw = b"".join(np.ascontiguousarray(x).tobytes() for x in sample)
    elf = build(folder, program, board, image, len(raw))
    data = struct.unpack("<I", image[13 * 4 : 14 * 4])[0]
    sums: dict[str, int] = {}
    for seed, places in ((7, places_of_params(image)), (8, [*range(1, data // 4)])):
        plan = np.array([TIMES, seed, TICKS, len(places), *places], "<u4").tobytes()
        for name, content in {"net.plm": image, "input.bin": raw, "fuzz.bin": plan}.items():
            (folder / name).write_bytes(content)
        done = subprocess.run(
            command_line(elf, board, False), cwd=folder, capture_output=True, text=True, timeout=500
        )
        print(done.stdout)
        assert done.returncode == 0, done.stdout
        for name, value in json.loads(done.stdout.splitlines()[-1]).items():
            sums[name] = sums.get(name, 0) + value
    return sums


class Several(nn.Module):
    """Many kinds of kernels, in few instructions."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.deep = nn.Conv2d(3, 8, 3, stride=2), nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.wide, self.recurrent, self.head = nn.Conv2d(8, 12, 1), nn.LSTM(12, 7), nn.Linear(7, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x).relu()
        x = nn.functional.avg_pool2d(x + self.deep(x), 2)
        rows = self.wide(x).flatten(2).permute(2, 0, 1)
        rows = nn.functional.layer_norm(
            rows @ rows.transpose(1, 2).softmax(-1).expand(-1, -1, 1) * rows, (12,)
        )
        return self.head(self.recurrent(rows)[0].amax(0)).sigmoid()


def several(target: str) -> Program:
    torch.manual_seed(4)
    return pillion.compile(Several().eval(), torch.randn(1, 3, 13, 11), target=target, name="several")


@pytest.mark.turns(2)
@pytest.mark.parametrize("core", BOARDS)
@pytest.mark.parametrize("name", ["several", "camera"])
def test_hostile_params_stay_in_their_memory(name: str, core: str, tmp_path: Path) -> None:
    """In one run, and in one by rows: the firmware goes on after each run, and nothing beside the guard's memories has changed."""
    program = several(core) if name == "several" else by_rows(whole(core), extra="5%")
    runs = fuzz(tmp_path, program.lowered, find_board(BOARDS[core]), samples_of(program.graph, 1)[0])
    assert runs["equal"] == 2
    assert runs["broken"] == 0
    assert runs["refused"] + runs["stopped"] + runs["right"] + runs["other"] == 2 * TIMES
    assert min(runs["refused"], runs["stopped"], runs["right"], runs["other"]) > 0
    assert runs["late"] < runs["stopped"] / 2
