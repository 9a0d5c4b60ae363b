# SPDX-License-Identifier: Apache-2.0
"""How the tables of the DSP kernels name their functions and write their rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pillion.emitters.c.kernel import Call, Kernel, Routine
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import Value
from pillion.ir.verdict import Verdict

OpClass = TypeVar("OpClass", bound=Op)


def routine(name: str, *also: str) -> Routine:
    """A kernel of kernels/dsp, and the files with what it shares with others."""
    return Routine(
        f"pillion_{name}_s8_dsp", f"dsp/{name}_s8_dsp.c", "dsp.h", tuple(f"dsp/{file}_dsp.c" for file in also)
    )


def row(
    name: str,
    op: type[OpClass],
    calls: Callable[[OpClass, Arithmetic], tuple[Call, ...]],
    takes: Callable[[OpClass, Arithmetic], tuple[Verdict, ...]],
    scratch_bytes: Callable[[OpClass], int] = lambda op: 0,
    in_place: Callable[[OpClass], tuple[Value, ...]] = lambda op: (),
) -> Kernel:
    """A row whose functions take the op's own class: they are called with no other. A result without elements takes
    no call."""

    def calls_for_elements(made: OpClass, arithmetic: Arithmetic) -> tuple[Call, ...]:
        return calls(made, arithmetic) if made.results[0].type.elements else ()

    functions: Any = (calls_for_elements, takes, scratch_bytes, in_place)
    return Kernel(f"{name}_dsp", op, *functions)
