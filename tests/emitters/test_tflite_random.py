# SPDX-License-Identifier: Apache-2.0
"""Random graphs of several ops, made of the ops' examples: LiteRT answers what the reference answers."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pillion.emitters.tflite import emit
from pillion.errors import PillionError
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import DType, PerTensor, TensorType, Value
from pillion.ir.verify import verify_graph
from pillion.ops import ALL_OPS
from pillion.ops.div import Div
from pillion.ops.example_values import random_like
from pillion.ops.formats import Requantize
from pillion.ops.lut import Lut
from pillion.ops.movement import Concat, Reshape, Slice
from pillion.ops.reduce import ReduceSum
from pillion.ops.softmax import Softmax
from pillion.ops.unary_functions import Function

litert = pytest.importorskip("ai_edge_litert.interpreter")

PARTIAL = (Function.SQRT, Function.RSQRT)
"""LiteRT stops at negative numbers."""


def can_take_part(op: Op) -> bool:
    """Whether LiteRT answers the op for every input."""
    if (isinstance(op, Lut) and op.function in PARTIAL) or (isinstance(op, Softmax) and op.x.shape[-1] > 512):
        return False
    if isinstance(op, ReduceSum) or (isinstance(op, Div) and not op.b.is_constant):
        return False
    try:
        emit(Graph("g", op.activations, (op,), op.results))
    except PillionError:
        return False
    return all(v.dtype is DType.INT8 for v in (*op.activations, *op.results))


EXAMPLES = [op for cls in ALL_OPS for op in cls.examples() if can_take_part(op)]


class Chain:
    """A graph that grows: each further op reads the last result where it can be made to fit."""

    def __init__(self) -> None:
        self.inputs: list[Value] = []
        self.ops: list[Op] = []
        self.last: Value | None = None

    def append(self, op: Op) -> None:
        prefix = f"n{len(self.ops)}_"
        names = {v: dataclasses.replace(v, name=prefix + v.name) for v in (*op.operands, *op.results)}
        first, *others = [names[v] for v in op.activations]
        if self.last is not None and self.last.dtype is DType.INT8:
            names = {old: self.fit(first) if new is first else new for old, new in names.items()}
        else:
            others.append(first)
        self.inputs.extend(others)
        self.ops.append(op.substitute(names))
        self.last = self.ops[-1].results[0]

    def fit(self, wanted: Value) -> Value:
        """The last result, repeated, cut, reshaped and requantized until it is of the wanted type."""
        assert self.last is not None
        last, size = self.last, wanted.type.elements
        last = self.add(Reshape, last, "flat", (last.type.elements,), x=last)
        while last.type.elements < size:
            last = self.add(Concat, last, "longer", (2 * last.type.elements,), xs=(last, last))
        last = self.add(Slice, last, "cut", (size,), x=last, begin=(last.type.elements - size,), step=(1,))
        last = self.add(Reshape, last, "shaped", wanted.shape, x=last)
        y = Value(f"r{len(self.ops)}_fit", TensorType(wanted.shape, DType.INT8, wanted.type.quant))
        self.ops.append(Requantize(x=last, y=y))
        return y

    def add(self, cls: type[Op], like: Value, name: str, shape: tuple[int, ...], **fields: object) -> Value:
        assert isinstance(like.type.quant, PerTensor)
        y = Value(f"r{len(self.ops)}_{name}", TensorType(shape, like.dtype, like.type.quant))
        self.ops.append(cls(y=y, **fields))  # type: ignore[call-arg]  # the fields of this op
        return y

    def graph(self) -> Graph:
        outputs = tuple(op.results[0] for op in self.ops if op.results[0] is self.last or len(self.ops) % 2)
        return verify_graph(Graph("chain", tuple(self.inputs), tuple(self.ops), outputs, Arithmetic.TFLITE))


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(EXAMPLES), min_size=2, max_size=6), st.integers(0, 2**20))
def test_random_graphs_have_the_bytes_of_litert(ops: list[Op], seed: int) -> None:
    chain = Chain()
    for op in ops:
        chain.append(op)
    graph = chain.graph()
    inputs = [random_like(v, seed) for v in graph.inputs]
    interpreter = litert.Interpreter(
        model_content=emit(graph),
        experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF,
        num_threads=1,
        experimental_preserve_all_tensors=True,  # see verifying/executors.py
    )
    interpreter.allocate_tensors()
    for detail, array in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(detail["index"], array)
    interpreter.invoke()
    for detail, wanted in zip(interpreter.get_output_details(), graph.reference(*inputs), strict=True):
        assert interpreter.get_tensor(detail["index"]).tolist() == wanted.tolist(), detail["name"]
