# SPDX-License-Identifier: Apache-2.0
"""What stands between the table, which knows ops, and the writer, which knows the format: kernel calls over views."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from pillion.devices.cortex_m import Isa
from pillion.errors import PillionError
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import Array, DType, Shape, Value, constant
from pillion.schemas.pte import CHANNELS_LAST

Order = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Temp:
    """A piece of memory that only one op needs, while it runs."""

    nbytes: int


@dataclass(frozen=True)
class View:
    """A tensor argument: the bytes of a value, a constant or a temp, under sizes and a dim order.

    One value may be seen under several views; they cost an entry in the program's table and nothing at run time."""

    of: Value | Temp
    dtype: DType
    sizes: Shape
    order: Order

    @property
    def elements(self) -> int:
        """The number of elements."""
        return math.prod(self.sizes)

    def reshaped(self, *sizes: int) -> View:
        """Sees the same bytes as a contiguous tensor of other sizes."""
        assert math.prod(sizes) == self.elements, (self.sizes, sizes)
        return View(self.of, self.dtype, sizes, tuple(range(len(sizes))))

    def image(self, n: int, h: int, w: int, c: int) -> View:
        """Sees the same bytes as an NHWC image: sizes [n, c, h, w], channels last in memory, as the kernels demand."""
        assert n * h * w * c == self.elements, (self.sizes, (n, h, w, c))
        return View(self.of, self.dtype, (n, c, h, w), CHANNELS_LAST)


@dataclass(frozen=True)
class Settings:
    """The settings that the rows of the table depend on beside their op: arithmetic, instruction set, runtime and NPU."""

    arithmetic: Arithmetic
    isa: Isa
    runtime: str = "1.4"
    """The runtime whose operators are called: ExecuTorch `1.4`, or its `main`, where avg_pool2d has one more argument."""
    payloads: Mapping[Graph, bytes] = field(default_factory=dict)
    """What the delegate is given for each segment's graph."""
    delegate: str = ""
    """What the runtime on the chip calls the NPU; without it, a segment goes to a delegate that is called as its device."""


Arg = View | tuple[View, ...] | tuple[int, ...] | bool | int | float | None


@dataclass(frozen=True)
class KernelCall:
    """One kernel call: `args` in the order of the operator's schema, without the out argument."""

    operator: str
    """The operator's name with its overload: `cortex_m::quantized_add.out`."""
    args: tuple[Arg, ...]
    out: View

    @property
    def views(self) -> tuple[View, ...]:
        """The tensors that the call reads or writes."""
        found: list[View] = []
        for arg in (*self.args, self.out):
            found += [v for v in (arg if isinstance(arg, tuple) else (arg,)) if isinstance(v, View)]
        return tuple(found)


@dataclass(frozen=True)
class Delegate:
    """A call of another processor, by the name of its backend."""

    backend: str
    payload: bytes
    specs: tuple[tuple[str, bytes], ...]
    inputs: tuple[View, ...]
    outputs: tuple[View, ...]

    @property
    def views(self) -> tuple[View, ...]:
        """All arguments in the order in which the instruction names them: inputs, then outputs."""
        return (*self.inputs, *self.outputs)


def plain(value: Value) -> View:
    """Sees a value as the contiguous tensor that it is in the graph."""
    return View(value, value.dtype, value.shape, tuple(range(value.type.rank)))


def flat(value: Value) -> View:
    """Sees a value as a vector."""
    return View(value, value.dtype, (value.type.elements,), (0,))


def image(value: Value) -> View:
    """Sees a value of rank 4 as an image."""
    n, h, w, c = value.shape
    return plain(value).image(n, h, w, c)


def temp(sizes: Shape, dtype: DType = DType.INT8) -> View:
    """Makes a contiguous tensor in memory of the op's own."""
    return View(Temp(math.prod(sizes) * dtype.size_bytes), dtype, sizes, tuple(range(len(sizes))))


def bytes_for_kernel(nbytes: int) -> View:
    """Makes the scratch argument of a kernel, of as many bytes as it asks for."""
    return temp((nbytes,), DType.UINT8)


def data(array: Array) -> View:
    """Makes a constant that the graph does not have."""
    return plain(constant("", array))


def ints(numbers: object) -> View:
    """Makes a constant vector of 32-bit integers."""
    return data(np.asarray(numbers, np.int32))


def refusal(op: Op, rule: str, here: object, help: str = "") -> PillionError:
    """Makes the error for an op that no kernel of the ExecuTorch runtime computes exactly."""
    place = f"{here}" + (f"  ({op.source})" if op.source else "")
    return PillionError(
        f"{op.kind} `{op.name}` has no exact ExecuTorch form", rule=rule, here=place, help=help
    )


def bounds(op: Op) -> tuple[int, int]:
    """Gives the range of an op's result. Where the bounds cross, the upper one holds."""
    low, high = op.attributes["low"], op.attributes["high"]
    return min(low, high), high
