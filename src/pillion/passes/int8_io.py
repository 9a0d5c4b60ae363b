# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pillion.ir.graph import Graph, UniqueNames
from pillion.ir.numerics import clamp_to_int8
from pillion.ir.types import DType, PerTensor, TensorType, Value
from pillion.ops import Dequantize, Quantize, Requantize
from pillion.ops.wide_arithmetic import STEPS_IN_LOOPS


def int16_io(graph: Graph) -> Graph:
    """Makes inputs 16-bit integers, and outputs integers of their tensors' own width. Inputs that are read in 8 bits are
    rounded to them first."""
    integers = int8_io(graph, keeps_16_bits=True)
    names = UniqueNames(integers.values)
    inside = {
        v: v.like(names.fresh(f"{v.name}_i8"))
        for v, real in zip(integers.inputs, graph.inputs, strict=True)
        if v.dtype is DType.INT8 and real.dtype is DType.FLOAT32
    }
    outer = {v: v.like(v.name, dtype=DType.INT16, quant=PerTensor(v.scale / STEPS_IN_LOOPS)) for v in inside}
    first = [Requantize(x=outer[v], y=y) for v, y in inside.items()]
    moved = integers.substitute(inside)
    inputs = tuple(outer.get(v, v) for v in integers.inputs)
    return moved.replace(inputs=inputs, ops=(*first, *moved.ops))


def int8_io(graph: Graph, keeps_16_bits: bool = False) -> Graph:
    """Makes inputs and outputs int8: removes quantize ops behind inputs and dequantize ops before outputs."""
    for value in graph.inputs:
        user = graph.only_user(value)
        if isinstance(user, Quantize):
            graph = _replace_float_input(graph, user, Value(value.name, user.y.type), user.y)
    for value in graph.outputs:
        maker = graph.producers.get(value)
        if isinstance(maker, Dequantize) and maker.x in graph.producers and not graph.is_output(maker.x):
            graph, output = (graph, maker.x) if keeps_16_bits else _int8_output(graph, maker)
            outputs = tuple(output if v is value else v for v in graph.outputs)
            graph = graph.replace(outputs=outputs).without_dead_ops()
    return graph


def _int8_output(graph: Graph, border: Dequantize) -> tuple[Graph, Value]:
    """Returns the int8 value behind an output; a sequence of int16 states is requantized first."""
    x = border.x
    if x.dtype is not DType.INT16 or not isinstance(x.type.quant, PerTensor):
        return graph, x
    zero_point = int(clamp_to_int8(round(x.zero_point / STEPS_IN_LOOPS), *DType.INT8.bounds))
    quant = PerTensor(x.scale * STEPS_IN_LOOPS, zero_point)
    names = UniqueNames(graph.values)
    y = Value(names.fresh(f"{x.name}_i8"), TensorType(x.shape, DType.INT8, quant))
    op = Requantize(x=x, y=y, source=border.source)
    return graph.replace(ops=(*graph.ops, op)), y


def _replace_float_input(graph: Graph, quantize: Quantize, integers: Value, real_input: Value) -> Graph:
    """Replaces a float input by its integers."""
    inputs = tuple(integers if v is quantize.x else v for v in graph.inputs)
    ops = tuple(op for op in graph.ops if op is not quantize)
    return graph.replace(inputs=inputs, ops=ops).substitute({real_input: integers})
