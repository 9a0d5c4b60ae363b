# SPDX-License-Identifier: Apache-2.0
"""A random program as the inner graph of a repetition: some inputs are read element by element, some are carried, some stay."""

from __future__ import annotations

import dataclasses

import numpy as np

from fuzz.choices import Choices
from pillion import passes
from pillion.ir.graph import Graph
from pillion.ir.op import Op
from pillion.ir.types import TensorType, Value, constant_value
from pillion.ir.verify import verify_graph
from pillion.ops import Pad, Requantize, Reshape, Scan, Slice
from pillion.ops.wide_arithmetic import TYPES
from pillion.passes.int8_io import int8_io


def repeated(graph: Graph, choices: Choices) -> Graph | None:
    """The program as a repetition; None where its borders are no integers, or nothing of it is computed."""
    graph = int8_io(passes.run(graph))
    computed = [v for v in graph.outputs if _maker(graph, v) is not None]
    if not computed or any(v.dtype not in TYPES for v in (*graph.inputs, *computed)):
        return None
    count = choices.pick((3, 1, 2, 5))
    roles = {v: choices.pick(("sequence", "carried", "invariant")) for v in graph.inputs}
    ops = list(graph.ops)
    carried = [v for v in graph.inputs if roles[v] == "carried"]
    nexts = [_next(value, choices.pick(computed), ops) for value in carried]
    sequences = [v for v in graph.inputs if roles[v] == "sequence"]
    fixed = [v for v in graph.inputs if roles[v] == "invariant"]
    if not sequences and not carried:
        roles[graph.inputs[0]] = "sequence"
        sequences, fixed = [graph.inputs[0]], list(graph.inputs[1:])
    inside = (*sequences, *carried, *fixed)
    body = Graph("step", inside, tuple(ops), (*computed, *nexts), graph.arithmetic)
    outer = [_like(v, "seq", count) for v in sequences]
    initial = [_initial(v, choices) for v in carried]
    rest = [_like(v, "inv") for v in fixed]
    ys = (*(_like(v, "all", count) for v in computed), *(_like(v, "last") for v in nexts))
    op = Scan(
        sequences=tuple(outer),
        initial=tuple(initial),
        invariants=tuple(rest),
        ys=ys,
        body=body,
        count=count,
        reverse=choices.one_in(3),
    )
    given = tuple(v for v in (*outer, *initial, *rest) if not v.is_constant)
    return verify_graph(Graph(graph.name, given, (op,), ys, graph.arithmetic)) if given else None


def _maker(graph: Graph, value: Value) -> Op | None:
    """The op that computes an output: no view of something else."""
    made = graph.producers.get(value)
    return None if made is None or isinstance(made, Reshape) else made


def _next(value: Value, made: Value, ops: list[Op]) -> Value:
    """A result in the form of a carried value, of 8 or 16 bits: cut or padded, and brought to its scale."""
    elements, wanted = made.type.elements, value.type.elements
    flat = Value(f"{value.name}_flat", dataclasses.replace(made.type, shape=(elements,)))
    fitted = Value(f"{value.name}_fitted", dataclasses.replace(made.type, shape=(wanted,)))
    shaped = Value(f"{value.name}_as", dataclasses.replace(made.type, shape=value.shape))
    y = Value(f"{value.name}_next", value.type)
    ops.append(Reshape(x=made, y=flat))
    if elements < wanted:
        ops.append(Pad(x=flat, y=fitted, before=(0,), after=(wanted - elements,), value=5))
    else:
        ops.append(Slice(x=flat, y=fitted, begin=(0,), step=(1,)))
    ops += [Reshape(x=fitted, y=shaped), Requantize(x=shaped, y=y, to=y.dtype)]
    return y


def _like(value: Value, prefix: str, count: int | None = None) -> Value:
    shape = value.shape if count is None else (count, *value.shape)
    return Value(f"{prefix}_{value.name}", TensorType(shape, value.dtype, value.type.quant))


def _initial(value: Value, choices: Choices) -> Value:
    if not choices.one_in(2):
        return _like(value, "from")
    data = np.random.default_rng(choices.integer(0, 99)).integers(
        *value.dtype.bounds, value.shape, endpoint=True
    )
    return constant_value(f"from_{value.name}", data.astype(value.dtype.numpy), value.type.quant)
