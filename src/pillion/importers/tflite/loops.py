# SPDX-License-Identifier: Apache-2.0
"""A WHILE that runs a known number of times: what a step computes, told apart from the counting around it.

Converters write loops over time as a counter that is compared with a constant, slices that the counter chooses, and a tensor into which
each step puts a row. What is left without these is a subgraph of one step: its inputs are elements of sequences, what the step before
left, and what is the same in all steps; its outputs are rows, and what the next step begins with."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pillion.importers.tflite.loop_body import Body
from pillion.importers.tflite.model import MAX_RANK, Reader, ReadOperator
from pillion.importers.tflite.slices import Chosen, chosen
from pillion.importers.tflite.trips import Trips, refused
from pillion.ir.types import Array
from pillion.schemas import tflite
from pillion.schemas.flatbuffer import MalformedError

DEEPEST = 4
"""Loops inside of one another, at most."""


@dataclass(frozen=True)
class Element:
    """What a step reads of a tensor that stays the same: the slices of an axis with the numbers [steps, slices]."""

    operand: int
    axis: int
    numbers: Array


@dataclass(frozen=True)
class Rows:
    """A result into which each step puts a row: the number of the row, for each step."""

    operand: int
    numbers: Array


@dataclass(frozen=True)
class Loop:
    """A loop: its step, and what goes in and comes out, by the numbers of the operands of WHILE, which are those of its results."""

    count: int
    step: tflite.SubGraph
    elements: tuple[Element, ...]
    carried: tuple[int, ...]
    fixed: tuple[int, ...]
    rows: tuple[Rows, ...]
    counted: dict[int, Array]
    """What counters are behind the loop."""
    same: dict[int, int]
    """Carried results that are others, too."""
    kept: tuple[int, ...]
    """What comes out as it went in."""


def loop_of(call: ReadOperator) -> tuple[Loop, Reader]:
    """Gives the loop of a WHILE, and what gives out the tensors of its step."""
    options = call.options_as(tflite.WhileOptions)
    assert call.part is not None
    cond, body = (
        call.part(_subgraph(call, number), f"of the {name} of a loop")
        for name, number in (
            ("condition", options.cond_subgraph_index),
            ("body", options.body_subgraph_index),
        )
    )
    count = len(call.outputs)
    sizes = (
        len(call.inputs),
        len(cond.subgraph.inputs),
        len(body.subgraph.inputs),
        len(body.subgraph.outputs),
    )
    if set(sizes) != {count} or len(cond.subgraph.outputs) != 1:
        raise MalformedError(
            f"a loop has as many operands as results and inputs of its subgraphs, found {sizes}"
        )
    if body.depth > DEEPEST:
        raise call.refuse(f"loops are at most {DEEPEST} inside of one another", body.depth)
    taken_apart = Body(body)
    found = _Step(call, taken_apart, Trips(call, cond, taken_apart)).loop()
    reader = call.part(found.step, f"of the body of a loop ({call.source})")
    return _with_constants(call, found, reader), reader


def _subgraph(call: ReadOperator, number: int) -> tflite.SubGraph:
    assert call.part is not None
    model = call.part(tflite.SubGraph(), "").model
    if not 0 < number < len(model.subgraphs):
        raise MalformedError(f"{call.source} runs subgraph {number} of {len(model.subgraphs)}")
    return model.subgraphs[number]


def _with_constants(call: ReadOperator, loop: Loop, reader: Reader) -> Loop:
    """Gives the loop whose constants from outside are constants of its step."""
    first = len(loop.elements) + len(loop.carried)
    tensors = dict(zip(loop.fixed, loop.step.inputs[first:], strict=True))
    held = [number for number in loop.fixed if call.operand(number).is_constant]
    for number in held:
        reader.bind(reader.value(tensors[number]), call.operand(number))
    fixed = tuple(number for number in loop.fixed if number not in held)
    inputs = [*loop.step.inputs[:first], *(tensors[number] for number in fixed)]
    return replace(loop, fixed=fixed, step=replace(loop.step, inputs=inputs))


def subgraphs_of_loops(model: tflite.Model) -> set[int]:
    """Gives the numbers of the subgraphs that loops run."""
    options = (operator.options for part in model.subgraphs for operator in part.operators)
    return {
        number
        for one in options
        if isinstance(one, tflite.WhileOptions)
        for number in (one.cond_subgraph_index, one.body_subgraph_index)
    }


@dataclass
class _Step:
    """A loop while it is taken apart, and what is put into the subgraph of its step."""

    call: ReadOperator
    body: Body
    trips: Trips

    def __post_init__(self) -> None:
        self.graph, self.whole, self.count = self.body.graph, self.trips.whole, self.trips.count
        self.place = {tensor: number for number, tensor in enumerate(self.graph.inputs)}
        self.front: list[tflite.Operator] = []
        self.tensors = [*self.graph.tensors]

    def loop(self) -> Loop:
        """Gives the loop."""
        kept, counters = self.body.kept, self.trips.counters
        numbers = [n for n in range(len(self.graph.inputs)) if n not in kept and n not in counters]
        lists = {n: found for n in numbers if (found := self._list(n)) is not None}
        rows = [self.body.source(new) for _, new in lists.values()]
        sources = {
            n: self.body.source(self.graph.outputs[n]) for n in self._by_use(numbers) if n not in lists
        }
        same = self._same(sources)
        carried = [n for n in sources if n not in same]
        outputs = [*rows, *(sources[n] for n in carried)]
        elements = {y: e for o in self.graph.operators if (e := self._element(o)) for y in o.outputs}
        live = self._live(set(outputs), elements)
        self._want_computed(outputs, live)
        read = {n for o in live for n in o.inputs} | {*outputs}
        used = {y: e for y, e in elements.items() if y in read}
        inputs = [self._handed(y, self._natural(e)) for y, e in used.items()]
        inputs += [self._begun(n, sources[n]) for n in carried]
        for other, one in same.items():
            self.front.append(self._reshape(inputs[len(used) + carried.index(one)], self.graph.inputs[other]))
        fixed = tuple(n for n in kept if self.graph.inputs[n] in read)
        self._want_known(read, {*used, *(self.graph.inputs[n] for n in (*carried, *same, *fixed))}, live)
        inputs += [self.graph.inputs[n] for n in fixed]
        operators = [*self.front, *live]
        return Loop(
            count=self.count,
            step=replace(
                self.graph, tensors=self.tensors, inputs=inputs, outputs=outputs, operators=operators
            ),
            elements=tuple(used.values()),
            carried=tuple(carried),
            fixed=fixed,
            rows=tuple(Rows(n, at) for n, (at, _) in lists.items()),
            counted=self.trips.counted(),
            same=same,
            kept=kept,
        )

    def _by_use(self, numbers: list[int]) -> list[int]:
        """Operands that steps read come before those that they only write."""
        return sorted(numbers, key=lambda n: not self.body.users(self.graph.inputs[n]))

    def _same(self, sources: dict[int, int]) -> dict[int, int]:
        """What is carried twice, and the first operand that is the same."""
        first = {source: n for n, source in reversed(sources.items())}
        same = {n: first[source] for n, source in sources.items() if first[source] != n}
        for other, one in same.items():
            self._want_same(other, one)
        return same

    def _list(self, number: int) -> tuple[Array, int] | None:
        """The rows that the steps write of an operand that is nothing else, and the tensor that they write."""
        before, after = self.graph.inputs[number], self.graph.outputs[number]
        maker = self.body.maker(after)
        if maker is None or not self.body.shape(before):
            return None
        if self.body.code(maker) == "DYNAMIC_UPDATE_SLICE" and maker.inputs[0] == before:
            begin, new = self.whole.of(maker.inputs[2]), maker.inputs[1]
            parts = [maker]
            at = begin[:, 0] if begin is not None and begin.ndim == 2 and not begin[:, 1:].any() else None
        elif self.body.code(maker) == "CONCATENATION" and len(maker.inputs) == 3:
            head, new, tail = maker.inputs
            parts = [m for m in map(self.body.maker, (head, tail)) if m is not None and m.inputs[0] == before]
            at = self._between(parts) if len(parts) == 2 else None
        else:
            return None
        if at is None or any(user not in parts for user in self.body.users(before)):
            return None
        length = self.body.shape(before)[0]
        at = np.broadcast_to(at, self.count + 1)[: self.count]
        if self.body.shape(new) != [1, *self.body.shape(before)[1:]] or at.min() < 0 or at.max() >= length:
            raise refused(
                self.call,
                "each step of a loop writes one row of a list",
                f"{self.body.shape(new)} into {length} rows",
            )
        return at, new

    def _between(self, parts: list[tflite.Operator]) -> Array | None:
        """The row between all rows before it and all behind it."""
        if any(self.body.code(one) != "SLICE" for one in parts):
            return None
        (head, size), (tail, rest) = ([self.whole.of(n) for n in one.inputs[1:3]] for one in parts)
        if head is None or size is None or tail is None or rest is None:
            return None
        whole = not head.any() and (size[:, 1:] == -1).all() and (rest == -1).all() and not tail[:, 1:].any()
        return size[:, 0] if whole and (tail[:, 0] == size[:, 0] + 1).all() else None

    def _element(self, operator: tflite.Operator) -> Element | None:
        """What an operator reads of a tensor that stays the same, by numbers that count."""
        if (
            self.body.code(operator) not in ("GATHER", "SLICE", "STRIDED_SLICE")
            or operator.inputs[0] not in self.place
        ):
            return None
        number = self.place[operator.inputs[0]]
        if number not in self.body.kept:
            return None
        found: Chosen | None = chosen(self.whole, operator, self.body.shape(operator.inputs[0]))
        if found is None:
            return None
        data = self.call.inputs[number]
        if data is None or data.is_constant:
            raise refused(
                self.call,
                "what steps read in turn is computed, or an input",
                f"operand {number} is a constant",
            )
        numbers = found.numbers[: self.count]
        size = data.shape[found.axis] if found.axis < data.type.rank else 0
        if numbers.min(initial=0) < 0 or numbers.max(initial=0) >= size:
            raise refused(
                self.call, f"slices of operand {number} are from 0 to {size - 1}", numbers.max(initial=0)
            )
        return Element(number, found.axis, numbers)

    def _natural(self, element: Element) -> tuple[int, list[int]]:
        """The tensor that an element is of, and its shape."""
        data = self.graph.inputs[element.operand]
        shape, count = self.body.shape(data), element.numbers.shape[1]
        between = [count] if count > 1 else []
        return data, [*shape[: element.axis], *between, *shape[element.axis + 1 :]]

    def _live(self, ends: set[int], elements: dict[int, Element]) -> list[tflite.Operator]:
        """The operators that some result of a step needs."""
        needed, live = set(ends), []
        for operator in reversed(self.graph.operators):
            is_known = all(y in elements or self.whole.of(y) is not None for y in operator.outputs)
            if not is_known and any(y in needed for y in operator.outputs):
                live.append(operator)
                needed.update(operator.inputs)
        return live[::-1]

    # What a step is handed.

    def _handed(self, tensor: int, like: tuple[int, list[int]]) -> int:
        """A new tensor with the numbers of another one, and in its shape; gives the one that is handed over."""
        data, shape = like
        if len(shape) > MAX_RANK or int(np.prod(shape)) != int(np.prod(self.body.shape(tensor))):
            raise refused(self.call, f"a slice has the shape {shape}", self.body.shape(tensor))
        if self.body.shape(tensor) == shape:
            return tensor
        held = self.graph.tensors[data]
        name = f"{self.graph.tensors[tensor].name}_element"
        self.tensors.append(
            tflite.Tensor(shape=shape, type=held.type, quantization=held.quantization, name=name)
        )
        self.front.append(self._reshape(len(self.tensors) - 1, tensor))
        return len(self.tensors) - 1

    def _begun(self, number: int, source: int) -> int:
        """What the step before left, in the shape in which it was computed."""
        return self._handed(self.graph.inputs[number], (source, self.body.shape(source)))

    def _reshape(self, x: int, y: int) -> tflite.Operator:
        codes = self.body.reader.model.operator_codes
        wanted = tflite.OPERATOR_NUMBERS["RESHAPE"]
        found = next((n for n, code in enumerate(codes) if code.deprecated_builtin_code == wanted), None)
        if found is None:
            codes.append(tflite.OperatorCode(deprecated_builtin_code=wanted, builtin_code=wanted))
        return tflite.Operator(
            opcode_index=len(codes) - 1 if found is None else found, inputs=[x], outputs=[y]
        )

    # What it cannot be.

    def _want_same(self, other: int, one: int) -> None:
        """What no step reads may begin as it likes."""
        a, b = self.call.inputs[other], self.call.inputs[one]
        alike = (
            a is b
            or not self.body.users(self.graph.inputs[other])
            or (
                a is not None
                and b is not None
                and a.is_constant
                and b.is_constant
                and a.constant.tobytes() == b.constant.tobytes()
            )
        )
        if not alike:
            raise refused(self.call, "what a step hands on twice begins alike", f"operands {one} and {other}")

    def _want_computed(self, tensors: list[int], live: list[tflite.Operator]) -> None:
        made = {y for operator in live for y in operator.outputs}
        for tensor in tensors:
            if tensor not in made:
                name = self.graph.tensors[tensor].name
                raise refused(
                    self.call, "what a step hands on is computed by it", f"`{name}` was there before"
                )

    def _want_known(self, read: set[int], handed: set[int], live: list[tflite.Operator]) -> None:
        """Refuses steps that read a list that they write, or numbers that change from step to step as data."""
        made = {y for operator in live for y in operator.outputs} | handed
        for tensor in sorted(read - made - {-1}):
            if (
                0 <= tensor < len(self.graph.tensors)
                and self.body.reader.data(self.graph.tensors[tensor]) is None
            ):
                name = self.graph.tensors[tensor].name
                rule = "a step reads slices by its number, and what the step before left: neither lists nor counters"
                raise refused(self.call, rule, f"`{name}`")
