# SPDX-License-Identifier: Apache-2.0
"""Graphs for the tests of placement: small ones by hand, random ones grown from the ops' examples."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence

from pillion.devices.cortex_m import CORES
from pillion.emitters.c.kernel_costs import core_cycles
from pillion.emitters.tflite import emit
from pillion.errors import PillionError
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import Array, DType, PerTensor, Quant, Shape, TensorType, Value
from pillion.ir.verdict import all_ok
from pillion.ir.verify import verify_graph
from pillion.ops import ALL_OPS, Add, Concat, Function, Lut, Requantize, Reshape, Segment, Slice
from pillion.partition import Placement, ProcessingUnit
from pillion.targets import NPUS

SOME_NPU = next(iter(NPUS.values()))
EAGER = dataclasses.replace(SOME_NPU, dispatch_cycles=0, estimate=lambda op: 0)
"""An NPU that costs nothing, so that the rules alone decide."""

ON_M33, ON_M55 = core_cycles(CORES["cortex-m33"]), core_cycles(CORES["cortex-m55"])
"""What ops take on these cores."""

Q = PerTensor(0.05, 3)
SHAPE: Shape = (1, 6, 4, 8)


def value(name: str, shape: Shape = SHAPE, quant: Quant = Q) -> Value:
    return Value(name, TensorType(shape, DType.INT8, quant))


def add(a: Value, b: Value, name: str) -> Op:
    return Add(a=a, b=b, y=value(name, a.shape))


def on_npu(x: Value, name: str) -> Op:
    return Lut(x=x, y=value(name, x.shape), function=Function.HARDSWISH, source=f"model.py:{len(name)}")


def on_cpu(x: Value, name: str) -> Op:
    """A function that the NPU has not."""
    return Lut(x=x, y=value(name, x.shape), function=Function.GELU, source="model.py:7")


def graph_of(inputs: Sequence[Value], ops: Sequence[Op], outputs: Sequence[Value] | None = None) -> Graph:
    last = (ops[-1].results[0],)
    return verify_graph(Graph("g", tuple(inputs), tuple(ops), tuple(last if outputs is None else outputs)))


def chain(*makers: Callable[[Value, str], Op]) -> Graph:
    """Each op reads the one before; they are called n0, n1 …"""
    x = value("x")
    ops: list[Op] = []
    for number, make in enumerate(makers):
        ops.append(make(ops[-1].results[0] if ops else x, f"n{number}"))
    return graph_of([x], ops)


def segments(graph: Graph) -> list[Segment]:
    return [op for op in graph if isinstance(op, Segment)]


def one_by_one(graph: Graph, placement: Placement, inputs: Sequence[Array]) -> list[Array]:
    """Every op alone, in the arithmetic of the unit that the ledger names."""
    known = dict(zip(graph.inputs, inputs, strict=True))
    for entry in placement.ledger:
        arithmetic = Arithmetic.TFLITE if entry.unit is ProcessingUnit.NPU else Arithmetic.CMSIS_NN
        operands = [v.constant if v.is_constant else known[v] for v in entry.op.operands]
        known[entry.op.results[0]] = entry.op.reference(arithmetic, *operands)
    return [known[v] for v in graph.outputs]


def _takes_part(op: Op) -> bool:
    """Whether the op is int8 and, where the NPU takes it, has a TFLite form."""
    if any(v.dtype is not DType.INT8 for v in (*op.activations, *op.results)):
        return False
    if all_ok(SOME_NPU.judge(op)):
        try:
            emit(Graph("one", op.activations, (op,), op.results))
        except PillionError:
            return False
    return True


EXAMPLES = [op for cls in ALL_OPS for op in cls.examples() if _takes_part(op)]


class Growing:
    """A graph to which ops are added: each operand is an input of its own or an earlier result, made to fit."""

    def __init__(self) -> None:
        self.inputs: list[Value] = []
        self.ops: list[Op] = []
        self.made: list[Value] = []
        self.numbers = itertools.count()

    def append(self, op: Op, choices: Sequence[int]) -> None:
        """A choice of 0 is a new input, a choice of n the nth last result."""
        number = next(self.numbers)
        names: dict[Value, Value] = {}
        for held, choice in zip(op.activations, itertools.cycle(choices), strict=False):
            renamed = dataclasses.replace(held, name=f"n{number}_{held.name}")
            names[held] = (
                self.fit(self.made[-choice], renamed) if 0 < choice <= len(self.made) else self.input(renamed)
            )
        for held in (*op.operands, *op.results):
            names.setdefault(held, dataclasses.replace(held, name=f"n{number}_{held.name}"))
        self.add(op.substitute(names))
        self.made.extend(self.ops[-1].results)

    def input(self, wanted: Value) -> Value:
        self.inputs.append(wanted)
        return wanted

    def add(self, op: Op) -> Value:
        self.ops.append(op)
        return op.results[0]

    def fit(self, held: Value, wanted: Value) -> Value:
        """An earlier result, repeated, cut, reshaped and requantized until it is of the wanted type."""
        size = wanted.type.elements
        flat = self.add(Reshape(x=held, y=self.like(held, (held.type.elements,))))
        while flat.type.elements < size:
            flat = self.add(Concat(xs=(flat, flat), y=self.like(held, (2 * flat.type.elements,))))
        begin = flat.type.elements - size
        cut = self.add(Slice(x=flat, y=self.like(held, (size,)), begin=(begin,), step=(1,)))
        shaped = self.add(Reshape(x=cut, y=self.like(held, wanted.shape)))
        if wanted.type == shaped.type:
            return shaped
        return self.add(Requantize(x=shaped, y=self.like(wanted, wanted.shape)))

    def like(self, held: Value, shape: Shape) -> Value:
        return Value(f"f{next(self.numbers)}", TensorType(shape, held.dtype, held.type.quant))

    def graph(self) -> Graph:
        read = {v for op in self.ops for v in op.operands}
        outputs = [v for v in self.made if v not in read or len(v.name) % 2]
        return verify_graph(Graph("grown", tuple(self.inputs), tuple(self.ops), tuple(outputs)))
