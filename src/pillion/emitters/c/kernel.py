# SPDX-License-Identifier: Apache-2.0
"""The description of a kernel: the op that it computes, its conditions, its calls with packed constants, its
scratch memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pillion.devices.cortex_m import Isa
from pillion.emitters.c.params_structs import order_params_fields
from pillion.ir.access import ROWS, AxisMap
from pillion.ir.numerics import Arithmetic, Multiplier
from pillion.ir.op import Op
from pillion.ir.types import Value
from pillion.ir.verdict import Verdict

Param = int | float | NDArray[np.generic]
Params = Mapping[str, Param]
"""The fields of a kernel's params struct: a number becomes a literal, an array a constant in flash with a pointer
to it."""


@dataclass(frozen=True)
class Routine:
    """A C function of the kernel library: `void name(const name_params *, inputs..., output, scratch)`."""

    name: str
    source: str
    """The path of its C file below kernels/."""
    header: str = "kernels.h"
    """The path of its header below kernels/include/pillion/."""
    also: tuple[str, ...] = ()
    """Further C files below kernels/ that define functions it calls. Private headers are found by its includes."""

    @property
    def params_type(self) -> str:
        """The name of the C struct with its parameters."""
        return f"{self.name}_params"


@dataclass(frozen=True)
class Call:
    """One call in the generated program.

    Its params are checked against the struct in the kernel's header: a missing, unknown or mistyped field
    raises here instead of failing in C."""

    routine: Routine
    params: Params
    inputs: tuple[Value, ...]
    output: Value
    counts_rows: bool = False
    """Whether the kernel takes the index of the first output row as an argument behind its inputs."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "params", order_params_fields(self.routine.params_type, self.params))


def multiplier_params(m: Multiplier) -> Params:
    """Returns a multiplier as the fields of a params struct."""
    return {"multiplier": m.mantissa, "shift": m.shift}


@dataclass(frozen=True)
class CallCost:
    """Instructions of each call beyond the work proportional to its output rows, measured in the emulator: for the
    call, for each channel, and for each element of input rows that the previous call has read, too."""

    call: float = 80.0
    channel: float = 0.0
    reread: float = 0.0
    pixels: int = 1
    """The number of pixels that are computed together, from weights that are loaded once."""
    remainder: float = 0.0
    """Instructions for each multiplication of one pixel, if the pixels are no multiple of `pixels`."""

    def instructions(self, op: Op, rows: int) -> float:
        """Returns the instructions of one call that computes `rows` output rows."""
        x, y = op.activations[0], op.results[0]
        row_map = op.row_maps.get(x)
        shared_rows = row_map.shared if isinstance(row_map, AxisMap) else 0
        known = self.call + self.channel * y.shape[-1] + self.reread * shared_rows * row_elements(x)
        if self.pixels == 1 or not rows * y.shape[-2] % self.pixels:
            return known
        return known + self.remainder * op.macs * y.shape[-1] / y.type.elements


A_CALL = CallCost()
"""The cost of a call that reads nothing twice."""


def row_elements(value: Value) -> int:
    """Returns the number of elements in one row of a tensor."""
    return math.prod(value.shape[ROWS + 1 :])


@dataclass(frozen=True)
class Kernel:
    """The implementation of one kind of op, with its conditions and memory."""

    name: str
    """The name in profiles, such as `conv2d_1x1_mve`."""
    op: type[Op]
    calls: Callable[[Op, Arithmetic], tuple[Call, ...]]
    check: Callable[[Op, Arithmetic], tuple[Verdict, ...]] = lambda op, arithmetic: ()
    """Every condition as a verdict; the kernel is usable if all are ok."""
    scratch_bytes: Callable[[Op], int] = lambda op: 0
    in_place: Callable[[Op], tuple[Value, ...]] = lambda op: ()
    """The operands whose memory the result may overwrite."""
    overread_bytes: int = 0
    """The bytes behind the end of an operand that the kernel may read, but never writes."""
    call_cost: CallCost = A_CALL
    is_tiled: bool = False
    """Whether it reduces one tile of rows and keeps the partial result in its scratch memory (`Op.is_part`)."""
    work: Callable[[Op], float] | None = None
    """Estimated instructions. Among the kernels of an op that have an estimate, the cheapest is chosen. Without
    `call_cost`, the extra cost of a tile follows from it, too."""
    extra_flash: Callable[[Op], int] = lambda op: 0
    """Bytes of flash that its constants need beyond those of other kernels. `optimize="size"` never chooses kernels
    with further flash."""
    has_private_constants: bool = False
    """Whether its constants are large and shared with no other kernel: either all variants of an op use it, or
    none."""
    isa: Isa = Isa.PORTABLE
    """The instruction set of its library."""
    row_unit: int = 1
    """The rows that are computed together: fewer rows take as long."""
