# SPDX-License-Identifier: Apache-2.0
"""Runs kernels, many cases in one run, on this computer or on an emulated board, and looks at what they did to memory."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from pillion.boards.board import BOARDS, Board, firmware_files
from pillion.devices.cortex_m import CORES, Isa
from pillion.emitters.c.kernel import Call, Kernel
from pillion.emitters.c.kernel_lists import KERNELS_OF
from pillion.emitters.c.params_structs import HEADERS, ParamsField, params_structs
from pillion.ir.types import Array, Value

HERE = Path(__file__).parent
KERNELS = HERE.parents[1] / "kernels"
WARNINGS = ("-std=c99", "-pedantic", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-ffp-contract=off")
SANITIZED = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
VECTORIZED = ("-O3", "-march=native")
MOST_INPUTS = 4
SECONDS = 300
FILLING = 0xA5
OTHER_FILLING = 0x7F
"""What lies behind an input may not count: a kernel that may read there is run with both."""
INSTRUCTION_NS = 128
"""The emulator's clock at -icount shift=7."""


@dataclass(frozen=True)
class Target:
    """Where kernels run: this computer, with some flags of its compiler, or a board."""

    folders: tuple[str, ...]
    flags: tuple[str, ...]
    board: Board | None = None

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The rows of the kernels that are made for this target."""
        return KERNELS_OF[Isa(self.folders[-1])]

    @property
    def pointer_bytes(self) -> int:
        return 4 if self.board else np.dtype(np.uintp).itemsize


def host(*flags: str) -> Target:
    """This computer."""
    return Target(("portable",), flags)


def with_vectors(*flags: str) -> Target:
    """This computer, by the kernels that are made for its vectors."""
    return Target(("host",), flags)


def board(name: str) -> Target:
    """An emulated board, with the kernels for its core."""
    found = BOARDS[name]
    isa = next(isa for isa in (Isa.MVE, Isa.DSP, Isa.SCALAR) if CORES[found.core].runs(isa))
    return Target(tuple(dict.fromkeys(("portable", isa.value))), ("-O2", *found.cflags), found)


M4, M7, M33, M55 = (board(f"mps{name}") for name in ("2-an386", "2-an500", "2-an505", "3-an547"))
M0, M3 = board("microbit"), board("mps2-an385")


@dataclass(frozen=True)
class Case:
    """Calls that make one result from some operands, perhaps in the memory of one of them."""

    calls: tuple[Call, ...]
    y: Value
    operands: Mapping[Value, Array]
    scratch_bytes: int = 0
    overread_bytes: int = 0
    overwritten: Value | None = None
    misalign: int = 0
    """How far from a multiple of 16 the result lies."""


@dataclass(frozen=True)
class Result:
    """What a case has answered, and whether it wrote to its result and its scratch only."""

    y: Array = field(repr=False)
    instructions: int
    stayed_inside: bool


def run(target: Target, cases: Sequence[Case], filling: int = FILLING) -> list[Result]:
    """All cases in one run of the program."""
    with TemporaryDirectory(prefix="pillion-rig-") as name:
        return list(_results(target, cases, run_in(Path(name), target, cases, filling)))


def run_in(
    folder: Path, target: Target, cases: Sequence[Case], filling: int = FILLING, options: Sequence[str] = ()
) -> bytes:
    """The results of the program, run in a folder, perhaps with further options of the emulator."""
    program, kernels = build(target)
    texts = [_words(len(cases), filling), *(_serialized(target, kernels, case) for case in cases)]
    (folder / "cases.bin").write_bytes(b"".join(texts))
    command = [*_command(target, program), *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return (folder / "results.bin").read_bytes()


def check(
    target: Target, cases: Sequence[Case], wanted: Sequence[Array], fillings: Iterable[int] = (FILLING,)
) -> list[Result]:
    """Every byte of every result, and of the memory around; gives the results."""
    assert cases
    results: list[Result] = []
    for filling in fillings:
        results = run(target, cases, filling)
        for case, want, result in zip(cases, wanted, results, strict=True):
            wrong = np.flatnonzero(result.y.reshape(-1).view(np.uint8) != want.reshape(-1).view(np.uint8))
            assert not wrong.size, f"{wrong.size} bytes differ, the first at {wrong[0]}: {_name(case)}"
            assert result.stayed_inside, f"wrote outside its memory: {_name(case)}"
    return results


def fillings(cases: Sequence[Case]) -> tuple[int, ...]:
    """Both where kernels may read beyond their operands."""
    return (FILLING, OTHER_FILLING) if any(case.overread_bytes for case in cases) else (FILLING,)


def _name(case: Case) -> str:
    return f"{[call.routine.name for call in case.calls]} {list(case.operands)} -> {case.y}"


def _words(*numbers: int) -> bytes:
    return np.array(numbers, np.int64).astype(np.uint32).tobytes()


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def _serialized(target: Target, kernels: Sequence[str], case: Case) -> bytes:
    values = list(case.operands)
    data = [np.ascontiguousarray(case.operands[v]).tobytes() for v in values]
    lengths = [len(x) for x in data] + [0] * (MOST_INPUTS - len(data))
    overwritten = 0 if case.overwritten is None else 1 + values.index(case.overwritten)
    sizes = case.y.type.size_bytes, case.scratch_bytes, case.misalign, overwritten, case.overread_bytes
    header = _words(len(case.calls), len(data), *lengths, *sizes)
    calls = (_call(target, kernels, call, values) for call in case.calls)
    return b"".join([header, *map(_padded, data), *calls])


def _call(target: Target, kernels: Sequence[str], call: Call, values: Sequence[Value]) -> bytes:
    params, pointers = _params(target, call)
    arguments = [values.index(v) for v in call.inputs]
    places = arguments + [0] * (MOST_INPUTS - len(arguments))
    header = _words(kernels.index(call.routine.name), len(params), len(pointers), len(arguments), *places)
    arrays = [_words(place, len(data)) + _padded(data) for place, data in pointers]
    return b"".join([header, _padded(params), *arrays])


def _params(target: Target, call: Call) -> tuple[bytes, list[tuple[int, bytes]]]:
    """The struct as it lies in the target's memory, and for each of its pointers: where it is, and the data."""
    data, pointers, widest = b"", [], 4
    for part in params_structs()[call.routine.params_type]:
        value, size = call.params[part.name], _size(target, part)
        data += bytes(-len(data) % size)
        widest = max(widest, size)
        if part.is_pointer:
            pointers.append((len(data), np.ascontiguousarray(value).tobytes()))
            data += bytes(size)
        else:
            data += np.array(value).astype(part.dtype).tobytes()
    return data + bytes(-len(data) % widest), pointers


def _size(target: Target, part: ParamsField) -> int:
    return target.pointer_bytes if part.is_pointer else part.dtype.itemsize


def _results(target: Target, cases: Sequence[Case], data: bytes) -> Iterator[Result]:
    tick_ns = target.board.tick_ns if target.board else 0.0
    offset = 0
    for case in cases:
        ticks, inside = np.frombuffer(data, np.uint32, 2, offset)
        y = np.frombuffer(data, case.y.dtype.numpy, case.y.type.elements, offset + 8).reshape(case.y.shape)
        offset += 8 + case.y.type.size_bytes
        yield Result(y, round(int(ticks) * tick_ns / INSTRUCTION_NS), bool(inside))
    assert offset == len(data)


def _command(target: Target, program: Path) -> list[str]:
    if target.board is None:
        return [str(program)]
    machine = [
        *target.board.emulator_arguments,
        "-nographic",
        "-monitor",
        "none",
        "-serial",
        "none",
        "-icount",
        "shift=7",
    ]
    semihosting = ["-semihosting-config", "enable=on,target=native"]
    return ["qemu-system-arm", *machine, *semihosting, "-kernel", str(program)]


@cache
def build(target: Target) -> tuple[Path, tuple[str, ...]]:
    """The program with all kernels of a target, built once for all processes of the tests, and their names in its table."""
    names = tuple(sorted(_names(target.folders)))
    program = Path(os.environ["PILLION_CACHE"]) / "rigs" / _hash(target, names)
    if not program.exists():
        program.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix="pillion-rig-", dir=program.parent) as folder:
            _compile(target, names, Path(folder))
            (Path(folder) / "rig").replace(program)
    return program, names


def _hash(target: Target, names: tuple[str, ...]) -> str:
    """Of all that the program is made from."""
    folders = [HERE, KERNELS / "include" / "pillion", *(KERNELS / part for part in target.folders)]
    sources = [path for folder in folders for path in sorted(folder.rglob("*.[chSs]"))]
    texts = [repr((target.folders, target.flags, target.board, names)), *firmware_files().values()]
    contents = [*(text.encode() for text in texts), *(path.read_bytes() for path in sources)]
    return hashlib.sha256(b"\0".join(contents)).hexdigest()


def _compile(target: Target, names: tuple[str, ...], folder: Path) -> None:
    for path, text in firmware_files().items():
        (folder / Path(path).name).write_text(text)
    (folder / "rig_table.h").write_text(_table(names))
    sources = [str(p) for part in target.folders for p in sorted((KERNELS / part).glob("*.c"))]
    includes = [f"-I{path}" for path in (folder, HERE, KERNELS / "include")]
    common = [*WARNINGS, *target.flags, "-Wno-cast-function-type", *includes]
    if target.board is None:
        command = ["cc", *common, '-DRIG_MEMORY="rig_memory_host.h"', str(HERE / "rig.c"), "host.c", *sources]
    else:
        command = ["arm-none-eabi-gcc", *common, *_of_board(target.board), str(HERE / "rig.c"), *sources]
        command += ["-nostartfiles", "-nostdlib", "-L.", "-T", target.board.linker_script, "-lgcc"]
    done = subprocess.run([*command, "-o", "rig"], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def _of_board(found: Board) -> list[str]:
    memory = min(found.regions["ARENA"].bytes, 64 << 20)
    defines = ['-DRIG_MEMORY="rig_memory_board.h"', f"-DRIG_MEMORY_BYTES={memory}u"]
    return [
        *defines,
        f"-DPILLION_TICK_NS={found.tick_ns:g}",
        "startup.c",
        "semihosting.c",
        "memory.c",
        "cortex_m.c",
    ]


def _names(folders: Sequence[str]) -> Iterator[str]:
    """The kernels of some folders."""
    for name in params_structs():
        kernel = name.removesuffix("_params")
        isa = next((s for s in ("scalar", "dsp", "mve", "host") if kernel.endswith(f"_{s}")), "portable")
        if isa in folders and not _is_shared(name):
            yield kernel


@cache
def _declarations() -> str:
    return "".join((KERNELS / "include" / "pillion" / h).read_text() for h in HEADERS)


def _is_shared(struct: str) -> bool:
    """A struct that kernels take by other names."""
    return f"void {struct.removesuffix('_params')}(" not in _declarations()


def _table(names: Sequence[str]) -> str:
    includes = "".join(f'#include "pillion/{h}.h"\n' for h in ("kernels", "scalar", "dsp", "mve", "host"))
    rows = "".join(f"    (rig_function){name},\n" for name in names)
    return f"{includes}typedef void (*rig_function)(void);\nstatic const rig_function rig_table[] = {{\n{rows}}};\n"


def has_avx2(*more: str) -> bool:
    """Whether this computer has such vectors, and what else is named as the system names it."""
    cpu = Path("/proc/cpuinfo")
    words = cpu.read_text().split() if platform.machine() == "x86_64" and cpu.is_file() else []
    return {"avx2", *more} <= set(words)


HAS_CC = shutil.which("cc") is not None
