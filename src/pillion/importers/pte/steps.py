# SPDX-License-Identifier: Apache-2.0
"""The steps of a program's calls. Each becomes ops of the graph once the information of all calls on its
tensors is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pillion.importers.pte.tensor import ReadTensor, Table
from pillion.ir.graph import Graph, UniqueNames
from pillion.ir.op import Op
from pillion.ir.types import DType, PerTensor, Quant, TensorType, UnknownScale, Value, constant_value
from pillion.ops import Function, Lut, Segment
from pillion.ops.layer import Layer, zero_dead_channel_biases

LEVELS: Table = np.arange(-128, 128).astype(np.int8)
"""The int8 inputs of a lookup table's entries."""
Seen = int | PerTensor | None
"""The parameters of an operand in a call: a zero point, a scale and zero point, or none."""


class GraphCollector:
    """Collects the ops of the graph."""

    def __init__(self) -> None:
        self.names = UniqueNames()
        self.ops: list[Op] = []
        self.values: dict[ReadTensor, Value] = {}
        self.others: dict[tuple[ReadTensor, Quant | None], Value] = {}
        """Tensors with other parameters than their usual ones."""

    def new(self, tensor: ReadTensor, quant: Quant | None) -> Value:
        """Returns a new value for a tensor."""
        value = Value(self.names.fresh(tensor.name), TensorType(tensor.shape, tensor.dtype, quant))
        self.values[tensor] = value
        return value

    def result(self, tensor: ReadTensor) -> Value:
        """Returns a new value for a computed tensor, with the parameters from all calls."""
        return self.new(tensor, tensor.quant if tensor.dtype is DType.INT8 else None)

    def operand(self, tensor: ReadTensor, seen: Seen, source: str) -> Value:
        """Returns a tensor with the parameters of a call."""
        known = self.values[tensor].type.quant if tensor in self.values else None
        if seen is None or (isinstance(seen, int) and _zero_point(known) == seen):
            return self.value(tensor, known, source)
        return self.value(tensor, UnknownScale(seen) if isinstance(seen, int) else seen, source)

    def value(self, tensor: ReadTensor, quant: Quant | None, source: str) -> Value:
        """Returns a tensor's bytes under these parameters, through an identity table if it has others."""
        base = self.values.get(tensor)
        if base is not None and base.type.quant == quant:
            return base
        key = (tensor, quant)
        if key not in self.others:
            self.others[key] = self.relabelled(tensor, quant, base, source)
        return self.others[key]

    def relabelled(self, tensor: ReadTensor, quant: Quant | None, base: Value | None, source: str) -> Value:
        """Returns a tensor with other parameters: a new constant, or the result of an identity table."""
        name = self.names.fresh(tensor.name)
        if tensor.data is not None:
            return constant_value(name, tensor.data, quant)
        assert base is not None, tensor.name  # steps are in execution order
        y = Value(name, TensorType(tensor.shape, tensor.dtype, quant))
        table = constant_value(self.names.fresh(f"{name}_table"), LEVELS)
        self.ops.append(Lut(x=base, table=table, y=y, function=Function.TABLE, source=source))
        return y


def _zero_point(quant: Quant | None) -> int | None:
    return quant.zero_point if isinstance(quant, (PerTensor, UnknownScale)) else None


@dataclass(eq=False)
class OpStep:
    """An op whose operands have the parameters of its call."""

    source: str
    """The instruction, for messages."""
    make: type[Any]
    xs: Mapping[str, tuple[ReadTensor, Seen]]
    y: ReadTensor
    fields: Mapping[str, Any] = field(default_factory=dict)

    def emit(self, out: GraphCollector) -> None:
        """Adds the op to the graph."""
        operands = {name: out.operand(x, seen, self.source) for name, (x, seen) in self.xs.items()}
        op = self.make(**operands, y=out.result(self.y), source=self.source, **self.fields)
        weighted = isinstance(op, Layer)
        out.ops.append(zero_dead_channel_biases(op, out.names.fresh) if weighted else op)


@dataclass(eq=False)
class SameScaleStep:
    """An op whose operands and result share scale and zero point."""

    source: str
    make: type[Any]
    operands: tuple[str, ...]
    xs: tuple[ReadTensor, ...]
    y: ReadTensor
    fields: Mapping[str, Any] = field(default_factory=dict)

    def emit(self, out: GraphCollector) -> None:
        """Adds the op with the parameters of its first computed operand."""
        quant = out.values[next(x for x in self.xs if not x.is_constant)].type.quant
        values = tuple(out.value(x, quant, self.source) for x in self.xs)
        operands = {"xs": values} if self.operands == ("xs",) else zip(self.operands, values, strict=True)
        fields = {**dict(operands), **self.fields}
        out.ops.append(self.make(y=out.new(self.y, quant), source=self.source, **fields))


@dataclass(eq=False)
class Delegated:
    """An NPU segment."""

    source: str
    xs: tuple[ReadTensor, ...]
    ys: tuple[ReadTensor, ...]
    body: Graph
    delegate: str
    """The delegate's name in the runtime."""

    def emit(self, out: GraphCollector) -> None:
        """Adds the segment; its tensors have the scales of its graph."""
        quants = [v.type.quant for v in (*self.body.inputs, *self.body.outputs)]
        xs = tuple(out.value(x, q, self.source) for x, q in zip(self.xs, quants, strict=False))
        ys = tuple(out.new(y, q) for y, q in zip(self.ys, quants[len(xs) :], strict=True))
        segment = Segment(xs=xs, ys=ys, body=self.body, device=self.delegate, source=self.source)
        out.ops.append(segment)


AnyStep = OpStep | SameScaleStep | Delegated
