# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pillion.ir.graph import Graph
from pillion.ir.op import Op
from pillion.ir.state import State
from pillion.ir.types import DType, PerTensor, Value
from pillion.ops import Dequantize, Quantize


def int8_states(graph: Graph) -> Graph:
    """Keeps states as integers if each run dequantizes them at its end and the next one quantizes them again
    with the same parameters."""
    for state in graph.states:
        readers = graph.users.get(state.before, [])
        maker = graph.producers.get(state.after)
        if isinstance(maker, Dequantize) and _all_readers_quantize_alike(graph, state, readers, maker.x):
            graph = _make_state_integer(graph, state, readers, maker.x)
    return graph.without_dead_ops()


def _all_readers_quantize_alike(graph: Graph, state: State, readers: list[Op], integers: Value) -> bool:
    """Whether every reader of the state requantizes with the parameters that it was dequantized from."""
    return (
        isinstance(integers.type.quant, PerTensor)
        and integers.dtype in (DType.INT8, DType.INT16)
        and not graph.is_output(state.before)
        and all(isinstance(op, Quantize) and op.y.type == integers.type for op in readers)
    )


def _make_state_integer(graph: Graph, state: State, readers: list[Op], after: Value) -> Graph:
    before = Value(state.before.name, after.type)
    initial = Quantize(x=state.before, y=before).reference(graph.arithmetic, state.initial)
    integer_state = State(state.name, before, after, initial)
    same = {op.results[0]: before for op in readers}
    left = graph.replace(
        ops=tuple(op for op in graph.ops if op not in readers),
        states=tuple(integer_state if existing is state else existing for existing in graph.states),
    )
    return left.substitute(same)
