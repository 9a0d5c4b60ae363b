# SPDX-License-Identifier: Apache-2.0
"""Runs DSP kernels on an emulated board, many cases in one run, and compares them with the reference of their op."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
from numpy.typing import NDArray

import pillion
from pillion.emitters.c import dsp
from pillion.emitters.c.kernel import Call, Kernel
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import Array
from pillion.ir.verdict import all_ok

HERE = Path(__file__).parent
KERNELS = HERE.parents[1] / "kernels"
BOARD_FILES = Path(pillion.__file__).parent / "boards" / "data" / "harness"
ROUTINES = tuple(dict.fromkeys(dsp.ROUTINES))
COMPILER = "arm-none-eabi-gcc"
EMULATOR = "qemu-system-arm"
WARNINGS = ("-std=c99", "-Wall", "-Wextra", "-Wconversion", "-Werror")
SECONDS = 300
JUNK = np.uint8(0xA5).view(np.int8)
"""What y is filled with, as in dsp_rig.c."""


@dataclass(frozen=True)
class Board:
    machine: str
    cpu: str
    tick_ns: str
    float_abi: str = "hard"


M33 = Board("mps2-an505", "cortex-m33", "50")
M4 = Board("mps2-an386", "cortex-m4", "40")
M7 = Board("mps2-an500", "cortex-m7", "40")


@dataclass(frozen=True)
class Case:
    """One call: its operands, where y lies relative to a multiple of 16, and whether y is the memory of x."""

    call: Call
    operands: tuple[Array, ...]
    misalign: int = 0
    in_place: bool = False
    scratch_bytes: int = 0


@dataclass(frozen=True)
class Result:
    y: Array
    instructions: int
    stayed_inside: bool


def _table() -> str:
    lines = ['#include "pillion/dsp.h"', "typedef void (*rig_function)(void);"]
    names = ", ".join(f"(rig_function)(void *){r.name}" for r in ROUTINES)
    return "\n".join([*lines, f"static const rig_function rig_table[] = {{{names}}};", ""])


@lru_cache(None)
def image(board: Board) -> Path:
    """The rig with all DSP kernels, linked for a board."""
    folder = Path(mkdtemp(prefix="dsp_rig_"))
    (folder / "rig_table.h").write_text(_table().replace("(void *)", ""))
    own = [HERE / "dsp_rig.c", *sorted((KERNELS / "dsp").glob("*.c"))]
    board_files = [BOARD_FILES / name for name in ("startup.c", "semihosting.c", "cortex_m.c", "memory.c")]
    flags = [
        f"-mcpu={board.cpu}",
        "-mthumb",
        f"-mfloat-abi={board.float_abi}",
        "-O2",
        "-ffunction-sections",
        "-Wno-cast-function-type",
    ]
    defines = ["-DPILLION_RIG_BYTES=4128768", f"-DPILLION_TICK_NS={board.tick_ns}"]
    includes = [f"-I{path}" for path in (folder, KERNELS / "include", BOARD_FILES)]
    link = [
        "-nostartfiles",
        "-nostdlib",
        f"-L{BOARD_FILES}",
        "-T",
        str(BOARD_FILES / f"{board.machine}.ld"),
        "-lgcc",
    ]
    out = folder / "rig.elf"
    sources = [str(path) for path in (*own, *board_files)]
    subprocess.run(
        [COMPILER, *WARNINGS, *flags, *defines, *includes, *sources, "-o", str(out), *link], check=True
    )
    return out


def _words(*numbers: int) -> bytes:
    return np.array(numbers, np.int64).astype(np.uint32).tobytes()


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def _serialize(case: Case) -> bytes:
    params, constants, relocations = [], b"", []
    for number in case.call.params.values():
        if isinstance(number, np.ndarray):
            relocations.append(len(params))
            params.append(len(constants))
            constants += number.tobytes() + bytes(-number.nbytes % 8)
        elif isinstance(number, float):
            params.append(int(np.float32(number).view(np.uint32)))
        else:
            params.append(number)
    operands = [x.tobytes() for x in case.operands]
    lengths = [len(x) for x in operands] + [0] * (3 - len(operands))
    header = _words(
        ROUTINES.index(case.call.routine), len(operands), *lengths, case.call.output.type.size_bytes, case.scratch_bytes,
        case.misalign, case.in_place, len(params), len(constants), len(relocations),
    )  # fmt: skip
    return b"".join(
        [header, _words(*params), _padded(constants), _words(*relocations), *map(_padded, operands)]
    )


def run(board: Board, cases: Sequence[Case]) -> list[Result]:
    """All cases in one run of the emulator."""
    program = image(board)
    folder = Path(mkdtemp(prefix="dsp_run_"))
    (folder / "cases.bin").write_bytes(_words(len(cases)) + b"".join(map(_serialize, cases)))
    machine = ["-M", board.machine, "-nographic", "-monitor", "none", "-serial", "none", "-icount", "shift=0"]
    semihosting = ["-semihosting-config", "enable=on,target=native"]
    command = [EMULATOR, *machine, *semihosting, "-kernel", str(program)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    data = (folder / "results.bin").read_bytes()
    shutil.rmtree(folder)
    return list(_results(board, cases, data))


def _results(board: Board, cases: Sequence[Case], data: bytes) -> Iterable[Result]:
    offset = 0
    for case in cases:
        ticks, inside = np.frombuffer(data, np.uint32, 2, offset)
        y = case.call.output
        values = np.frombuffer(data, y.dtype.numpy, y.type.elements, offset + 8).reshape(y.shape)
        offset += 8 + y.type.size_bytes + -y.type.size_bytes % 4
        yield Result(values, int(ticks) * int(board.tick_ns), bool(inside))


def kernel_of(op: Op, arithmetic: Arithmetic = Arithmetic.CMSIS_NN) -> Kernel | None:
    """The first kernel that takes the op."""
    fitting = (k for k in dsp.KERNELS if isinstance(op, k.op) and all_ok(k.takes(op, arithmetic)))
    return next(fitting, None)


def random_operands(op: Op, rng: np.random.Generator, extreme: bool = False) -> tuple[Array, ...]:
    return tuple(_random(v.shape, v.dtype.numpy, rng, extreme) for v in op.activations)


def _random(
    shape: tuple[int, ...], dtype: np.dtype[np.generic], rng: np.random.Generator, extreme: bool
) -> Array:
    if dtype == np.float32:
        return (rng.standard_normal(shape) * (100 if extreme else 3)).astype(np.float32)
    if extreme:
        return rng.choice(np.array([-128, 127], np.int8), shape)
    return rng.integers(-128, 127, shape, endpoint=True).astype(np.int8)


def reference(op: Op, arithmetic: Arithmetic, activations: tuple[Array, ...]) -> Array:
    given = iter(activations)
    return op.reference(arithmetic, *(v.constant if v.is_constant else next(given) for v in op.operands))


def in_order_of_call(call: Call, op: Op, activations: tuple[Array, ...]) -> tuple[Array, ...]:
    """What a call is given: operands in its own order, constants among them."""
    data = dict(zip(op.activations, activations, strict=True))
    return tuple(v.constant if v.is_constant else data[v] for v in call.inputs)


def check(
    board: Board, ops: Sequence[Op], seed: int = 0, arithmetic: Arithmetic = Arithmetic.CMSIS_NN
) -> list[int]:
    """Every op with random and with extreme data: the answer and the guards. Gives the instructions of the last data."""
    rng = np.random.default_rng(seed)
    cases: list[Case] = []
    expected: list[tuple[Op, NDArray[np.generic]]] = []
    for number, op in enumerate(ops):
        kernel = kernel_of(op, arithmetic)
        assert kernel is not None, f"no kernel takes {op}"
        (call,) = kernel.calls(op, arithmetic)
        for extreme in (True, False):
            operands = random_operands(op, rng, extreme)
            in_place = call.inputs[0] in kernel.in_place(op) and number % 2 == 1
            bytes_only = all(v.dtype.size_bytes == 1 for v in (*op.activations, op.results[0]))
            misalign = number % 4 if bytes_only else 0
            given = in_order_of_call(call, op, operands)
            cases.append(Case(call, given, misalign, in_place, kernel.scratch_bytes(op)))
            expected.append((op, reference(op, arithmetic, operands)))
    results = run(board, cases)
    for (op, want), result in zip(expected, results, strict=True):
        wrong = np.flatnonzero(result.y.reshape(-1) != want.reshape(-1))
        assert not len(wrong), (
            f"{len(wrong)} of {want.size} differ, first at {np.unravel_index(wrong[0], want.shape)}: {op}"
        )
        assert result.stayed_inside, f"wrote outside its memory: {op}"
    return [result.instructions for result in results[1::2]]
