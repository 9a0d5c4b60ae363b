# SPDX-License-Identifier: Apache-2.0
"""A graph: ops in an order in which they can run, over named values. Graphs are never changed, only remade."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pillion.errors import PillionError
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.state import State
from pillion.ir.streaming import Streaming
from pillion.ir.types import Array, Value

Instead = Mapping[Op, Callable[..., object]]
"""Ops, and what computes them in the place of their references."""


@dataclass(frozen=True, eq=False)
class Graph:
    """A whole network: inputs, ops in running order, outputs, whose arithmetic they compute, and what lives between runs."""

    name: str
    inputs: tuple[Value, ...]
    ops: tuple[Op, ...]
    outputs: tuple[Value, ...]
    arithmetic: Arithmetic = Arithmetic.CMSIS_NN
    states: tuple[State, ...] = ()
    streaming: Streaming | None = None
    """How it is fed a few frames at a time, if it was made for that. It never changes what is computed."""

    def __iter__(self) -> Iterator[Op]:
        return iter(self.ops)

    @cached_property
    def producers(self) -> dict[Value, Op]:
        """The op that makes each computed value."""
        return {result: op for op in self.ops for result in op.results}

    @cached_property
    def users(self) -> dict[Value, list[Op]]:
        """The ops that read each value."""
        users: dict[Value, list[Op]] = {}
        for op in self.ops:
            for value in dict.fromkeys(op.operands):
                users.setdefault(value, []).append(op)
        return users

    @cached_property
    def values(self) -> dict[str, Value]:
        """Every value by name, in order of first appearance."""
        found: dict[str, Value] = {v.name: v for v in self.sources}
        for op in self.ops:
            found.update((v.name, v) for v in (*op.operands, *op.results))
        found.update((v.name, v) for v in self.ends)
        return found

    @property
    def sources(self) -> tuple[Value, ...]:
        """What is there before the first op: the inputs, and what states were before."""
        return (*self.inputs, *(state.before for state in self.states))

    @property
    def ends(self) -> tuple[Value, ...]:
        """What is read after the last op: the outputs, and what states become. A value may be among them more than once."""
        return (*self.outputs, *(state.after for state in self.states))

    @property
    def constants(self) -> list[Value]:
        """All constants of the graph."""
        return [v for v in self.values.values() if v.is_constant]

    @property
    def macs(self) -> int:
        """The multiply-accumulates of one run of all ops."""
        return sum(op.macs for op in self.ops)

    def is_output(self, value: Value) -> bool:
        """Whether a value is read after the last op: it is an output of the graph, or what a state becomes."""
        return value in self._ends

    @cached_property
    def _ends(self) -> frozenset[Value]:
        return frozenset(self.ends)

    def only_user(self, value: Value) -> Op | None:
        """Gives the op that alone reads a value, which then is no output of the graph and no state either."""
        users = self.users.get(value, [])
        return users[0] if len(users) == 1 and not self.is_output(value) else None

    def replace(self, **changes: object) -> Graph:
        """Gives the graph with other fields; this one stays as it is."""
        return dataclasses.replace(self, **changes)  # type: ignore[arg-type]  # field names are checked at run time

    def substitute(self, values: Mapping[Value, Value]) -> Graph:
        """Gives the same graph with some values exchanged everywhere."""
        return self.replace(
            inputs=tuple(values.get(v, v) for v in self.inputs),
            ops=tuple(op.substitute(values) for op in self.ops),
            outputs=tuple(values.get(v, v) for v in self.outputs),
            states=tuple(state.substitute(values) for state in self.states),
        )

    def with_ops(self, ops: Sequence[Op], instead: Mapping[Value, Value]) -> Graph:
        """Gives the graph with other ops, after which other values are read in the place of some."""
        return self.replace(
            ops=tuple(ops),
            outputs=tuple(instead.get(v, v) for v in self.outputs),
            states=tuple(
                dataclasses.replace(state, after=instead.get(state.after, state.after))
                for state in self.states
            ),
        )

    def opened(self) -> Graph:
        """Gives the graph whose states are inputs and outputs instead, behind its own, in the order of the states."""
        return self.replace(inputs=self.sources, outputs=self.ends, states=())

    def without_dead_ops(self) -> Graph:
        """Gives the graph of only those ops that some output or some state needs."""
        needed = set(self.ends)
        kept: list[Op] = []
        for op in reversed(self.ops):
            if any(r in needed for r in op.results):
                kept.append(op)
                needed.update(op.operands)
        return self if len(kept) == len(self.ops) else self.replace(ops=tuple(reversed(kept)))

    @property
    def initial(self) -> tuple[Array, ...]:
        """What the states are after a reset."""
        return tuple(state.initial for state in self.states)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Computes what the graph means, from the reset states: every op's exact reference, in order."""
        return self.reference_step(self.initial, *inputs)[0]

    def reference_step(
        self, states: Sequence[Array], *inputs: Array, instead: Instead | None = None
    ) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
        """Computes one step of a stream: gives the outputs, and what the states are afterwards. `instead` names ops that something
        else computes."""
        values = self.reference_values(*inputs, instead=instead, states=states)
        return tuple(values[v] for v in self.outputs), tuple(values[state.after] for state in self.states)

    def given(self, inputs: Sequence[Array], states: Sequence[Array] | None = None) -> dict[Value, Array]:
        """Gives the arrays of all values that are there before the first op, states reset where nothing else is said."""
        check_inputs(self, inputs)
        held = self.initial if states is None else states
        return dict(zip(self.sources, (*inputs, *held), strict=True))

    def reference_values(
        self,
        *inputs: Array,
        instead: Instead | None = None,
        states: Sequence[Array] | None = None,
    ) -> dict[Value, Array]:
        """Computes the reference result of every value. `instead` names ops that something else computes."""
        others = instead or {}
        values = self.given(inputs, states)
        for op in self.ops:
            operands = [v.constant if v.is_constant else values[v] for v in op.operands]
            made = others[op](*operands) if op in others else op.reference(self.arithmetic, *operands)
            results = made if isinstance(made, tuple) else (made,)
            values.update(zip(op.results, map(np.asarray, results), strict=True))
        values.update((v, v.constant) for v in self.ends if v.is_constant)
        return values


def check_inputs(graph: Graph, inputs: Sequence[Array]) -> None:
    """Raises where arrays do not fit the graph's inputs."""
    if len(inputs) != len(graph.inputs):
        raise PillionError(
            f"`{graph.name}` takes {len(graph.inputs)} inputs",
            rule=", ".join(map(repr, graph.inputs)),
            here=f"{len(inputs)} arrays",
            help="give one array for each input, in this order",
        )
    for value, array in zip(graph.inputs, inputs, strict=True):
        if array.shape != value.shape or array.dtype != value.dtype.numpy:
            raise PillionError(
                f"input `{value.name}` of `{graph.name}` does not fit",
                rule=f"{value.dtype.value}{list(value.shape)}",
                here=f"{array.dtype}{list(array.shape)}",
                help="--io-dtype and --io-layout of `pillion compile` choose what a program takes",
            )


def want_computed_outputs(graph: Graph) -> None:
    """Raises where a result does not depend on the inputs, or where there is none."""
    if not graph.outputs:
        raise PillionError(
            f"`{graph.name}` has no output",
            rule="a model has results",
            here=f"{len(graph.inputs)} inputs, {len(graph.ops)} ops",
            help="convert or export the model with what it computes as its output",
        )
    constant = [repr(v) for v in graph.outputs if v.is_constant]
    if constant:
        raise PillionError(
            f"an output of `{graph.name}` is a constant",
            rule="one output at least depends on inputs",
            here=", ".join(constant),
            help="leave this output out of the model: it is the same for all inputs",
        )


def identifier(name: str) -> str:
    """Gives the name as C can hold it, with ours kept apart from that of the library."""
    cleaned = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_") or "v"
    if cleaned[0].isdigit():
        cleaned = f"v{cleaned}"
    return f"{cleaned}_model" if cleaned.lower() == "pillion" else cleaned


LONGEST_MODEL_NAME = 36
"""C99 tells names apart by 63 characters; what stands around a model's name takes up to 27 of them."""


def model_name(name: str) -> str:
    """Gives the name of a model as an identifier that leaves room for what is named after it."""
    return shortened(identifier(name), LONGEST_MODEL_NAME)


def clean_name(name: str) -> str:
    """Gives a name from a file without what would mean something in a graph's text, in a terminal or in C."""
    return re.sub(r"[^\w./;+-]", "_", name, flags=re.ASCII) or "unnamed"


def printable(text: str) -> str:
    """Gives text from a file, or the name of one, without what a terminal or a page would act on."""
    return "".join(mark if mark.isprintable() else "_" for mark in text)


def shortened(name: str, longest: int) -> str:
    """Gives the name, or its begin and a number made from all of it: names that differ only at their ends stay different."""
    if len(name) <= longest:
        return name
    return f"{name[: longest - 9]}_{hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()[:8]}"


class Names:
    """Gives out names that a graph does not have yet."""

    def __init__(self, taken: Mapping[str, object] | Sequence[str] = ()) -> None:
        self._taken = set(taken)
        self._numbers: dict[str, int] = {}
        """The last number tried for a wish: all below it are taken for good."""

    def fresh(self, wish: str) -> str:
        """Gives the wished name, with a number behind it if it is taken."""
        name, number = wish, self._numbers.get(wish, 1)
        while name in self._taken:
            number += 1
            name = f"{wish}_{number}"
        self._numbers[wish] = number
        self._taken.add(name)
        return name


Rewrite = Callable[[Graph, Op], "Sequence[Op] | None"]


def rewrite(graph: Graph, rule: Rewrite) -> Graph:
    """Goes through the ops once in running order: where `rule` answers with ops, they stand in for the op. An empty answer removes
    an op whose results nobody needs."""
    ops: list[Op] = []
    for op in graph.ops:
        replacement = rule(graph, op)
        ops.extend([op] if replacement is None else replacement)
    return graph.replace(ops=tuple(ops)).without_dead_ops()
