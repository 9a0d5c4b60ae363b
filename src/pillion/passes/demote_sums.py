# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic, clamp_to_int8
from pillion.ir.op import Op
from pillion.ir.state import State
from pillion.ir.types import Array, DType, PerTensor, Value, constant_value
from pillion.ops import Concat, Lut, Normalize, Requantize, Reshape, Scan, Slice, Transpose, has_repeats
from pillion.ops.elementwise import ScaledBinary
from pillion.ops.lut_interpolation import as_int8_table
from pillion.ops.wide_arithmetic import STEPS, STEPS_IN_LOOPS

MOVES = (Concat, Reshape, Slice, Normalize, Transpose)
"""Ops that keep the type of their operand."""


def demote_sums(graph: Graph) -> Graph:
    """Turns 16-bit sums, products, functions, moves and carried values into 8-bit ones, for formats and
    runtimes without 16 bits. 256 values (128 in loops) become one int8 value."""
    arithmetic = graph.arithmetic
    demoted = set(_values_to_demote(graph, arithmetic))
    wide_states = [
        state.before for state in graph.states if state.after in demoted and state.before.dtype is DType.INT16
    ]
    narrowing = _Int8Demotion(arithmetic, STEPS_IN_LOOPS if has_repeats(graph) or wide_states else STEPS)
    values = _values_to_demote(graph, arithmetic, wide_states)
    return narrowing.narrow_graph(graph, narrowing.narrow_replacements(values), keeps_outputs=True)


def _values_to_demote(graph: Graph, arithmetic: Arithmetic, known: Iterable[Value] = ()) -> list[Value]:
    """Lists the 16-bit values to demote: results of ops in our own 16-bit form, moved values, values carried by loops."""
    demoted = dict.fromkeys(known)
    for op in graph.ops:
        if isinstance(op, Scan):
            inside = set(
                _values_to_demote(op.body, arithmetic, _demoted_loop_inputs(op, arithmetic, demoted))
            )
            result_pairs = zip((*op.stacked, *op.last), op.body.outputs, strict=True)
            demoted |= dict.fromkeys(y for y, result in result_pairs if result in inside)
            demoted |= dict.fromkeys(op.initial[at] for at in _demoted_carried_values(op, arithmetic))
        elif op.has_own_int16_form(arithmetic) or (isinstance(op, MOVES) and set(op.operands) & set(demoted)):
            demoted |= dict.fromkeys(y for y in op.results if y.dtype is DType.INT16)
    return list(demoted)


def _demoted_loop_inputs(op: Scan, arithmetic: Arithmetic, wide: Iterable[Value]) -> list[Value]:
    """Lists the inputs of a loop's body that become 8-bit."""
    outer = (*op.sequences, *op.invariants)
    inner = (*op.elements, *op.fixed)
    wide_values = set(wide)
    read = [own for value, own in zip(outer, inner, strict=True) if value in wide_values]
    return [*read, *(op.carried[at] for at in _demoted_carried_values(op, arithmetic))]


def _demoted_carried_values(op: Scan, arithmetic: Arithmetic) -> list[int]:
    """Lists the carried values of a loop that become 8-bit."""
    demoted = set(_values_to_demote(op.body, arithmetic))
    return [at for at, value in enumerate(op.next) if value in demoted]


@dataclass(frozen=True)
class _Int8Demotion:
    arithmetic: Arithmetic
    steps: int
    """16-bit steps per 8-bit step."""

    def narrow_replacements(self, values: Iterable[Value]) -> dict[Value, Value]:
        return {value: self.narrow(value) for value in values}

    def narrow_graph(self, graph: Graph, narrow: Mapping[Value, Value], *, keeps_outputs: bool) -> Graph:
        """Replaces 16-bit values by 8-bit ones. With `keeps_outputs`, outputs keep their names."""
        same: dict[Value, Value] = {}
        ops: list[Op] = []
        for old in graph.ops:
            looped = self.loop(old, narrow) if isinstance(old, Scan) else old
            op = looped.substitute({**narrow, **same})
            if old.has_own_int16_form(self.arithmetic):
                op = self.as_8_bit_op(op, old)
                if (
                    isinstance(op, Requantize)
                    and op.is_identity
                    and not (keeps_outputs and graph.is_output(old.results[0]))
                ):
                    same |= {old.results[0]: op.x, op.y: op.x}
                    continue
            ops.append(op)
        if tuple(ops) == graph.ops:
            return graph
        states = tuple(self.state(state, narrow) for state in graph.states)
        inputs = tuple(narrow.get(v, v) for v in graph.inputs)
        outputs = tuple(narrow.get(v, v) for v in graph.outputs)
        return graph.replace(inputs=inputs, outputs=outputs, states=states).with_ops(ops, same)

    def loop(self, op: Scan, narrow: Mapping[Value, Value]) -> Scan:
        """Demotes the body of a loop."""
        body = self.narrow_graph(
            op.body,
            self.narrow_replacements(
                _values_to_demote(op.body, self.arithmetic, _demoted_loop_inputs(op, self.arithmetic, narrow))
            ),
            keeps_outputs=False,
        )
        return replace(op, body=body) if body is not op.body else op

    def state(self, state: State, narrow: Mapping[Value, Value]) -> State:
        if state.before not in narrow:
            return state.substitute(narrow)
        before, after = narrow[state.before], narrow.get(state.after, state.after)
        return State(state.name, before, after, self.levels(state.initial))

    def narrow(self, value: Value) -> Value:
        zero_point = int(clamp_to_int8(round(value.zero_point / self.steps), *DType.INT8.bounds))
        quant = PerTensor(value.scale * self.steps, zero_point)
        type = replace(value.type, dtype=DType.INT8, quant=quant)
        return Value(value.name, type, None if value.data is None else self.levels(value.data))

    def levels(self, data: Array) -> Array:
        """Rounds constants to the nearest 8-bit values."""
        rounded = np.round(data.astype(np.float64) / self.steps)
        levels: Array = np.clip(rounded, *DType.INT8.bounds).astype(np.int8)
        return levels

    def as_8_bit_op(self, op: Op, wide: Op) -> Op:
        """Returns an op on 8-bit tensors with the attributes of the 16-bit op."""
        if isinstance(op, ScaledBinary) and isinstance(wide, ScaledBinary):
            if wide.y.dtype is DType.INT16:
                low, high = self.levels(np.array([wide.low, wide.high])).tolist()
                op = replace(op, low=low, high=high)
            return op
        if isinstance(op, Requantize):
            return replace(op, to=op.y.dtype)
        if isinstance(op, Lut) and isinstance(wide, Lut) and op.table is not None:
            entries = as_int8_table(wide.line_ends, op.x, op.y, (wide.x, wide.y))
            return replace(op, table=constant_value(op.table.name, entries))
        return op
