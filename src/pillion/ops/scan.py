# SPDX-License-Identifier: Apache-2.0
"""Loops over a sequence with carried values, as one op with an inner graph."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from pillion.errors import PillionError
from pillion.ir.access import Access
from pillion.ir.graph import Graph, UniqueNames
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op, Quantization, op, operand, result
from pillion.ir.types import Array, TensorType, Value
from pillion.ir.verify import verify_graph
from pillion.ops.movement import Concat, Reshape, Slice

LONGEST = 2**20
"""The maximum number of steps; the reference and the emulators run each step."""


@op("scan", quantization=Quantization.NONE)
class Scan(Op):
    """Runs its inner graph `count` times. Each step reads the next element of its sequences (along their first
    axis), the carried values of the previous step (at first the initial ones), and invariants. Results are the
    stacked outputs of all steps, and the last carried values. With `reverse`, sequences are read and stacked
    from their ends."""

    is_identity = False

    sequences: tuple[Value, ...] = operand()
    initial: tuple[Value, ...] = operand()
    invariants: tuple[Value, ...] = operand()
    ys: tuple[Value, ...] = result()
    body: Graph
    count: int
    reverse: bool = False

    @property
    def elements(self) -> tuple[Value, ...]:
        """Inner inputs that are elements of the sequences."""
        return self.body.inputs[: len(self.sequences)]

    @property
    def carried(self) -> tuple[Value, ...]:
        """Inner inputs that are carried from the previous step."""
        return self.body.inputs[len(self.sequences) : len(self.sequences) + len(self.initial)]

    @property
    def fixed(self) -> tuple[Value, ...]:
        """Inner inputs that are the same in each step."""
        return self.body.inputs[len(self.sequences) + len(self.initial) :]

    @property
    def stacked(self) -> tuple[Value, ...]:
        """Results with an element per step."""
        return self.ys[: len(self.ys) - len(self.initial)]

    @property
    def last(self) -> tuple[Value, ...]:
        """Results that are the carried values after the last step."""
        return self.ys[len(self.ys) - len(self.initial) :]

    @property
    def made(self) -> tuple[Value, ...]:
        """Inner outputs that become elements of the stacked results."""
        return self.body.outputs[: len(self.stacked)]

    @property
    def next(self) -> tuple[Value, ...]:
        """Inner outputs that are carried to the next step."""
        return self.body.outputs[len(self.stacked) :]

    def infer(self) -> TensorType:
        first = self.ys[0]
        inner = self.body.outputs[0].type
        shape = (self.count, *inner.shape) if self.stacked else inner.shape
        return TensorType(shape, first.dtype)

    def check(self) -> None:
        if not 1 <= self.count <= LONGEST:
            raise self.refuse(f"it runs 1 to {LONGEST} times", self.count)
        if not self.sequences and not self.initial:
            raise self.refuse("it reads sequences or carries values", "neither")
        if not self.ys or len(self.ys) < len(self.initial):
            raise self.refuse("each carried value is a result", f"{len(self.ys)} results")
        self._check_types()
        self._check_makers()
        verify_graph(self.body)

    def _check_types(self) -> None:
        """Raises if outer and inner types differ in more than the axis of steps."""
        operand_types = [_element_type(v, self) for v in self.sequences] + [
            v.type for v in (*self.initial, *self.invariants)
        ]
        if operand_types != [v.type for v in self.body.inputs]:
            raise self.refuse(
                "operands are those of the inner graph", f"{operand_types} and {list(self.body.inputs)}"
            )
        result_types = [_element_type(v, self) for v in self.stacked] + [v.type for v in self.last]
        if result_types != [v.type for v in self.body.outputs]:
            raise self.refuse(
                "results are those of the inner graph", f"{result_types} and {list(self.body.outputs)}"
            )
        if [v.type for v in self.carried] != [v.type for v in self.next]:
            raise self.refuse("what is carried keeps its type", f"{list(self.carried)} and {list(self.next)}")

    def _check_makers(self) -> None:
        """Raises if no inner op computes an inner output, or if an inner value comes from nowhere."""
        for value in (*self.sequences, *self.invariants):
            if value.is_constant:
                raise self.refuse("constants stand in the inner graph", f"`{value.name}`")
        computed = {v for inner in self.body.ops if not isinstance(inner, Reshape) for v in inner.results}
        for value in self.body.outputs:
            if value not in computed:
                raise self.refuse("each result of a step is computed by it", f"`{value.name}`")
        if len(set(self.next)) != len(self.next):
            raise self.refuse("each carried value is made on its own", f"{list(self.next)}")

    def access(self, operand: Value) -> Access:
        reason = "each of its steps reads them all"
        next_to_next = "each of its steps goes on from the one before"
        first = "it begins with the last of them" if self.reverse else next_to_next
        return (first if operand in self.sequences else reason, *(reason,) * (operand.type.rank - 1))

    @property
    def macs(self) -> int:
        return self.count * self.body.macs

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> tuple[Array, ...]:  # type: ignore[override]  # several results
        rows: list[list[Array]] = []
        for values in self.step_values(arithmetic, *operands):
            rows.append([values[v] for v in self.made])
            state = [values[v] for v in self.next]
        in_place = rows[::-1] if self.reverse else rows
        stacked = [np.stack(column) for column in zip(*in_place, strict=True)]
        return (*stacked, *state)

    def step_values(self, arithmetic: Arithmetic, *operands: Array) -> Iterator[dict[Value, Array]]:
        """Yields all values of each step, in running order."""
        body = self.body.replace(arithmetic=arithmetic)
        sequences = operands[: len(self.sequences)]
        state = operands[len(sequences) : len(sequences) + len(self.initial)]
        same = operands[len(sequences) + len(self.initial) :]
        for at in self.order:
            values = body.reference_values(*(x[at] for x in sequences), *state, *same)
            yield values
            state = tuple(values[v] for v in self.next)

    @property
    def order(self) -> range:
        """The order in which elements are read."""
        return range(self.count - 1, -1, -1) if self.reverse else range(self.count)

    @classmethod
    def examples(cls) -> Iterator[Op]:
        """Yields nothing: the recurrent layers of the tests are its examples."""
        return iter(())


def _element_type(value: Value, op: Scan) -> TensorType:
    """Returns the type of one element of a sequence."""
    if not value.shape or value.shape[0] != op.count:
        raise op.refuse(f"sequences have {op.count} elements", f"`{value.name}`: {list(value.shape)}")
    return dataclasses.replace(value.type, shape=value.shape[1:])


@dataclass(frozen=True)
class OpRunCount:
    """An op and how often a program runs it."""

    op: Op
    times: int


def op_run_counts(ops: Iterable[Op], times: int = 1) -> Iterator[OpRunCount]:
    """Yields all ops that a program runs, in order, with their numbers of runs; the ops inside a loop come before the
    loop."""
    for current in ops:
        if isinstance(current, Scan):
            yield from op_run_counts(current.body.ops, times * current.count)
        yield OpRunCount(current, times)


def flatten_ops(ops: Iterable[Op]) -> list[Op]:
    """Lists all ops that a program runs; the ops inside a loop come before the loop."""
    return [run.op for run in op_run_counts(ops)]


def has_repeats(graph: Graph) -> bool:
    """Whether a graph contains loops."""
    return any(isinstance(op, Scan) for op in graph.ops)


def unroll_loops(graph: Graph, wanted: Scan | None = None) -> Graph:
    """Unrolls all loops, or one. If other loops stay, copies avoid the names in their inner graphs."""
    if not has_repeats(graph):
        return graph
    inside = [v.name for one in op_run_counts(graph.ops) for v in one.op.results] if wanted else []
    names = UniqueNames([*graph.values, *inside])
    ops: list[Op] = []
    for one in graph.ops:
        is_meant = wanted is None or one is wanted
        ops += _unrolled_steps(one, names) if isinstance(one, Scan) and is_meant else [one]
    return graph.replace(ops=tuple(ops)).without_dead_ops()


MOST_COPIES = 10_000
"""The maximum number of ops after unrolling: other formats have a call for each."""


def unroll_for_format(graph: Graph, form: str) -> Graph:
    """Unrolls all loops for a format without loops; raises if that makes too many ops."""
    count = sum(run.times for run in op_run_counts(graph.ops))
    if has_repeats(graph) and count > MOST_COPIES:
        longest = max((op for op in graph.ops if isinstance(op, Scan)), key=lambda op: op.count)
        raise PillionError(
            f"`{graph.name}` is too long for a {form}, which has no loops",
            rule=f"a {form} has at most {MOST_COPIES:,} ops: what runs many times is written as often",
            here=f"{count:,} ops; `{longest.name}` runs {longest.count:,} times {len(longest.body.ops)} ops"
            + (f"  ({longest.source})" if longest.source else ""),
            help="-o FOLDER for a C project, whose code has a loop, or shorter sequences",
        )
    return unroll_loops(graph)


def _unrolled_steps(op: Scan, names: UniqueNames) -> Iterator[Op]:
    """Yields the ops of all steps."""
    body = unroll_loops(op.body)
    body = body.substitute({v: dataclasses.replace(v, name=names.fresh(v.name)) for v in body.constants})
    state: tuple[Value, ...] = op.initial
    rows: dict[int, list[Value]] = {}
    for number, at in enumerate(op.order):
        elements: list[Value] = []
        for sequence, element in zip(op.sequences, op.elements, strict=True):
            element_ops = list(_element_ops(sequence, element, at, names, op.source))
            yield from element_ops
            elements.append(element_ops[-1].results[0])
        inside = dict(zip(body.inputs, (*elements, *state, *op.invariants), strict=True))
        if number == op.count - 1:
            inside |= dict(zip(op.next, op.last, strict=True))
        for inner in body.ops:
            inside |= {v: _renamed_copy(v, names) for v in inner.results if v not in inside}
            yield inner.substitute(inside)
        state = tuple(inside[v] for v in op.next)
        rows[at] = [inside[v] for v in op.made]
    for number, stacked in enumerate(op.stacked):
        yield from _stack_ops(stacked, [rows[at][number] for at in range(op.count)], names, op.source)


def _renamed_copy(value: Value, names: UniqueNames) -> Value:
    return Value(names.fresh(value.name), value.type)


def _element_ops(sequence: Value, element: Value, at: int, names: UniqueNames, source: str) -> Iterator[Op]:
    """Yields the ops that read an element of a sequence."""
    piece = sequence
    if sequence.shape[0] > 1:
        type = dataclasses.replace(sequence.type, shape=(1, *element.shape))
        piece = Value(names.fresh(f"{element.name}_at"), type)
        begin = (at, *(0,) * len(element.shape))
        yield Slice(x=sequence, y=piece, begin=begin, step=(1,) * type.rank, source=source)
    yield Reshape(x=piece, y=_renamed_copy(element, names), source=source)


def _stack_ops(stacked: Value, elements: list[Value], names: UniqueNames, source: str) -> Iterator[Op]:
    """Yields the ops that concatenate the elements of a stacked result."""
    if len(elements) == 1:
        yield Reshape(x=elements[0], y=stacked, source=source)
        return
    type = dataclasses.replace(stacked.type, shape=(1, *stacked.shape[1:]))
    parts = tuple(Value(names.fresh(f"{element.name}_row"), type) for element in elements)
    for element, part in zip(elements, parts, strict=True):
        yield Reshape(x=element, y=part, source=source)
    yield Concat(xs=parts, y=stacked, axis=0, source=source)
