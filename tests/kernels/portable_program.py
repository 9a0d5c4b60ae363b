# SPDX-License-Identifier: Apache-2.0
"""Many kernel calls in one small C program, every buffer of which has a heap block of its own: a sanitizer sees each read
and write that is outside. The program writes all results to a file."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pillion.emitters.c.kernel import Call, Kernel, Param
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import Array, Value

KERNELS = Path(__file__).parents[2] / "kernels"
WARNINGS = ["-std=c99", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-ffp-contract=off"]
SANITIZED = ["-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
VECTORIZED = ["-O3", "-march=native"]

MAIN = """
#include "pillion/kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *data;
static FILE *answers;

static void *allocate(size_t size) {
    void *block = malloc(size);
    if (block == NULL) {
        exit(2);
    }
    memset(block, 0xa5, size);
    return block;
}

static void *load(long offset, size_t size) {
    return memcpy(allocate(size), data + offset, size);
}

CASES
int main(void) {
    FILE *file = fopen("data.bin", "rb");
    answers = fopen("answers.bin", "wb");
    char *all = allocate(DATA_BYTES);
    if (file == NULL || answers == NULL || fread(all, 1, DATA_BYTES, file) != DATA_BYTES) {
        return 2;
    }
    data = all;
CALLS
    fclose(file);
    free(all);
    return fclose(answers);
}
"""


@dataclass(frozen=True)
class Case:
    """One op on some data, its result perhaps in the memory of an operand."""

    op: Op
    arithmetic: Arithmetic
    kernel: Kernel
    inputs: tuple[Array, ...]
    overwritten: Value | None = None

    @property
    def calls(self) -> tuple[Call, ...]:
        return self.kernel.calls(self.op, self.arithmetic)

    @property
    def wanted(self) -> Array:
        values = dict(zip(self.op.activations, self.inputs, strict=True))
        operands = [v.constant if v.is_constant else values[v] for v in self.op.operands]
        return np.ascontiguousarray(self.op.reference(self.arithmetic, *operands))


class Program:
    """The text of the program and its data, case by case."""

    def __init__(self, cases: Sequence[Case]) -> None:
        self.cases = cases
        self.data = bytearray()
        self.functions = [self._function(number, case) for number, case in enumerate(cases)]

    def run(self, folder: Path, flags: Sequence[str]) -> list[Array]:
        """The result of every case."""
        calls = "".join(f"    case_{n}();\n" for n in range(len(self.cases)))
        text = MAIN.replace("CASES", "\n".join(self.functions)).replace("CALLS", calls)
        (folder / "main.c").write_text(text.replace("DATA_BYTES", str(len(self.data))))
        (folder / "data.bin").write_bytes(self.data)
        sources = sorted(call.routine.source for case in self.cases for call in case.calls)
        files = [str(KERNELS / source) for source in dict.fromkeys(sources)]
        include = ["-I", str(KERNELS / "include")]
        _run(["cc", *WARNINGS, "-O0", *include, "-c", "main.c"], folder)
        _run(["cc", *WARNINGS, *flags, *include, "main.o", *files, "-o", "program"], folder)
        _run(["./program"], folder)
        return self._answers((folder / "answers.bin").read_bytes())

    def _answers(self, content: bytes) -> list[Array]:
        answers, offset = [], 0
        for case in self.cases:
            y = case.op.results[0].type
            answers.append(np.frombuffer(content, y.dtype.numpy, y.elements, offset).reshape(y.shape))
            offset += y.size_bytes
        assert offset == len(content)
        return answers

    def _function(self, number: int, case: Case) -> str:
        values = dict(zip(case.op.activations, case.inputs, strict=True))
        values |= {v: v.constant for v in case.op.operands if v.is_constant}
        lines = [f"void *x{i} = {self._load(values[v])};" for i, v in enumerate(values)]
        y = case.op.results[0].type.size_bytes
        place = f"x{list(values).index(case.overwritten)}" if case.overwritten else f"allocate({y})"
        scratch = case.kernel.scratch_bytes(case.op)
        lines += [f"void *y = {place};", f"void *scratch = {f'allocate({scratch})' if scratch else 'NULL'};"]
        for call in case.calls:
            lines += self._call(call, [f"x{list(values).index(v)}" for v in call.inputs])
        lines += [f"fwrite(y, 1, {y}, answers);", "free(scratch);"]
        lines += [f"free(x{i});" for i in range(len(values))] + ([] if case.overwritten else ["free(y);"])
        body = "".join(f"    {line}\n" for line in lines)
        return f"static void case_{number}(void);\nstatic void case_{number}(void) {{\n{body}}}\n"

    def _call(self, call: Call, inputs: list[str]) -> list[str]:
        fields = [f"        .{key} = {self._literal(value)}," for key, value in call.params.items()]
        arrays = [key for key, value in call.params.items() if isinstance(value, np.ndarray)]
        arguments = ", ".join(["&p", *inputs, "y", "scratch"])
        return [
            "{",
            f"    const {call.routine.params_type} p = {{",
            *fields,
            "    };",
            f"    {call.routine.name}({arguments});",
            *(f"    free((void *)p.{key});" for key in arrays),
            "}",
        ]

    def _literal(self, value: Param) -> str:
        if isinstance(value, np.ndarray):
            return self._load(value)
        if isinstance(value, float):
            return f"{value.hex()}f"
        return f"(-{-value - 1} - 1)" if value < 0 else str(value)

    def _load(self, array: Array) -> str:
        self.data += bytes(-len(self.data) % 16)
        offset = len(self.data)
        self.data += np.ascontiguousarray(array).tobytes()
        return f"load({offset}, {array.nbytes})"


def _run(command: Sequence[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
