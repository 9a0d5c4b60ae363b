# SPDX-License-Identifier: Apache-2.0
"""Binds inputs to outputs: the next run reads an output as its input, as a state of the program."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pillion.errors import PillionError
from pillion.ir.graph import Graph, UniqueNames
from pillion.ir.op import Op
from pillion.ir.state import State
from pillion.ir.types import DType, PerTensor, Value
from pillion.ops.formats import Dequantize, Quantize, Requantize

Pairs = Mapping[str, int]
"""The name of an input → the number of the output that the next run reads there."""


def bind_states(graph: Graph, pairs: Pairs) -> Graph:
    """Turns input-output pairs into states that begin as zeros. A state has the output's quantization; readers
    with another one requantize it."""
    taken = list(pairs.values())
    for name, number in pairs.items():
        if taken.count(number) > 1:
            raise _state_pair_error(
                graph, f"{name}:{number}", "an output goes to one input", f"output {number} goes to several"
            )
    names = UniqueNames(graph.values)
    state_pairs = [_StatePair(graph, name, number, names) for name, number in pairs.items()]
    ops = [
        replacement
        for op in graph.ops
        for replacement in next((p.readers[op] for p in state_pairs if op in p.readers), (op,))
    ]
    gone = {p.given for p in state_pairs}
    outputs = tuple(v for number, v in enumerate(graph.outputs) if number not in taken)
    changed = graph.replace(
        inputs=tuple(v for v in graph.inputs if v not in gone),
        ops=tuple(ops),
        outputs=outputs,
        states=(*graph.states, *(p.state for p in state_pairs)),
    )
    for pair in state_pairs:
        changed = changed.substitute(pair.same)
    return changed.without_dead_ops()


class _StatePair:
    """One input-output pair that becomes a state."""

    def __init__(self, graph: Graph, name: str, number: int, names: UniqueNames) -> None:
        self.graph, self.spelled = graph, f"{name}:{number}"
        self.given = self._find_input(name)
        after = self._integers(self._find_output(number))
        if after.shape != self.given.shape:
            raise self.refused("both have one shape", f"{list(self.given.shape)} and {list(after.shape)}")
        if not isinstance(after.type.quant, PerTensor):
            raise self.refused("the output is int8 with a scale", repr(after))
        before = Value(names.fresh(f"{name}_before"), after.type)
        zeros = np.full(after.shape, after.zero_point, after.dtype.numpy)
        self.state = State(name, before, after, zeros)
        self.same: dict[Value, Value] = {}
        """Values that equal the state."""
        self.readers: dict[Op, tuple[Op, ...]] = {}
        """Ops that quantized the input, and their replacements."""
        self._read_from_state(before)

    def _find_input(self, name: str) -> Value:
        value = next((v for v in self.graph.inputs if v.name == name), None)
        if value is None:
            raise self.refused(f"inputs are {', '.join(v.name for v in self.graph.inputs)}", f"`{name}`")
        return value

    def _find_output(self, number: int) -> Value:
        if not 0 <= number < len(self.graph.outputs):
            raise self.refused(f"outputs are 0 to {len(self.graph.outputs) - 1}", str(number))
        return self.graph.outputs[number]

    def _integers(self, value: Value) -> Value:
        maker = self.graph.producers.get(value)
        return maker.x if isinstance(maker, Dequantize) else value

    def _read_from_state(self, before: Value) -> None:
        if self.given.dtype is not DType.FLOAT32:
            self._settle(self.given, before, None)
            return
        for op in self.graph.users.get(self.given, []):
            if not isinstance(op, Quantize):
                raise self.refused(
                    "the input is quantized where it is read", f"{op.kind} `{op.name}` reads it"
                )
            self._settle(op.y, before, op)

    def _settle(self, read: Value, before: Value, quantize: Op | None) -> None:
        """Redirects the readers of the integers to the state, requantized to their parameters."""
        if read.type == before.type:
            self.same[read] = before
            if quantize is not None:
                self.readers[quantize] = ()
        elif quantize is None:
            raise self.refused(
                "both have one scale and zero point", f"{read.type.quant} and {before.type.quant}"
            )
        else:
            self.readers[quantize] = (Requantize(x=before, y=read, source=quantize.source),)

    def refused(self, rule: str, here: str) -> PillionError:
        """Returns the error for an invalid pair."""
        return _state_pair_error(self.graph, self.spelled, rule, here)


def _state_pair_error(graph: Graph, spelled: str, rule: str, here: str) -> PillionError:
    listed = ", ".join(f"{v.name} {list(v.shape)}" for v in graph.inputs)
    outputs = ", ".join(f"{number} {list(v.shape)}" for number, v in enumerate(graph.outputs))
    return PillionError(
        f"--state-pair {spelled} makes no state of `{graph.name}`",
        rule=rule,
        here=here,
        help=f"INPUT:OUTPUT, with inputs {listed}; outputs {outputs}",
    )
