# SPDX-License-Identifier: Apache-2.0
"""Calls kernels on the emulated Cortex-M55, many in one run, and looks at every byte of memory afterwards.

An `Image` is the memory of one run: parameters (with real addresses in their pointer fields), inputs, outputs, scratch,
and filling between them. The program on the board walks through the calls and writes the memory back. What a call may
not touch must be unchanged: that is how writes outside an output or a scratch buffer are seen.
"""

from __future__ import annotations

import functools
import struct
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pillion.boards.board import find_board, firmware_files
from pillion.boards.toolchain import QEMU, arm_compiler

Array = NDArray[np.generic]
Params = Mapping[str, "int | float | Array"]

BOARD = find_board("mps3-an547")
KERNELS = Path(__file__).parents[2] / "kernels"
BASE = BOARD.regions["ARENA"].origin
FILLING = 0xA5
GUARD = 64
RECORD_WORDS = 8
INSTRUCTION_NS = 128

FLAGS = (
    "-O2",
    "-std=c99",
    "-Wall",
    "-Wextra",
    "-Wconversion",
    "-Werror",
    "-ffunction-sections",
    "-fdata-sections",
)
HARNESS = ("startup.c", "semihosting.c", "memory.c", "cortex_m.c")


@dataclass(frozen=True)
class Call:
    """Where the results of one kernel call lie in the image."""

    record: int
    output: int
    dtype: np.dtype[np.generic]
    shape: tuple[int, ...]
    bytes: int
    scratch: int
    scratch_bytes: int


class Image:
    """Memory of one run, filled call by call."""

    def __init__(self, most_calls: int = 2048, filling: int = FILLING) -> None:
        self.filling = bytes([filling])
        self.data = bytearray(4 + 4 * RECORD_WORDS * most_calls)
        self.fields: dict[str, tuple[str, ...]] = {}
        self.calls: list[Call] = []

    def call(
        self,
        kernel: str,
        params: Params,
        inputs: Sequence[Array],
        output: Array,
        scratch_bytes: int = 0,
        offset: int = 0,
        in_place: bool = False,
        into: Call | None = None,
    ) -> Call:
        """Adds a call. Of `output` only shape and type count; `offset` moves inputs and output off their alignment.
        In place the output takes the memory of the first input; `into` is an earlier call that has made some of it."""
        self.fields.setdefault(kernel, tuple(params))
        assert self.fields[kernel] == tuple(params)
        words = [self._word(value) for value in params.values()]
        arguments = [self._place(struct.pack(f"<{len(words)}I", *words))]
        arguments += [self._place(x.tobytes(), offset) for x in inputs]
        if into is not None:
            y = into.output
        else:
            y = arguments[1] if in_place else self._place(self.filling * output.nbytes, offset)
        scratch = self._place(self.filling * scratch_bytes)
        record = 4 + 4 * RECORD_WORDS * len(self.calls)
        pointers = [BASE + a for a in (*arguments, y)] + [BASE + scratch if scratch_bytes else 0]
        pointers += [0] * (5 - len(pointers))
        struct.pack_into(
            f"<{RECORD_WORDS}I", self.data, record, list(self.fields).index(kernel), *pointers, 0, 0
        )
        self.calls.append(Call(record, y, output.dtype, output.shape, output.nbytes, scratch, scratch_bytes))
        struct.pack_into("<I", self.data, 0, len(self.calls))
        return self.calls[-1]

    def _place(self, content: bytes, offset: int = 0) -> int:
        """Puts bytes behind a guard, `offset` bytes after an aligned place; returns their index."""
        self.data += self.filling * GUARD
        self.data += self.filling * (-len(self.data) % 16 + offset)
        index = len(self.data)
        self.data += content
        return index

    def _word(self, value: float | Array) -> int:
        if isinstance(value, np.ndarray):
            return BASE + self._place(np.ascontiguousarray(value).tobytes())
        if isinstance(value, float):
            return int(np.float32(value).view(np.uint32))
        return int(value) & 0xFFFFFFFF


@dataclass(frozen=True)
class Outcome:
    """The memory after a run."""

    before: bytes
    after: bytes
    calls: tuple[Call, ...]

    def output(self, call: Call) -> Array:
        return np.frombuffer(self.after[call.output : call.output + call.bytes], call.dtype).reshape(
            call.shape
        )

    def instructions(self, call: Call) -> int:
        """Those of the kernel; the count of a kernel that does nothing has been taken off."""
        ticks: int = struct.unpack_from("<I", self.after, call.record + 4 * 6)[0]
        return round(ticks * BOARD.tick_ns / INSTRUCTION_NS)

    def foreign_writes(self) -> list[int]:
        """Indices of changed bytes that belong to no output and no scratch buffer."""
        changed = np.frombuffer(self.before, np.uint8) != np.frombuffer(self.after, np.uint8)
        for call in self.calls:
            for start, size in (
                (call.record, 4 * RECORD_WORDS),
                (call.output, call.bytes),
                (call.scratch, call.scratch_bytes),
            ):
                changed[start : start + size] = False
        return [int(i) for i in np.flatnonzero(changed)]


def run(image: Image, time_limit: float = 120.0) -> Outcome:
    """Builds the program for the image's kernels, runs it, reads the memory back."""
    program = build(tuple(image.fields.items()))
    before = bytes(image.data) + image.filling * GUARD
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "image.bin").write_bytes(before)
        command = [QEMU.path(), "-M", BOARD.machine, "-nographic", "-monitor", "none", "-serial", "none"]
        command += [
            "-semihosting-config",
            "enable=on,target=native",
            "-icount",
            "shift=7",
            "-kernel",
            str(program),
        ]
        command += ["-device", f"loader,file=image.bin,addr={BASE:#x},force-raw=on"]
        done = subprocess.run(
            command, cwd=folder, timeout=time_limit, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        after = (Path(folder) / "after.bin").read_bytes()
    return Outcome(before, after, tuple(image.calls))


def compile_c(folder: Path, *arguments: str) -> None:
    """Calls the compiler in a folder that has the files of the board."""
    flags = [*BOARD.cflags, *FLAGS, f"-DPILLION_TICK_NS={BOARD.tick_ns}", f"-I{KERNELS / 'include'}"]
    command = [*arm_compiler(), *flags, *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@functools.cache
def objects() -> tuple[Path, tuple[str, ...]]:
    """A folder with the files of the board, and everything compiled that does not depend on which kernels are called."""
    folder = Path(tempfile.mkdtemp(prefix="pillion-kernels-"))
    for path, text in firmware_files().items():
        (folder / Path(path).name).write_text(text)
    sources = [
        *HARNESS,
        str(KERNELS / "portable" / "fill.c"),
        *map(str, sorted((KERNELS / "mve").glob("*.c"))),
    ]
    compile_c(folder, "-c", *sources)
    return folder, tuple(f"{Path(source).stem}.o" for source in sources)


@functools.cache
def build(kernels: tuple[tuple[str, tuple[str, ...]], ...]) -> Path:
    """The program that calls these kernels, whose params structs have these fields."""
    folder, compiled = objects()
    main, program = (
        Path(tempfile.mkdtemp(dir=folder)) / "main.c",
        f"kernels{len(list(folder.glob('*.elf')))}.elf",
    )
    main.write_text(main_text(kernels))
    linking = ["-nostdlib", "-Wl,--gc-sections", "-T", BOARD.linker_script, "-lgcc", "-o", program]
    compile_c(folder, f"-I{folder}", str(main), *compiled, *linking)
    return folder / program


def main_text(kernels: tuple[tuple[str, tuple[str, ...]], ...]) -> str:
    """The program on the board. The layout of each params struct is compared with the fields known here."""
    table = "".join(f"    (kernel){name},\n" for name, _ in kernels)
    checks = [f"sizeof({name}_params) == {4 * len(fields)}" for name, fields in kernels]
    checks += [
        f"offsetof({name}_params, {field}) == {4 * i}"
        for name, fields in kernels
        for i, field in enumerate(fields)
    ]
    asserts = "".join(f"typedef char check_{i}[{check} ? 1 : -1];\n" for i, check in enumerate(checks))
    return f"{HEAD}\nstatic const kernel kernels[] = {{\n{table}}};\n{asserts}{BODY.replace('BASE', f'{BASE:#x}u')}"


HEAD = """
#include <stddef.h>
#include <stdint.h>
#include "board.h"
#include "semihosting.h"
#include "pillion/mve.h"
#pragma GCC diagnostic ignored "-Wcast-function-type"
typedef void (*kernel)(uint32_t, uint32_t, uint32_t, uint32_t, uint32_t);
typedef struct { uint32_t kernel, argument[5], ticks, spare; } record;
"""

BODY = """
static void nothing(uint32_t a, uint32_t b, uint32_t c, uint32_t d, uint32_t e) {
    (void)a, (void)b, (void)c, (void)d, (void)e;
}

static volatile kernel called;

static uint32_t ticks_of(kernel k, const record *r) {
    called = k;
    const uint64_t start = pillion_clock_now();
    called(r->argument[0], r->argument[1], r->argument[2], r->argument[3], r->argument[4]);
    return (uint32_t)(pillion_clock_now() - start);
}

int main(void) {
    uint32_t *const image = (uint32_t *)BASE;
    record *r = (record *)(image + 1);
    pillion_clock_start();
    const uint32_t overhead = ticks_of(nothing, r);
    for (uint32_t i = 0; i < image[0]; i++, r++) {
        r->ticks = ticks_of(kernels[r->kernel], r) - overhead;
    }
    const int32_t before = semihost_open("image.bin", SEMIHOST_READ);
    const int32_t after = semihost_open("after.bin", SEMIHOST_WRITE);
    return semihost_write(after, image, (uint32_t)semihost_length(before));
}
"""
