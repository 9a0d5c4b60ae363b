# SPDX-License-Identifier: Apache-2.0
"""What the C emitter knows about a kernel: which ops it takes, how it is called, how its constants are packed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pillion.emitters.c.structs import in_order
from pillion.ir.numerics import Arithmetic, Multiplier
from pillion.ir.op import Op
from pillion.ir.rows import ROWS
from pillion.ir.types import Value
from pillion.ir.verdict import Verdict

Param = int | float | NDArray[np.generic]
Params = Mapping[str, Param]
"""Fields of a kernel's params struct. A number becomes a literal, an array a constant in flash and a pointer to it."""


@dataclass(frozen=True)
class Routine:
    """A C function of the kernel library: `void name(const name_params *, inputs..., output, scratch)`. One that counts rows is handed
    the number of the first one behind its inputs."""

    name: str
    source: str
    """Its file below kernels/."""
    header: str = "kernels.h"
    """Where it is declared, below kernels/include/pillion/."""
    also: tuple[str, ...] = ()
    """Other C files below kernels/ with functions that it calls. (Headers beside it are found by its includes.)"""

    @property
    def params_type(self) -> str:
        """The name of the C structure that the function is handed."""
        return f"{self.name}_params"


@dataclass(frozen=True)
class Call:
    """One call in the generated program. Its params are what the header of the kernel declares: a value that is missing, too
    much or of another type is an error here, not in C."""

    routine: Routine
    params: Params
    inputs: tuple[Value, ...]
    output: Value
    counts_rows: bool = False
    """Whether it is handed the number of the first row that it makes."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "params", in_order(self.routine.params_type, self.params))


def scaling(m: Multiplier) -> Params:
    """Gives a multiplier as the fields of a params struct."""
    return {"multiplier": m.mantissa, "shift": m.shift}


def takes_all(op: Op, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges nothing, for a kernel without conditions."""
    return ()


@dataclass(frozen=True)
class CallCost:
    """What each call of a kernel costs beside the work that grows with the rows that it makes: instructions for the call, for each
    channel, and for each element of the rows that the call before has seen already. Measured in the emulator."""

    call: float = 80.0
    channel: float = 0.0
    seen: float = 0.0
    pixels: int = 1
    """The pixels that are made at once, from weights that are read once."""
    left: float = 0.0
    """Instructions for each multiplication of one pixel, where some are left over."""

    def of(self, op: Op, rows: int) -> float:
        """Gives the instructions of one call that makes so many rows."""
        x, y = op.activations[0], op.results[0]
        window = getattr(op, "window", None)
        seen_rows = max(window.dilation * (window.kernel - 1) + 1 - window.stride, 0) if window else 0
        known = self.call + self.channel * y.shape[-1] + self.seen * seen_rows * row_elements(x)
        if self.pixels == 1 or not rows * y.shape[-2] % self.pixels:
            return known
        return known + self.left * op.macs * y.shape[-1] / y.type.elements


A_CALL = CallCost()
"""What a call costs that keeps nothing from row to row."""


def row_elements(value: Value) -> int:
    """Gives the elements of one row of a tensor."""
    return math.prod(value.shape[ROWS + 1 :])


@dataclass(frozen=True)
class Kernel:
    """How one kind of op is done, under which conditions, with how much scratch memory."""

    name: str
    """The name that profiles show: `conv2d_1x1_mve`."""
    op: type[Op]
    calls: Callable[[Op, Arithmetic], tuple[Call, ...]]
    takes: Callable[[Op, Arithmetic], tuple[Verdict, ...]] = takes_all
    """Every condition judged; the kernel may be used if all are ok."""
    scratch_bytes: Callable[[Op], int] = lambda op: 0
    in_place: Callable[[Op], tuple[Value, ...]] = lambda op: ()
    """The operands whose memory the result may overwrite."""
    overread_bytes: int = 0
    """How far behind the end of an operand the kernel may read (never write)."""
    each_call: CallCost = A_CALL
    is_for_parts: bool = False
    """Whether it takes some rows of an operand, and keeps in its scratch what it makes of them (`Op.is_part`)."""
    work: Callable[[Op], float] | None = None
    """About how many instructions it takes, where that decides: of the kernels that say so and take an op, the cheapest does it. Where
    `each_call` says nothing, what a few rows cost beyond their share of the whole op follows from it, too."""
    further_flash: Callable[[Op], int] = lambda op: 0
    """How many bytes more its constants take than those of other kernels. Where code shall be small, none that says so is chosen."""
    own_constants: bool = False
    """Whether no other kernel shares its constants, and they are large: the parts of an op have it together, or none of them."""
    row_unit: int = 1
    """The rows that it makes at once: for fewer it takes as long."""
