# SPDX-License-Identifier: Apache-2.0
"""Analyses a WHILE with a known trip count: separates the step's computation from counters, slices by
counter, and lists. The rest is a step subgraph; its inputs are elements of sequences, carried values and
invariants, and its outputs are list rows and the next carried values."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pillion.codecs.tflite.read_operator import MAX_RANK, ReadOperator
from pillion.importers.tflite.loop_body import LoopBody, slices_of_steps
from pillion.importers.tflite.loop_counters import LoopCounters, refused_loop
from pillion.importers.tflite.model import TfliteReader
from pillion.ir.numerics import Int64Array
from pillion.ir.types import Array
from pillion.schemas import tflite
from pillion.schemas.flatbuffer import MalformedError

DEEPEST = 4
"""The deepest nesting of loops."""


@dataclass(frozen=True)
class Element:
    """The operand of a step: slices of an invariant tensor along an axis, with indices [steps, slices]."""

    operand: int
    axis: int
    numbers: Array


@dataclass(frozen=True)
class LoopRows:
    """A list result into which each step writes a row, with the row index of each step."""

    operand: int
    numbers: Array


@dataclass(frozen=True)
class WhileLoop:
    """A loop: its step, and the WHILE's operands by role. Results have the indices of the operands."""

    count: int
    step: tflite.SubGraph
    elements: tuple[Element, ...]
    carried: tuple[int, ...]
    fixed: tuple[int, ...]
    rows: tuple[LoopRows, ...]
    counted: dict[int, Array]
    """The final values of counters."""
    same: dict[int, int]
    """Carried results that equal another one."""
    kept: tuple[int, ...]
    """Operands that the loop does not change."""


def loop_of(call: ReadOperator) -> tuple[WhileLoop, TfliteReader]:
    """Returns the loop of a WHILE, and the reader of its step's tensors."""
    options = call.options_as(tflite.WhileOptions)
    assert call.part is not None
    cond = call.part(subgraph_of(call, options.cond_subgraph_index), "of the condition of a loop")
    body = call.part(subgraph_of(call, options.body_subgraph_index), "of the body of a loop")
    borders = (call.inputs, call.outputs, cond.subgraph.inputs, body.subgraph.inputs, body.subgraph.outputs)
    if len({*map(len, borders)}) != 1 or len(cond.subgraph.outputs) != 1:
        found = [*map(len, borders)]
        raise MalformedError(
            f"a loop has as many operands as results and inputs of its subgraphs, found {found}"
        )
    if body.depth > DEEPEST:
        raise call.refuse(f"loops are at most {DEEPEST} inside of one another", body.depth)
    checked_body = LoopBody(body)
    while_loop = _StepAnalysis(call, checked_body, LoopCounters(call, cond, checked_body)).loop()
    reader = call.part(while_loop.step, f"of the body of a loop ({call.source})")
    return _with_constants(call, while_loop, reader), reader


def subgraph_of(call: ReadOperator, number: int) -> tflite.SubGraph:
    """Returns a subgraph that an operator runs."""
    assert call.part is not None
    model = call.part(tflite.SubGraph(), "").model
    if not 0 < number < len(model.subgraphs):
        raise MalformedError(f"{call.source} runs subgraph {number} of {len(model.subgraphs)}")
    return model.subgraphs[number]


def _with_constants(call: ReadOperator, loop: WhileLoop, reader: TfliteReader) -> WhileLoop:
    """Returns the loop with constant invariants as constants of its step."""
    first = len(loop.elements) + len(loop.carried)
    tensors = dict(zip(loop.fixed, loop.step.inputs[first:], strict=True))
    constants = [number for number in loop.fixed if call.operand(number).is_constant]
    for number in constants:
        reader.bind(reader.value(tensors[number]), call.operand(number))
    fixed = tuple(number for number in loop.fixed if number not in constants)
    inputs = [*loop.step.inputs[:first], *(tensors[number] for number in fixed)]
    return replace(loop, fixed=fixed, step=replace(loop.step, inputs=inputs))


def subgraphs_of_loops(model: tflite.Model) -> set[int]:
    """Returns the indices of the subgraphs that loops run."""
    options = (operator.options for part in model.subgraphs for operator in part.operators)
    return {
        number
        for option in options
        if isinstance(option, tflite.WhileOptions)
        for number in (option.cond_subgraph_index, option.body_subgraph_index)
    }


@dataclass
class _StepAnalysis:
    """A loop under analysis, and its step subgraph under construction."""

    call: ReadOperator
    body: LoopBody
    counters: LoopCounters

    def __post_init__(self) -> None:
        self.graph, self.rows, self.count = self.body.graph, self.counters.rows, self.counters.count
        self.place = {tensor: number for number, tensor in enumerate(self.graph.inputs)}
        self.front: list[tflite.Operator] = []
        self.tensors = [*self.graph.tensors]

    def loop(self) -> WhileLoop:
        """Returns the loop."""
        invariants, counters = self.body.kept, self.counters.last
        numbers = [n for n in range(len(self.graph.inputs)) if n not in invariants and n not in counters]
        lists = {n: found for n in numbers if (found := self._row_written_list(n)) is not None}
        rows = [self.body.source(new) for _, new in lists.values()]
        sources = {
            n: self.body.source(self.graph.outputs[n]) for n in self._sort_by_use(numbers) if n not in lists
        }
        same = self._duplicate_carried_values(sources)
        carried = [n for n in sources if n not in same]
        outputs = [*rows, *(sources[n] for n in carried)]
        elements = {y: e for o in self.graph.operators if (e := self._sequence_element(o)) for y in o.outputs}
        live = self._live_operators(set(outputs), elements)
        self._require_computed(outputs, live)
        read = {n for o in live for n in o.inputs} | {*outputs}
        used = {y: e for y, e in elements.items() if y in read}
        inputs = [self._add_step_input(y, self._element_tensor_and_shape(e)) for y, e in used.items()]
        inputs += [self._carried_step_input(n, sources[n]) for n in carried]
        for duplicate, original in same.items():
            self.front.append(
                self._reshape_operator(
                    inputs[len(used) + carried.index(original)], self.graph.inputs[duplicate]
                )
            )
        fixed = tuple(n for n in invariants if self.graph.inputs[n] in read)
        handed = {*used, *(self.graph.inputs[n] for n in (*carried, *same, *fixed))}
        self._refuse_list_and_counter_reads(read, handed, live)
        inputs += [self.graph.inputs[n] for n in fixed]
        step = replace(self.graph, tensors=self.tensors, inputs=inputs, outputs=outputs)
        step.operators = [*self.front, *live]
        return WhileLoop(
            count=self.count,
            step=step,
            elements=tuple(used.values()),
            carried=tuple(carried),
            fixed=fixed,
            rows=tuple(LoopRows(n, at) for n, (at, _) in lists.items()),
            counted={n: x.astype(np.int32) for n, x in counters.items() if n not in invariants},
            same=same,
            kept=invariants,
        )

    def _sort_by_use(self, numbers: list[int]) -> list[int]:
        """Sorts operands: the ones that steps read come before the ones that they only write."""
        return sorted(numbers, key=lambda n: not self.body.users(self.graph.inputs[n]))

    def _duplicate_carried_values(self, sources: dict[int, int]) -> dict[int, int]:
        """Returns duplicate carried values, with the first operand that equals them."""
        first = {source: n for n, source in reversed(sources.items())}
        same = {n: first[source] for n, source in sources.items() if first[source] != n}
        for duplicate, original in same.items():
            self._require_equal_initial_values(duplicate, original)
        return same

    def _row_written_list(self, number: int) -> tuple[Array, int] | None:
        """Returns the row indices and the row tensor of an operand that steps only write by rows, else
        None."""
        before, after = self.graph.inputs[number], self.graph.outputs[number]
        maker = self.body.made.get(after)
        if maker is None or not self.body.shape(before):
            return None
        parts, at = [maker], None
        if self.body.code(maker) == "DYNAMIC_UPDATE_SLICE" and maker.inputs[0] == before:
            begin, new = self.rows.get(maker.inputs[2]), maker.inputs[1]
            at = begin[:, 0] if begin is not None and begin.ndim == 2 and not begin[:, 1:].any() else None
        elif self.body.code(maker) == "CONCATENATION" and len(maker.inputs) == 3:
            head, new, tail = maker.inputs
            parts = [
                m for m in map(self.body.made.get, (head, tail)) if m is not None and m.inputs[0] == before
            ]
            at = self._row_index_between(parts) if len(parts) == 2 else None
        if at is None or any(user not in parts for user in self.body.users(before)):
            return None
        length = self.body.shape(before)[0]
        if self.body.shape(new) != [1, *self.body.shape(before)[1:]] or at.min() < 0 or at.max() >= length:
            rule, here = "each step of a loop writes one row of a list", f"into {length} rows"
            raise refused_loop(self.call, rule, f"{self.body.shape(new)} {here}")
        return at, new

    def _row_index_between(self, parts: list[tflite.Operator]) -> Int64Array | None:
        """Returns the row index between all rows before and all rows after it."""
        if any(self.body.code(part) != "SLICE" or len({*part.inputs[1:3]} - {*self.rows}) for part in parts):
            return None
        (head, size), (tail, rest) = ([self.rows[n] for n in part.inputs[1:3]] for part in parts)
        is_complete = (
            not head.any() and (size[:, 1:] == -1).all() and (rest == -1).all() and not tail[:, 1:].any()
        )
        return size[:, 0] if is_complete and (tail[:, 0] == size[:, 0] + 1).all() else None

    def _sequence_element(self, operator: tflite.Operator) -> Element | None:
        """Returns the slices of an invariant tensor that an operator reads by a counter, else None."""
        places = operator.inputs[1:]
        if (
            self.body.code(operator) not in ("GATHER", "SLICE", "STRIDED_SLICE")
            or operator.inputs[0] not in self.place
            or not self.counters.known.issuperset(places)
            or self.counters.moving.isdisjoint(places)
        ):
            return None
        number, shape = self.place[operator.inputs[0]], self.body.shape(operator.inputs[0])
        slices = slices_of_steps(operator, [self.rows[n] for n in places], shape)
        if number not in self.body.kept or slices is None:
            return None
        (axis, numbers), data = slices, self.call.inputs[number]
        if data is None or data.is_constant:
            rule = "what steps read in turn is computed, or an input"
            raise refused_loop(self.call, rule, f"operand {number} is a constant")
        size = data.shape[axis] if axis < data.type.rank else 0
        if numbers.min(initial=0) < 0 or numbers.max(initial=0) >= size:
            rule = f"slices of operand {number} are from 0 to {size - 1}"
            raise refused_loop(self.call, rule, numbers.max(initial=0))
        return Element(number, axis, numbers)

    def _element_tensor_and_shape(self, element: Element) -> tuple[int, list[int]]:
        """Returns the tensor that contains an element, and the element's shape."""
        data = self.graph.inputs[element.operand]
        shape, count = self.body.shape(data), element.numbers.shape[1]
        between = [count] if count > 1 else []
        return data, [*shape[: element.axis], *between, *shape[element.axis + 1 :]]

    def _live_operators(self, last: set[int], elements: dict[int, Element]) -> list[tflite.Operator]:
        """Returns the operators that some result of a step needs."""
        needed, live = set(last), []
        for operator in reversed(self.graph.operators):
            is_known = all(y in elements or y in self.counters.known for y in operator.outputs)
            if not is_known and any(y in needed for y in operator.outputs):
                live.append(operator)
                needed.update(operator.inputs)
        return live[::-1]

    # Inputs of the step

    def _add_step_input(self, tensor: int, like: tuple[int, list[int]]) -> int:
        """Adds a step input with a tensor's numbers in another shape, and returns it."""
        data, shape = like
        if len(shape) > MAX_RANK or int(np.prod(shape)) != int(np.prod(self.body.shape(tensor))):
            raise refused_loop(self.call, f"a slice has the shape {shape}", self.body.shape(tensor))
        if self.body.shape(tensor) == shape:
            return tensor
        source = self.graph.tensors[data]
        name = f"{self.graph.tensors[tensor].name}_element"
        self.tensors.append(
            tflite.Tensor(shape=shape, type=source.type, quantization=source.quantization, name=name)
        )
        self.front.append(self._reshape_operator(len(self.tensors) - 1, tensor))
        return len(self.tensors) - 1

    def _carried_step_input(self, number: int, source: int) -> int:
        """Returns the step input of a carried value, in the shape in which it was computed."""
        return self._add_step_input(self.graph.inputs[number], (source, self.body.shape(source)))

    def _reshape_operator(self, x: int, y: int) -> tflite.Operator:
        codes = self.body.reader.model.operator_codes
        reshape_code = tflite.OPERATOR_NUMBERS["RESHAPE"]
        index = next(
            (n for n, code in enumerate(codes) if code.deprecated_builtin_code == reshape_code), None
        )
        if index is None:
            codes.append(tflite.OperatorCode(deprecated_builtin_code=reshape_code, builtin_code=reshape_code))
        return tflite.Operator(
            opcode_index=len(codes) - 1 if index is None else index,
            inputs=[x],
            outputs=[y],
            options=tflite.ReshapeOptions(new_shape=self.body.shape(y)),
        )

    # Checks

    def _require_equal_initial_values(self, duplicate: int, original: int) -> None:
        """Raises unless duplicates start with equal values; unread ones may start with any."""
        a, b = self.call.operand(duplicate), self.call.operand(original)
        same_data = a.is_constant and b.is_constant and a.constant.tobytes() == b.constant.tobytes()
        if a is not b and not same_data and self.body.users(self.graph.inputs[duplicate]):
            here = f"operands {original} and {duplicate}"
            raise refused_loop(self.call, "what a step hands on twice begins alike", here)

    def _require_computed(self, tensors: list[int], live: list[tflite.Operator]) -> None:
        early = {*tensors} - {y for operator in live for y in operator.outputs}
        if early:
            here = f"`{self.graph.tensors[min(early)].name}` was there before"
            raise refused_loop(self.call, "what a step hands on is computed by it", here)

    def _refuse_list_and_counter_reads(
        self, read: set[int], handed: set[int], live: list[tflite.Operator]
    ) -> None:
        """Raises if steps read a list that they write, or use counters as data."""
        computed = {y for operator in live for y in operator.outputs} | handed
        others = (self.graph.tensors[tensor] for tensor in sorted(read - computed - {-1}))
        for tensor in others:
            if self.body.reader.data(tensor) is None:
                rule = "a step reads slices by its number, and what the step before left: neither lists nor counters"
                raise refused_loop(self.call, rule, f"`{tensor.name}`")
