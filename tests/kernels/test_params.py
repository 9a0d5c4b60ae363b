# SPDX-License-Identifier: Apache-2.0
"""The params structs: the headers declare them, the compiler reads them there, every field is used by some kernel, and calls
with anything else are refused."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pillion.devices.cortex_m import Isa
from pillion.emitters.c.kernel import Call
from pillion.emitters.c.kernel_library import MVE, PORTABLE
from pillion.emitters.c.kernel_lists import KERNELS_OF
from pillion.emitters.c.params_structs import HEADERS, ParamsField, params_structs
from pillion.ir.numerics import Arithmetic
from pillion.ir.verdict import all_ok
from pillion.ops.example_values import value

KERNELS = Path(__file__).parents[2] / "kernels"
INCLUDE = KERNELS / "include" / "pillion"
FUNCTION = re.compile(
    r"^void (pillion_\w+)\(const (?:\1_params|params) \*p,[^)]*\bvoid \*scratch\)", re.MULTILINE
)
GCC = "arm-none-eabi-gcc"
X, Y = value("x", (4,), 0.1), value("y", (4,), 0.1)


def functions(files: list[Path]) -> dict[str, Path]:
    """The kernels that are declared or defined in some files."""
    return {name: file for file in files for name in FUNCTION.findall(file.read_text())}


DEFINED = functions(sorted(KERNELS.glob("[dhmps]*/*.c")))


def takers(struct: str) -> list[str]:
    """The kernels that take a struct, by whichever name."""
    fields = params_structs()[struct]
    return [name for name in DEFINED if params_structs().get(f"{name}_params") is fields]


@pytest.mark.turns(5)
def test_every_kernel_has_a_struct_and_every_struct_a_kernel() -> None:
    declared = functions([INCLUDE / header for header in HEADERS])
    assert set(DEFINED) == set(declared)
    assert {f"{name}_params" for name in DEFINED} <= set(params_structs())
    assert [name for name in params_structs() if not takers(name)] == []


@pytest.mark.skipif(shutil.which(GCC) is None, reason=f"needs {GCC}")
def test_structs_are_read_as_the_compiler_reads_them(tmp_path: Path) -> None:
    checks = [f"sizeof({name}) == {4 * len(fields)}" for name, fields in params_structs().items()]
    checks += [
        f"offsetof({name}, {field.name}) == {4 * i} && {c_check(name, field)}"
        for name, fields in params_structs().items()
        for i, field in enumerate(fields)
    ]
    lines = ["#include <stddef.h>", *(f'#include "pillion/{h}"' for h in HEADERS)]
    lines += [f'_Static_assert({check}, "{check}");' for check in checks]
    (tmp_path / "check.c").write_text("\n".join(lines) + "\n")
    command = [GCC, "-mcpu=cortex-m55", "-I", str(INCLUDE.parent), "-c", "check.c"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(checks) > 1000


def c_check(struct: str, field: ParamsField) -> str:
    """An expression that is true where a field has the type that was read."""
    names = {
        "i1": "signed char",
        "u1": "unsigned char",
        "i2": "int16_t",
        "u2": "uint16_t",
        "i4": "int32_t",
        "i8": "int64_t",
        "f4": "float",
        "f8": "double",
    }
    kind = names[field.dtype.str[1:]]
    wanted = f"const {kind} *" if field.is_pointer else kind
    return f"_Generic((({struct} *)0)->{field.name}, {wanted}: 1, default: 0)"


def text_of(source: Path, seen: set[Path]) -> str:
    """A source with all that it includes, without the declarations of structs."""
    if source in seen or (source.name in HEADERS and source.parent == INCLUDE):
        return ""
    seen.add(source)
    text = source.read_text()
    beside = [source.parent / name for name in re.findall(r'#include "([^"/]+)"', text)]
    shared = [INCLUDE / name for name in re.findall(r'#include "pillion/([^"]+)"', text)]
    return text + "".join(text_of(file, seen) for file in (*beside, *shared) if file.is_file())


def used(name: str) -> str:
    """The text of a kernel and of the files beside it that define what it calls."""
    seen: set[Path] = set()
    text = text_of(DEFINED[name], seen)
    for _ in range(3):
        called = set(re.findall(r"\b(pillion_\w+)\b", text))
        for file in sorted(DEFINED[name].parent.glob("*.c")):
            if file not in seen and called & set(
                re.findall(r"^void (pillion_\w+)\(", file.read_text(), re.M)
            ):
                text += text_of(file, seen)
    return text


@pytest.mark.turns(7)
@pytest.mark.parametrize("struct", {id(fields): name for name, fields in params_structs().items()}.values())
def test_every_field_is_read(struct: str) -> None:
    """By one of the kernels that take the struct."""
    text = "".join(map(used, takers(struct)))
    names = [field.name for field in params_structs()[struct]]
    assembly = "".join(
        re.findall(r"PILLION_(?:AT|FIELDS_AT)\(\w+_params,(?: offsetof\([^)]*\)[^,]*,)?([^;]*);", text)
    )
    unread = [
        n for n in names if not re.search(rf"(->|\.){n}\b", text) and not re.search(rf"\b{n}\b", assembly)
    ]
    assert not unread, f"{takers(struct)} read no {unread}"


@pytest.mark.parametrize("isa", Isa)
def test_every_example_gives_every_field(isa: Isa) -> None:
    """Calls are refused otherwise, when they are made."""
    made = [
        call
        for kernel in KERNELS_OF[isa]
        for op in kernel.op.examples()
        if all_ok(kernel.check(op, Arithmetic.CMSIS_NN))
        for call in kernel.calls(op, Arithmetic.CMSIS_NN)
    ]
    assert len({call.routine.name for call in made}) >= 5
    for call in made:
        assert list(call.params) == [f.name for f in params_structs()[call.routine.params_type]]


CLAMP = {"count": 4, "low": -3, "high": 5}
LUT = {"count": 4, "table": np.zeros(256, np.int8)}


@pytest.mark.parametrize(
    ("name", "params", "wrong"),
    [
        ("clamp_s8", {"count": 4, "low": -3}, "high is missing"),
        ("clamp_s8", {**CLAMP, "step": 1}, "there is no step"),
        ("clamp_s8", {**CLAMP, "low": 0.5}, "low is of type int32, not float"),
        ("clamp_s8", {**CLAMP, "low": np.zeros(1, np.int32)}, "low is of type int32, not an array of int32"),
        (
            "lut_s8",
            {**LUT, "table": np.zeros(256, np.int32)},
            "table is an array of int8, not an array of int32",
        ),
        ("lut_s8", {**LUT, "table": 3}, "table is an array of int8, not int"),
        ("nothing_s8", CLAMP, "no header of the kernel library declares pillion_nothing_s8_params"),
    ],
)
def test_other_params_are_refused(name: str, params: dict[str, Any], wrong: str) -> None:
    with pytest.raises(TypeError, match=wrong):
        Call(PORTABLE.routine(name), params, (X,), Y)


def test_params_come_into_the_order_of_the_struct() -> None:
    call = Call(MVE.routine("clamp_s8"), dict(reversed(CLAMP.items())), (X,), Y)
    assert list(call.params) == ["count", "low", "high"]
