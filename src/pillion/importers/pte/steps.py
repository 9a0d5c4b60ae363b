# SPDX-License-Identifier: Apache-2.0
"""What the calls of a program do: each step becomes ops of the graph, when it is known what all calls say of its tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pillion.importers.pte.tensor import Table, Tensor
from pillion.ir.graph import Graph, Names
from pillion.ir.op import Op
from pillion.ir.types import DType, PerChannel, PerTensor, Quant, TensorType, Unscaled, Value, constant
from pillion.ops import Function, Linear, Lut, Segment
from pillion.ops.conv import Convolution, without_idle_biases

LEVELS: Table = np.arange(-128, 128).astype(np.int8)
"""What the entries of a table stand for."""
Seen = int | PerTensor | None
"""How a call sees an operand: with a zero point and any scale, with both, or just as it is."""


class Output:
    """Collects the ops of the graph."""

    def __init__(self) -> None:
        self.names = Names()
        self.ops: list[Op] = []
        self.values: dict[Tensor, Value] = {}
        self.others: dict[tuple[Tensor, Quant | None], Value] = {}
        """Tensors as those see them who say something else of them than most."""

    def new(self, tensor: Tensor, quant: Quant | None) -> Value:
        """Makes the value that a tensor becomes."""
        made = Value(self.names.fresh(tensor.name), TensorType(tensor.shape, tensor.dtype, quant))
        self.values[tensor] = made
        return made

    def result(self, tensor: Tensor) -> Value:
        """Makes the value that a computed tensor becomes, with what the calls say of it."""
        return self.new(tensor, tensor.quant if tensor.dtype is DType.INT8 else None)

    def operand(self, tensor: Tensor, seen: Seen, source: str) -> Value:
        """Gives a tensor as a call sees it."""
        known = self.values[tensor].type.quant if tensor in self.values else None
        if seen is None or (isinstance(seen, int) and _zero_point(known) == seen):
            return self.value(tensor, known, source)
        return self.value(tensor, Unscaled(seen) if isinstance(seen, int) else seen, source)

    def value(self, tensor: Tensor, quant: Quant | None, source: str) -> Value:
        """Gives a tensor's bytes under some scale and zero point: a table that changes nothing where they have others."""
        base = self.values.get(tensor)
        if base is not None and base.type.quant == quant:
            return base
        key = (tensor, quant)
        if key not in self.others:
            self.others[key] = self.relabelled(tensor, quant, base, source)
        return self.others[key]

    def relabelled(self, tensor: Tensor, quant: Quant | None, base: Value | None, source: str) -> Value:
        """Gives a tensor with other parameters: a constant is made anew, a computed one goes through a table that changes nothing."""
        name = self.names.fresh(tensor.name)
        if tensor.data is not None:
            return constant(name, tensor.data, quant)
        assert base is not None, tensor.name  # steps come in running order
        y = Value(name, TensorType(tensor.shape, tensor.dtype, quant))
        table = constant(self.names.fresh(f"{name}_table"), LEVELS)
        self.ops.append(Lut(x=base, table=table, y=y, function=Function.TABLE, source=source))
        return y


def _zero_point(quant: Quant | None) -> int | None:
    return quant.zero_point if isinstance(quant, (PerTensor, Unscaled)) else None


@dataclass(eq=False)
class Step:
    """What one call of the program does: an op, whose operands are seen as the call says."""

    source: str
    """The instruction that it is, for messages."""
    make: type[Any]
    xs: Mapping[str, tuple[Tensor, Seen]]
    y: Tensor
    fields: Mapping[str, Any] = field(default_factory=dict)

    def emit(self, out: Output) -> None:
        """Adds to the graph what the step does."""
        operands = {name: out.operand(x, seen, self.source) for name, (x, seen) in self.xs.items()}
        made = self.make(**operands, y=out.result(self.y), source=self.source, **self.fields)
        weighted = isinstance(made, (Convolution, Linear))
        out.ops.append(without_idle_biases(made, out.names.fresh) if weighted else made)


@dataclass(eq=False)
class Same:
    """An op whose operands and result share scale and zero point."""

    source: str
    make: type[Any]
    operands: tuple[str, ...]
    xs: tuple[Tensor, ...]
    y: Tensor
    fields: Mapping[str, Any] = field(default_factory=dict)

    def emit(self, out: Output) -> None:
        """Adds the op, with the parameters that its first operand has."""
        active = next(x for x in self.xs if not x.is_constant)
        quant = out.values[active].type.quant
        assert not isinstance(quant, PerChannel)  # no tensor of a program is
        values = tuple(out.value(x, quant, self.source) for x in self.xs)
        given = {"xs": values} if self.operands == ("xs",) else dict(zip(self.operands, values, strict=True))
        out.ops.append(self.make(y=out.new(self.y, quant), source=self.source, **given, **self.fields))


@dataclass(eq=False)
class Delegated:
    """A segment that the NPU runs."""

    source: str
    xs: tuple[Tensor, ...]
    ys: tuple[Tensor, ...]
    body: Graph
    delegate: str
    """What the runtime on the chip calls the NPU."""

    def emit(self, out: Output) -> None:
        """Adds the segment; its tensors have the scales that its graph says."""
        quants = [v.type.quant for v in (*self.body.inputs, *self.body.outputs)]
        xs = tuple(out.value(x, q, self.source) for x, q in zip(self.xs, quants, strict=False))
        ys = tuple(out.new(y, q) for y, q in zip(self.ys, quants[len(xs) :], strict=True))
        segment = Segment(xs=xs, ys=ys, body=self.body, device=self.delegate, source=self.source)
        out.ops.append(segment)


AnyStep = Step | Same | Delegated
