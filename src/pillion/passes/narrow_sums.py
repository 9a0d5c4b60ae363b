# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from pillion.ir.graph import Graph
from pillion.ir.numerics import saturate
from pillion.ir.op import Op
from pillion.ir.state import State
from pillion.ir.types import Array, DType, PerTensor, Value
from pillion.ops import Add, Repeat, Requantize, WideAdd
from pillion.ops.wide_add import STEPS


def narrow_sums(graph: Graph) -> Graph:
    """Gives sums of 16 bits 8, for formats and runtimes that have no others: of each step of int8, 256 are no longer told apart. So it does to
    what loops carry where it is such a sum."""
    return _narrowed(graph, {value: _narrow(value) for value in _wide(graph)}, keeps_outputs=True)


def _wide(graph: Graph) -> list[Value]:
    """What is a sum of 16 bits, or holds one from step to step."""
    sums = [op.y for op in graph.ops if isinstance(op, WideAdd) and op.y.dtype is DType.INT16]
    loops = [op for op in graph.ops if isinstance(op, Repeat)]
    held = [value for op in loops for at in _places(op) for value in (op.initial[at], op.last[at])]
    return list(dict.fromkeys([*sums, *held]))


def _places(op: Repeat) -> list[int]:
    """Which carried values of a loop are sums of 16 bits."""
    sums = set(_wide(op.body))
    return [at for at, value in enumerate(op.next) if value in sums]


def _narrowed(graph: Graph, narrow: Mapping[Value, Value], *, keeps_outputs: bool) -> Graph:
    """Exchanges values for narrow ones. Outputs of a graph keep their names, if need be by an op that changes nothing."""
    same: dict[Value, Value] = {}
    ops: list[Op] = []
    for one in graph.ops:
        op = (_loop(one) if isinstance(one, Repeat) else one).substitute({**narrow, **same})
        if isinstance(one, WideAdd) and isinstance(op, WideAdd):
            op = _in_8_bits(op)
            if isinstance(op, Requantize) and op.is_idle and not (keeps_outputs and graph.is_output(one.y)):
                same |= {one.y: op.x, op.y: op.x}
                continue
        ops.append(op)
    if tuple(ops) == graph.ops:
        return graph
    states = tuple(_state(state, narrow) for state in graph.states)
    inputs = tuple(narrow.get(v, v) for v in graph.inputs)
    outputs = tuple(narrow.get(v, v) for v in graph.outputs)
    return graph.replace(inputs=inputs, outputs=outputs, states=states).with_ops(ops, same)


def _loop(op: Repeat) -> Repeat:
    """A loop whose inner graph has no sums of 16 bits; what stands around it is exchanged with all else."""
    carried = [op.carried[at] for at in _places(op)]
    narrow = {value: _narrow(value) for value in (*_wide(op.body), *carried)}
    body = _narrowed(op.body, narrow, keeps_outputs=False)
    return replace(op, body=body) if body is not op.body else op


def _state(state: State, narrow: Mapping[Value, Value]) -> State:
    if state.before not in narrow:
        return state.substitute(narrow)
    before, after = narrow[state.before], narrow.get(state.after, state.after)
    return State(state.name, before, after, _levels(state.initial))


def _narrow(value: Value) -> Value:
    zero_point = int(saturate(round(value.zero_point / STEPS), *DType.INT8.bounds))
    type = replace(value.type, dtype=DType.INT8, quant=PerTensor(value.scale * STEPS, zero_point))
    return Value(value.name, type, None if value.data is None else _levels(value.data))


def _levels(data: Array) -> Array:
    """The nearest numbers of 8 bits."""
    rounded = np.round(data.astype(np.float64) / STEPS)
    levels: Array = np.clip(rounded, *DType.INT8.bounds).astype(np.int8)
    return levels


def _in_8_bits(op: WideAdd) -> Op:
    """A sum; one with nothing is a change of scale."""
    is_nothing = (
        op.b.is_constant and op.a.shape == op.y.shape and not np.any(op.b.constant != op.b.zero_point)
    )
    if is_nothing:
        return Requantize(x=op.a, y=op.y, source=op.source)
    return Add(a=op.a, b=op.b, y=op.y, source=op.source)
