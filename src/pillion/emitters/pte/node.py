# SPDX-License-Identifier: Apache-2.0
"""Kernel calls on views: the interface between the table, which knows ops, and the writer, which knows the
format."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from pillion.codecs.pte.signatures import argument_names
from pillion.devices.cortex_m import Isa
from pillion.errors import PillionError
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import Array, DType, Shape, Value, constant_value
from pillion.option_values import NEWEST_RUNTIME, Runtime
from pillion.schemas.pte import CHANNELS_LAST

Order = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Temp:
    """Memory that an op needs only while it runs."""

    nbytes: int


@dataclass(frozen=True)
class NodeView:
    """A tensor argument: the bytes of a value, a constant or a temp, with sizes and a dim order.

    One value may have several views; each costs an entry in the program's table and nothing at run time."""

    of: Value | Temp
    dtype: DType
    sizes: Shape
    order: Order

    @property
    def elements(self) -> int:
        """The number of elements."""
        return math.prod(self.sizes)

    def reshaped(self, *sizes: int) -> NodeView:
        """Returns the same bytes as a contiguous tensor of other sizes."""
        assert math.prod(sizes) == self.elements, (self.sizes, sizes)
        return NodeView(self.of, self.dtype, sizes, tuple(range(len(sizes))))

    def image(self, n: int, h: int, w: int, c: int) -> NodeView:
        """Returns the same bytes as an NHWC image: sizes [n, c, h, w], channels last in memory, as the
        kernels require."""
        assert n * h * w * c == self.elements, (self.sizes, (n, h, w, c))
        return NodeView(self.of, self.dtype, (n, c, h, w), CHANNELS_LAST)


@dataclass(frozen=True)
class PteSettings:
    """The settings that rows depend on: arithmetic, instruction set, runtime and NPU."""

    arithmetic: Arithmetic
    isa: Isa
    runtime: Runtime = NEWEST_RUNTIME
    """The ExecuTorch version whose operators are called: 1.4 has no division, and one argument less for
    avg_pool2d."""
    payloads: Mapping[Graph, bytes] = field(default_factory=dict)
    """The delegate's payload for each segment's graph."""
    delegate: str = ""
    """The NPU's name in the chip's runtime; empty: the segment's device name."""


Arg = NodeView | tuple[NodeView, ...] | tuple[int, ...] | bool | int | float | None


@dataclass(frozen=True)
class KernelCall:
    """One kernel call: `args` in the order of the operator's signature, without the out argument."""

    operator: str
    """The operator's name with its overload: `cortex_m::quantized_add.out`."""
    args: tuple[Arg, ...]
    out: NodeView

    @property
    def has_signature(self) -> bool:
        """Whether there are as many arguments as the operator has."""
        return len(argument_names(self.operator, len(self.args))) == len(self.args)

    @property
    def views(self) -> tuple[NodeView, ...]:
        """The tensors that the call reads or writes."""
        tensors: list[NodeView] = []
        for arg in (*self.args, self.out):
            tensors += [v for v in (arg if isinstance(arg, tuple) else (arg,)) if isinstance(v, NodeView)]
        return tuple(tensors)


@dataclass(frozen=True)
class Delegate:
    """A call of another processor, by the name of its backend."""

    backend: str
    payload: bytes
    specs: tuple[tuple[str, bytes], ...]
    inputs: tuple[NodeView, ...]
    outputs: tuple[NodeView, ...]

    @property
    def views(self) -> tuple[NodeView, ...]:
        """All arguments in instruction order: inputs, then outputs."""
        return (*self.inputs, *self.outputs)


def contiguous_view(value: Value) -> NodeView:
    """Returns a value as a contiguous tensor."""
    return NodeView(value, value.dtype, value.shape, tuple(range(value.type.rank)))


def image_view(value: Value) -> NodeView:
    """Returns a value of rank 4 as an image."""
    n, h, w, c = value.shape
    return contiguous_view(value).image(n, h, w, c)


def temporary_tensor(sizes: Shape, dtype: DType = DType.INT8) -> NodeView:
    """Returns a contiguous tensor in the op's own memory."""
    return NodeView(Temp(math.prod(sizes) * dtype.size_bytes), dtype, sizes, tuple(range(len(sizes))))


def scratch_argument(nbytes: int) -> NodeView:
    """Returns the scratch argument of a kernel."""
    return temporary_tensor((nbytes,), DType.UINT8)


def constant_view(array: Array) -> NodeView:
    """Returns a constant that is not in the graph."""
    return contiguous_view(constant_value("", array))


def int_vector(numbers: object) -> NodeView:
    """Returns a constant vector of 32-bit integers."""
    return constant_view(np.asarray(numbers, np.int32))


def no_exact_kernel_error(op: Op, rule: str, here: object, help: str = "") -> PillionError:
    """Returns the error for an op that no kernel of the ExecuTorch runtime computes exactly."""
    return op.refuse(rule, here, help, "has no exact ExecuTorch form")


def result_bounds(op: Op) -> tuple[int, int]:
    """Returns the bounds of an op's result. If they cross, the upper one applies."""
    low, high = op.attributes["low"], op.attributes["high"]
    return min(low, high), high
