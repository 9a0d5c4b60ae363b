# SPDX-License-Identifier: Apache-2.0
"""Binds inputs to outputs: the next run reads an output as its input, as a state of the program."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pillion.errors import PillionError
from pillion.ir.graph import Graph, UniqueNames
from pillion.ir.op import Op
from pillion.ir.rewriting import Replacement, RewriteSweep, rewrite
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
            here = f"output {number} goes to several"
            raise _state_pair_error(graph, f"{name}:{number}", "an output goes to one input", here)
    names = UniqueNames(graph.values)
    states = dict(_bound_state(graph, name, number, names) for name, number in pairs.items())
    befores = {given: state.before for given, state in states.items()}

    def read_state(op: Op, at: RewriteSweep) -> Replacement:
        before = befores.get(op.x) if isinstance(op, Quantize) else None
        if before is None or not isinstance(op, Quantize):
            return None
        if op.y.type == before.type:
            return at.read_instead(op, before)
        return [Requantize(x=before, y=op.y, source=op.source)]

    bound = graph.replace(
        inputs=tuple(v for v in graph.inputs if v not in states),
        outputs=tuple(v for number, v in enumerate(graph.outputs) if number not in taken),
        states=(*graph.states, *states.values()),
    )
    return rewrite(bound, read_state).substitute(befores)


def _bound_state(graph: Graph, name: str, number: int, names: UniqueNames) -> tuple[Value, State]:
    """Returns an input, and the state that it becomes."""

    def require(holds: object, rule: str, here: object) -> None:
        if not holds:
            raise _state_pair_error(graph, f"{name}:{number}", rule, str(here))

    inputs, count = {v.name: v for v in graph.inputs}, len(graph.outputs)
    require(name in inputs, f"inputs are {', '.join(inputs)}", f"`{name}`")
    require(0 <= number < count, f"outputs are 0 to {count - 1}", number)
    given, after = inputs[name], graph.outputs[number]
    maker = graph.producers.get(after)
    after = maker.x if isinstance(maker, Dequantize) else after
    same_shape = after.shape == given.shape
    require(same_shape, "both have one shape", f"{list(given.shape)} and {list(after.shape)}")
    require(isinstance(after.type.quant, PerTensor), "the output is int8 with a scale", repr(after))
    if given.dtype is DType.FLOAT32:
        for op in graph.users.get(given, []):
            is_quantized = isinstance(op, Quantize)
            require(
                is_quantized, "the input is quantized where it is read", f"{op.kind} `{op.name}` reads it"
            )
    else:
        both = f"{given.type.quant} and {after.type.quant}"
        require(given.type == after.type, "both have one scale and zero point", both)
    zeros = np.full(after.shape, after.zero_point, after.dtype.numpy)
    return given, State(name, after.like(names.fresh(f"{name}_before")), after, zeros)


def _state_pair_error(graph: Graph, spelled: str, rule: str, here: str) -> PillionError:
    listed = ", ".join(f"{v.name} {list(v.shape)}" for v in graph.inputs)
    outputs = ", ".join(f"{number} {list(v.shape)}" for number, v in enumerate(graph.outputs))
    return PillionError(
        f"--state-pair {spelled} makes no state of `{graph.name}`",
        rule=rule,
        here=here,
        help=f"INPUT:OUTPUT, with inputs {listed}; outputs {outputs}",
    )
