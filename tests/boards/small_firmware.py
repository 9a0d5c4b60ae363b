# SPDX-License-Identifier: Apache-2.0
"""Small firmware folders, written by hand as the C emitter would write them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from pillion.boards.board import firmware_files
from pillion.boards.toolchain import ARM_COMPILER, HOST_COMPILER, QEMU, Tool
from pillion.host_io.atomic_files import write_parts

_HERE = Path(__file__).parent
_KERNELS = _HERE.parents[1] / "kernels" / "include" / "pillion"

COUNT = 13
"""Elements of the input and of each output: no multiple of anything."""
CONSTANT = [(37 * i + 101) % 256 - 128 for i in range(COUNT)]
INPUT_AT, SUM_AT, SCALED_AT, ARENA_BYTES = 0, 16, 32, 48

ORDINARY_OPS = {
    "add": "test_add_constant(test_constant, a + 0, a + 16, 13);",
    "scale": "test_scale_float(a + 0, a + 32, 13);",
}

_MODEL_H = """
#ifndef MODEL_H
#define MODEL_H
#include "pillion/model.h"
#define TINY_ARENA_BYTES 48
extern const pillion_model pillion_model_tiny;
#endif
"""

_MODEL_C = """
#include "model.h"
#include <stddef.h>
#include "pillion/test_kernels.h"

extern const int8_t test_constant[13];

static const pillion_buffer inputs[] = {{"x", 0, 13, 0}};
static const pillion_buffer outputs[] = {{"sum", 16, 13, 0}, {"scaled", 32, 13, 0}};
static const char *const op_names[] = {%(names)s};

static void run(void *arena, void (*after_op)(uint32_t op)) {
    int8_t *const a = arena;
    (void)a;
%(calls)s
}

const pillion_model pillion_model_tiny = {
    "tiny", TINY_ARENA_BYTES, 1, 2, %(count)d, inputs, outputs, op_names, run, 0, NULL, NULL, NULL, 0, NULL,
};
"""

_CALL = "    {call}\n    if (after_op != NULL) {{ after_op({index}); }}"

WriteFirmware = Callable[[Mapping[str, str]], Path]


def needs(*tools: Tool) -> pytest.MarkDecorator:
    """Skip where a program is missing, and say which."""
    missing = [f"{tool.names[0]} (apt-get install {tool.package})" for tool in tools if tool.find() is None]
    return pytest.mark.skipif(bool(missing), reason="missing: " + ", ".join(missing))


needs_board = needs(ARM_COMPILER, QEMU)
needs_arm_compiler = needs(ARM_COMPILER)
needs_host = needs(HOST_COMPILER)


def expected_outputs(x: bytes) -> list[bytes]:
    """What the ops `add` and `scale` make of one sample, in Python's own arithmetic."""
    values = [value - 256 if value > 127 else value for value in x]
    total = bytes((value + constant) & 255 for value, constant in zip(values, CONSTANT, strict=True))
    # value * value / 7 - value / 3 is exact in thirds and sevenths; +128 makes it positive before it is cut.
    scaled = bytes(((3 * v * v - 7 * v + 128 * 21) // 21) & 255 for v in values)
    return [total, scaled]


def write(folder: Path, ops: Mapping[str, str]) -> Path:
    """A firmware whose ops are these C statements, by name."""
    model = folder / "model"
    shutil.copytree(_HERE / "kernels", model / "kernels", ignore=shutil.ignore_patterns("*.h"))
    shutil.copytree(_KERNELS, model / "kernels" / "include" / "pillion")
    shutil.copy(_HERE / "kernels" / "test_kernels.h", model / "kernels" / "include" / "pillion")
    kernels = [f"model/kernels/{file.name}" for file in sorted(model.glob("kernels/*.c"))]
    sources = ["model/model.c", "model/weights.c", *kernels]
    for path, text in firmware_files("tiny", sources=sources).items():
        write_parts(folder / path, text)
    write_parts(model / "model.h", _MODEL_H)
    write_parts(model / "model.c", _model_c(ops))
    constant = ", ".join(map(str, CONSTANT))
    write_parts(
        model / "weights.c",
        "#include <stdint.h>\nextern const int8_t test_constant[13];\n"
        f"const int8_t test_constant[13] = {{{constant}}};\n",
    )
    return folder


def _model_c(ops: Mapping[str, str]) -> str:
    calls = [_CALL.format(call=call, index=index) for index, call in enumerate(ops.values())]
    names = ", ".join(f'"{name}"' for name in ops)
    return _MODEL_C % {"names": names, "calls": "\n".join(calls), "count": len(ops)}
