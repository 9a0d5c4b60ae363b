# SPDX-License-Identifier: Apache-2.0
"""What the calls of a program do, before scales are known and after: each step learns what it can of the scales of its
tensors, chooses what nobody knows, and becomes ops of the graph with exactly the multipliers of the program."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pillion.errors import PillionError
from pillion.importers.pte.scales import Fit, Ratios, Search, SumFit, SumRatios
from pillion.importers.pte.tensor import Label, Table, Tensor
from pillion.ir.graph import Graph, Names
from pillion.ir.op import Op
from pillion.ir.types import Array, DType, PerChannel, PerTensor, Quant, TensorType, Value, constant
from pillion.ops import Add, Dequantize, Function, Lut, Quantize, Segment, Softmax
from pillion.ops.conv import without_idle_biases

LEVELS: Table = np.arange(-128, 128).astype(np.int8)
"""What the entries of a table stand for."""


class Output:
    """Collects the ops of the graph."""

    def __init__(self) -> None:
        self.names = Names()
        self.ops: list[Op] = []
        self.values: dict[Tensor, Value] = {}
        self.seen: dict[tuple[Tensor, Quant | None], Value] = {}

    def new(self, tensor: Tensor, quant: PerTensor | None) -> Value:
        """Makes the value that a tensor becomes."""
        made = Value(self.names.fresh(tensor.name), TensorType(tensor.shape, tensor.dtype, quant))
        self.values[tensor] = made
        return made

    def value(self, tensor: Tensor, quant: PerTensor | None, source: str) -> Value:
        """Gives a tensor's bytes under some scale and zero point: a table that changes nothing where they have others."""
        base = self.values.get(tensor)
        if base is not None and base.type.quant == quant:
            return base
        key = (tensor, quant)
        if key not in self.seen:
            self.seen[key] = self.relabelled(tensor, quant, base, source)
        return self.seen[key]

    def relabelled(self, tensor: Tensor, quant: PerTensor | None, base: Value | None, source: str) -> Value:
        """Gives a tensor with another scale: a constant is made anew, a computed one goes through a table that changes nothing."""
        if tensor.data is not None:
            return self.constant(tensor.name, tensor.data, quant)
        assert base is not None, tensor.name  # steps come in running order
        y = Value(self.names.fresh(tensor.name), TensorType(tensor.shape, tensor.dtype, quant))
        self.table(base, LEVELS, y, source)
        return y

    def table(self, x: Value, entries: Table, y: Value, source: str) -> None:
        """Adds a lookup in a table."""
        held = self.constant(f"{y.name}_table", entries, None)
        self.ops.append(Lut(x=x, table=held, y=y, function=Function.TABLE, source=source))

    def constant(self, name: str, data: Array, quant: Quant | None) -> Value:
        """Makes a constant under a name that is still free."""
        return constant(self.names.fresh(name), data, quant)


@dataclass(eq=False)
class Step:
    """What one call of the program does. It learns scales, is solved, and becomes ops."""

    source: str
    """The instruction that it is, for messages."""

    @property
    def labels(self) -> tuple[Label, ...]:
        """The labels with which `learn` can begin."""
        return ()

    def learn(self) -> bool:
        """Passes on what is known of scales, and says whether something was new."""
        return False

    def solve(self, search: Search) -> None:
        """Chooses the scales that nobody knows."""

    def emit(self, out: Output) -> None:
        """Adds to the graph what the step does."""
        raise NotImplementedError

    def unsolvable(self, found: object) -> PillionError:
        """Makes the error for multipliers that no scales give."""
        return PillionError(
            "multipliers of the program come from no scales",
            rule="scales are 32-bit floating-point numbers",
            here=f"{self.source}: {found}"[:300],
            help="compile the model with Pillion, from PyTorch or .tflite",
        )


@dataclass(eq=False)
class ToInt8(Step):
    """The step from real numbers to integers."""

    x: Tensor
    y: Tensor
    quant: PerTensor

    def emit(self, out: Output) -> None:
        x, y = out.value(self.x, None, self.source), out.new(self.y, self.quant)
        out.ops.append(Quantize(x=x, y=y, source=self.source))


@dataclass(eq=False)
class ToReal(Step):
    """The step from integers to real numbers."""

    x: Tensor
    y: Tensor
    quant: PerTensor

    def emit(self, out: Output) -> None:
        x, y = out.value(self.x, self.quant, self.source), out.new(self.y, None)
        out.ops.append(Dequantize(x=x, y=y, source=self.source))


@dataclass(eq=False)
class Lookup(Step):
    """A step that is any function of one tensor, as a table."""

    x: Tensor
    y: Tensor
    table: Table

    def emit(self, out: Output) -> None:
        x = out.values[self.x]
        out.table(x, self.table, out.new(self.y, self.y.quant), self.source)


@dataclass(eq=False)
class Same(Step):
    """An op whose operands and result share scale and zero point."""

    make: type[Any]
    operands: tuple[str, ...]
    xs: tuple[Tensor, ...]
    y: Tensor
    fields: dict[str, Any] = field(default_factory=dict)

    def emit(self, out: Output) -> None:
        active = next(x for x in self.xs if not x.is_constant)
        quant = out.values[active].type.quant
        assert not isinstance(quant, PerChannel)  # no tensor of a program is
        values = tuple(out.value(x, quant, self.source) for x in self.xs)
        given = {"xs": values} if self.operands == ("xs",) else dict(zip(self.operands, values, strict=True))
        out.ops.append(self.make(y=out.new(self.y, quant), source=self.source, **given, **self.fields))


@dataclass(eq=False)
class Scaled(Step):
    """A step whose product x · w is requantized: the scales of x, of w and of the result make the multipliers."""

    x: Tensor
    y: Tensor
    zero_points: tuple[int, int]
    ratios: Ratios
    fitted: Fit | None = None

    @property
    def labels(self) -> tuple[Label, ...]:
        return self.x.label, self.y.label

    def solve(self, search: Search) -> None:
        if not self.ratios.are_normal:
            raise self.unsolvable(list(zip(self.ratios.mantissas, self.ratios.shifts, strict=True))[:4])
        x, y = self.x.scale, self.y.scale
        for wish in dict.fromkeys(((x, y), (x, None), (None, y), (None, None))):
            self.fitted = self.ratios.fit(*wish, search)
            if self.fitted is not None:
                self.x.label.learn(self.fitted.x)
                self.y.label.learn(self.fitted.y)
                return
        raise self.unsolvable(self.ratios.real[:4].tolist())

    @property
    def fit(self) -> Fit:
        """The scales that were found."""
        assert self.fitted is not None  # solved before it is emitted
        return self.fitted

    @property
    def quants(self) -> tuple[PerTensor, PerTensor]:
        """Scale and zero point of x and of the result."""
        return PerTensor(self.fit.x, self.zero_points[0]), PerTensor(self.fit.y, self.zero_points[1])


@dataclass(eq=False)
class Weighted(Scaled):
    """A convolution or a fully connected layer: w are the scales of constant weights."""

    make: type[Any] = Op
    weights: Array = field(default_factory=lambda: np.zeros(0))
    bias: Array = field(default_factory=lambda: np.zeros(0))
    axis: int | None = 0
    """The axis of the weights' channels; None where all have one scale."""
    fields: dict[str, Any] = field(default_factory=dict)

    def emit(self, out: Output) -> None:
        x, y = self.quants
        w = self.fit.w.tolist()
        quant: Quant = PerTensor(w[0]) if self.axis is None else PerChannel(tuple(w), self.axis)
        made = self.make(
            x=out.value(self.x, x, self.source),
            weights=out.constant(f"{self.y.name}_weights", self.weights, quant),
            bias=out.constant(f"{self.y.name}_bias", self.bias, None),
            y=out.new(self.y, y),
            source=self.source,
            **self.fields,
        )
        out.ops.append(without_idle_biases(made, str))


@dataclass(eq=False)
class Product(Scaled):
    """A product of two tensors: w is the scale of the other one."""

    make: type[Any] = Op
    other: Tensor | None = None
    other_zero_point: int = 0
    fields: dict[str, Any] = field(default_factory=dict)

    @property
    def labels(self) -> tuple[Label, ...]:
        assert self.other is not None
        return self.x.label, self.other.label, self.y.label

    def learn(self) -> bool:
        """Learns the scale of the result from those of the operands."""
        assert self.other is not None
        a, b = self.x.scale, self.other.scale
        if a is None or b is None or self.y.scale is not None or not self.ratios.are_normal:
            return False
        y = a * b / float(self.ratios.real[0]) if self.ratios.real[0] else 0.0
        found = self.ratios.exact(a, y) if 0 < y < 2.0**100 else None
        if found is None or found.w[0] != b:
            return False
        self.y.label.learn(found.y)
        return True

    def solve(self, search: Search) -> None:
        """Takes the scale of the other operand where it fits; else finds another one, which that operand is then given."""
        self.learn()
        super().solve(search)
        assert self.other is not None
        self.other.label.learn(float(self.fit.w[0]))

    def emit(self, out: Output) -> None:
        assert self.other is not None
        x, y = self.quants
        a = out.value(self.x, x, self.source)
        b = out.value(self.other, PerTensor(float(self.fit.w[0]), self.other_zero_point), self.source)
        out.ops.append(self.make(a=a, b=b, y=out.new(self.y, y), source=self.source, **self.fields))


@dataclass(eq=False)
class Sum(Step):
    """A sum of two tensors, a + b."""

    a: Tensor
    b: Tensor
    y: Tensor
    zero_points: tuple[int, int, int]
    ratios: SumRatios
    fields: dict[str, Any] = field(default_factory=dict)
    fitted: SumFit | None = None

    @property
    def labels(self) -> tuple[Label, ...]:
        return self.a.label, self.b.label, self.y.label

    def learn(self) -> bool:
        before = [label.root.scale for label in self.labels]
        if not self.ratios.are_normal or None not in before:
            return False
        found = self.ratios.fit(*before)
        if found is None:
            return False
        for label, scale in zip(self.labels, (found.a, found.b, found.y), strict=True):
            label.learn(scale)
        return before != [label.root.scale for label in self.labels]

    def solve(self, search: Search) -> None:
        if not self.ratios.are_normal:
            raise self.unsolvable(self.ratios)
        self.fitted = self.ratios.fit(self.a.scale, self.b.scale, self.y.scale) or self.ratios.any(search)
        if self.fitted is None:
            raise self.unsolvable(self.ratios)
        for label, scale in zip(self.labels, (self.fitted.a, self.fitted.b, self.fitted.y), strict=True):
            label.learn(scale)

    def emit(self, out: Output) -> None:
        assert self.fitted is not None  # solved before it is emitted
        scales = (self.fitted.a, self.fitted.b, self.fitted.y)
        a, b, y = (PerTensor(s, z) for s, z in zip(scales, self.zero_points, strict=True))
        first, second = out.value(self.a, a, self.source), out.value(self.b, b, self.source)
        out.ops.append(Add(a=first, b=second, y=out.new(self.y, y), source=self.source, **self.fields))


@dataclass(eq=False)
class Probabilities(Step):
    """A step that is a softmax over the last axis."""

    x: Tensor
    y: Tensor
    x_quant: PerTensor
    y_quant: PerTensor

    @property
    def numbers(self) -> tuple[int, int, int]:
        """The parameters that the kernel is handed."""
        x, y = (Value("", TensorType((1,), DType.INT8, quant)) for quant in (self.x_quant, self.y_quant))
        op = Softmax(x=x, y=y)
        return op.multiplier.mantissa, op.multiplier.shift, op.smallest_difference

    def emit(self, out: Output) -> None:
        x, y = out.value(self.x, self.x_quant, self.source), out.new(self.y, self.y_quant)
        out.ops.append(Softmax(x=x, y=y, source=self.source))


@dataclass(eq=False)
class Delegated(Step):
    """A segment that the NPU runs."""

    xs: tuple[Tensor, ...]
    ys: tuple[Tensor, ...]
    body: Graph
    delegate: str
    """What the runtime on the chip calls the NPU."""

    def emit(self, out: Output) -> None:
        quants = [v.quant if v.is_quantized else None for v in (*self.body.inputs, *self.body.outputs)]
        xs = tuple(out.value(x, q, self.source) for x, q in zip(self.xs, quants, strict=False))
        ys = tuple(out.new(y, q) for y, q in zip(self.ys, quants[len(xs) :], strict=True))
        segment = Segment(xs=xs, ys=ys, body=self.body, device=self.delegate, source=self.source)
        out.ops.append(segment)
