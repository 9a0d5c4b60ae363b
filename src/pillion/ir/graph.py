# SPDX-License-Identifier: Apache-2.0
"""The graph: ops in an executable order, over named values. Graphs are immutable; every change returns a new one."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from pillion.errors import PillionError
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.state import State
from pillion.ir.stream_io import Streaming
from pillion.ir.types import Array, Value

Instead = Mapping[Op, Callable[..., object]]
"""Ops → functions that compute their results instead of their references."""


@dataclass(frozen=True, eq=False)
class Graph:
    """A network: inputs, ops in running order, outputs, states, and the arithmetic that they compute in."""

    name: str
    inputs: tuple[Value, ...]
    ops: tuple[Op, ...]
    outputs: tuple[Value, ...]
    arithmetic: Arithmetic = Arithmetic.CMSIS_NN
    states: tuple[State, ...] = ()
    streaming: Streaming | None = None
    """How the program receives frames, if it was compiled as a stream. It does not change what is computed."""

    def __iter__(self) -> Iterator[Op]:
        return iter(self.ops)

    @cached_property
    def producers(self) -> dict[Value, Op]:
        """The op that computes each value."""
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
        by_name: dict[str, Value] = {v.name: v for v in self.sources}
        for op in self.ops:
            by_name.update((v.name, v) for v in (*op.operands, *op.results))
        by_name.update((v.name, v) for v in self.sinks)
        return by_name

    @property
    def sources(self) -> tuple[Value, ...]:
        """Values that exist before the first op: the inputs, and the states of the run before."""
        return (*self.inputs, *(state.before for state in self.states))

    @property
    def sinks(self) -> tuple[Value, ...]:
        """Values that are read after the last op: the outputs, and the new states. A value may occur more than
        once."""
        return (*self.outputs, *(state.after for state in self.states))

    @property
    def constants(self) -> list[Value]:
        """All constants of the graph."""
        return [v for v in self.values.values() if v.is_constant]

    @property
    def macs(self) -> int:
        """Multiply-accumulates of one run."""
        return sum(op.macs for op in self.ops)

    def is_output(self, value: Value) -> bool:
        """Whether a value is an output of the graph or a new state."""
        return value in self._final_value_set

    @cached_property
    def _final_value_set(self) -> frozenset[Value]:
        return frozenset(self.sinks)

    def only_user(self, value: Value) -> Op | None:
        """Returns the only reader of a value; None if it has several, or if the value is an output or a state."""
        users = self.users.get(value, [])
        return users[0] if len(users) == 1 and not self.is_output(value) else None

    def replace(self, **changes: object) -> Graph:
        """Returns a copy with other fields."""
        return dataclasses.replace(self, **changes)  # type: ignore[arg-type]  # field names are checked at run time

    def substitute(self, values: Mapping[Value, Value]) -> Graph:
        """Returns a copy in which some values are replaced everywhere."""
        return self.replace(
            inputs=tuple(values.get(v, v) for v in self.inputs),
            ops=tuple(op.substitute(values) for op in self.ops),
            outputs=tuple(values.get(v, v) for v in self.outputs),
            states=tuple(state.substitute(values) for state in self.states),
        )

    def with_ops(self, ops: Sequence[Op], instead: Mapping[Value, Value]) -> Graph:
        """Returns a copy with other ops, whose readers read `instead` in place of replaced values."""
        return self.replace(
            ops=tuple(ops),
            outputs=tuple(instead.get(v, v) for v in self.outputs),
            states=tuple(
                dataclasses.replace(state, after=instead.get(state.after, state.after))
                for state in self.states
            ),
        )

    def with_states_as_io(self) -> Graph:
        """Returns the graph with its states as additional inputs and outputs, in the order of the states."""
        return self.replace(inputs=self.sources, outputs=self.sinks, states=())

    def without_dead_ops(self) -> Graph:
        """Returns the graph without ops that no output and no state needs."""
        needed = set(self.sinks)
        live: list[Op] = []
        for op in reversed(self.ops):
            if any(r in needed for r in op.results):
                live.append(op)
                needed.update(op.operands)
        return self if len(live) == len(self.ops) else self.replace(ops=tuple(reversed(live)))

    @property
    def initial(self) -> tuple[Array, ...]:
        """The states after a reset."""
        return tuple(state.initial for state in self.states)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Computes the outputs from reset states with every op's exact reference."""
        return self.reference_step(self.initial, *inputs)[0]

    def reference_step(
        self, states: Sequence[Array], *inputs: Array, instead: Instead | None = None
    ) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
        """Computes one step of a stream: returns the outputs and the new states. `instead` replaces the references
        of some ops."""
        values = self.reference_values(*inputs, instead=instead, states=states)
        return tuple(values[v] for v in self.outputs), tuple(values[state.after] for state in self.states)

    def source_arrays(
        self, inputs: Sequence[Array], states: Sequence[Array] | None = None
    ) -> dict[Value, Array]:
        """Returns the arrays of all values that exist before the first op; without `states`, states are reset."""
        check_inputs(self, inputs)
        arrays = self.initial if states is None else states
        return dict(zip(self.sources, (*inputs, *arrays), strict=True))

    def reference_values(
        self, *inputs: Array, instead: Instead | None = None, states: Sequence[Array] | None = None
    ) -> dict[Value, Array]:
        """Computes the reference result of every value. `instead` replaces the references of some ops."""
        others = instead or {}
        values = self.source_arrays(inputs, states)
        for op in self.ops:
            if op in others:
                values |= op.by_result(others[op](*op.operand_arrays(values)))
            else:
                values |= op.compute(self.arithmetic, values)
        values.update((v, v.constant) for v in self.sinks if v.is_constant)
        return values


def check_inputs(graph: Graph, inputs: Sequence[Array]) -> None:
    """Raises if arrays do not fit the graph's inputs."""
    if len(inputs) != len(graph.inputs):
        raise PillionError(
            f"`{graph.name}` takes {len(graph.inputs)} input{'s' * (len(graph.inputs) != 1)}",
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


def require_computed_outputs(graph: Graph) -> None:
    """Raises if an output does not depend on the inputs, or if the graph has no output."""
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


def c_identifier(name: str) -> str:
    """Returns a C identifier for a name that cannot collide with the kernel library."""
    cleaned = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_") or "v"
    if cleaned[0].isdigit():
        cleaned = f"v{cleaned}"
    return f"{cleaned}_model" if cleaned.lower() == "pillion" else cleaned


LONGEST_MODEL_NAME = 36
"""C99 distinguishes identifiers by 63 characters; prefixes and suffixes take up to 27."""


def model_name(name: str) -> str:
    """Returns the name of a model as an identifier that leaves room for suffixes."""
    return shorten_name(c_identifier(name), LONGEST_MODEL_NAME)


LONGEST_NAME = 1000
"""The maximum length of a name that is read from a file."""


def clean_name(name: str) -> str:
    """Removes from a file's name all characters with a meaning in a graph's text, a terminal or C, and shortens
    it."""
    return shorten_name(re.sub(r"[^\w./;+-]", "_", name, flags=re.ASCII) or "unnamed", LONGEST_NAME)


def without_control_characters(text: str) -> str:
    """Removes control characters from a file's text."""
    return "".join(mark if mark.isprintable() else "_" for mark in text)


def shorten_name(name: str, longest: int) -> str:
    """Truncates a long name and appends a hash of all of it: names that differ only at their ends stay different."""
    if len(name) <= longest:
        return name
    return f"{name[: longest - 9]}_{hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()[:8]}"


class UniqueNames:
    """Creates names that are unique within a graph."""

    def __init__(self, taken: Mapping[str, object] | Sequence[str] = ()) -> None:
        self._taken = set(taken)
        self._numbers: dict[str, int] = {}
        """The last number tried for each name; all smaller ones are taken."""

    def fresh(self, preferred: str) -> str:
        """Returns the requested name, with a number appended if it is taken."""
        name, number = preferred, self._numbers.get(preferred, 1)
        while name in self._taken:
            number += 1
            name = f"{preferred}_{number}"
        self._numbers[preferred] = number
        self._taken.add(name)
        return name
