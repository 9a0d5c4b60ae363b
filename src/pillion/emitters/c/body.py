# SPDX-License-Identifier: Apache-2.0
"""The text of what a program does: calls of kernels and of the NPU, moves of rows, and loops of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from textwrap import indent

from pillion.emitters.c.kernel import Call
from pillion.emitters.c.loops import Fire, Item, Load, Loop, MoveRows, Part, TakeRows, What
from pillion.emitters.c.program import CProgram, Step, Variant
from pillion.emitters.c.spelling import commented
from pillion.ir.types import Value
from pillion.memory import Area, Spot
from pillion.ops import Segment

BASES: Mapping[Area, str] = {"arena": "base", "state": "kept"}
"""The variables of a program's function that point to the beginnings of its memory."""


@dataclass(frozen=True)
class Place:
    """A place in memory, and by how much it moves on each time that a loop around it comes round, the outermost first."""

    spot: Spot
    moves: tuple[tuple[str, int], ...] = ()
    """The count of each loop, as C has it, and the bytes for each."""

    def __str__(self) -> str:
        moves = "".join(
            f" {'+' if stride > 0 else '-'} {abs(stride)} * {count}" for count, stride in self.moves if stride
        )
        return f"(void *)({BASES[self.spot.area]} + {self.spot.offset}{moves})"


Places = Sequence[Place]


def params_name(step: Step, number: int) -> str:
    """Gives the name of the params of a call."""
    return f"op{step.index}" + (f"_{number}" if len(step.calls) > 1 else "")


def segment_function(program: CProgram, number: int) -> str:
    """Gives the function that runs a segment."""
    return f"{program.graph.name}_npu_segment_{number}"


class Body:
    """Writes the body of a program's function."""

    def __init__(self, program: CProgram, after_op: bool) -> None:
        self.program, self.after_op = program, after_op
        segments = [s.index for s in program.steps if isinstance(s.choice.op, Segment)]
        self.segments = {index: number for number, index in enumerate(segments)}
        self.named: set[int] = set()
        self.waits = 0

    def text(self, first: int = 0, end: int | None = None) -> str:
        """Gives what the program does, or some of it."""
        return "\n".join(self._item(item) for item in self.program.items[first:end])

    def resumed(self, items: int) -> str:
        """Gives the first things that the program does, among which it waits for rows, to be left there and come back to."""
        body = self.text(0, items)
        cases = "".join(f"case {n}:\n    goto rows_{n};\n" for n in range(1, self.waits + 1))
        return f"switch (feed->place) {{\n{cases}default:\n    break;\n}}\n{body}"

    def _item(self, item: Item) -> str:
        return self._text(item.what, [Place(spot) for spot in item.places], 0)

    def _text(self, what: What, places: Places, depth: int) -> str:
        match what:
            case Fire():
                return self._fire(what, places)
            case MoveRows(size):
                to, source = places
                return f"pillion_move_rows({to}, {source}, {size});\n"
            case TakeRows(rows, _):
                return self._take(rows, places)
            case Load(size, value):
                return f"pillion_move_rows({places[0]}, {self.program.operands[value]}, {size});\n"
            case Loop():
                return self._loop(what, places, depth)

    def _loop(self, loop: Loop, places: Places, depth: int) -> str:
        count = f"feed->loop[{depth}]" if loop.waits else f"i{depth}"
        moving = [Place(p.spot, (*p.moves, (count, s))) for p, s in zip(places, loop.strides, strict=True)]
        body = "".join(self._text(part.what, own, depth + 1) for part, own in _shared_out(loop.body, moving))
        declared = count if loop.waits else f"uint32_t {count}"
        head = f"for ({declared} = 0; {count} < {loop.count}; {count}++) {{"
        return f"{head}\n{indent(body, '    ')}}}\n"

    def _take(self, rows: int, places: Places) -> str:
        """Rows of the caller: where too few have come, the function is left, and goes on here when there are more."""
        assert self.program.feed is not None
        self.waits += 1
        to = str(places[0]) if places else "NULL"
        taken = f"pillion_take_rows(feed, &given, {to}, {rows}, {self.program.feed.row_bytes})"
        return f"feed->place = {self.waits};\nrows_{self.waits}:\nif (!{taken}) {{\n    return;\n}}\n"

    def _fire(self, fire: Fire, places: Places) -> str:
        step = self.program.steps[fire.step]
        variant = step.variants[fire.variant]
        is_known = step.index in self.named
        self.named.add(step.index)
        lines = [] if is_known else [comment(step)]
        if step.index in self.segments:
            lines.append(self._segment(self.segments[step.index], variant, places))
        lines += [self._call(step, variant, n, step.calls[n], places) for n in variant.calls]
        after = f"if (after_op != NULL) {{\n    after_op({step.index});\n}}\n" if self.after_op else ""
        return "\n".join(lines) + "\n" + after

    def _segment(self, number: int, variant: Variant, places: Places) -> str:
        """A segment gets the places of its operands and results."""
        count = len(variant.choice.op.activations)
        inputs, outputs = (", ".join(map(str, some)) for some in (places[:count], places[count:]))
        return (
            f"{{\n    const void *const inputs_{number}[] = {{{inputs}}};\n"
            f"    void *const outputs_{number}[] = {{{outputs}}};\n"
            f"    {segment_function(self.program, number)}(inputs_{number}, outputs_{number});\n}}"
        )

    def _call(self, step: Step, variant: Variant, number: int, call: Call, places: Places) -> str:
        place = dict(zip(variant.values, places, strict=True))
        scratch = self.program.memory.scratch_offsets.get(step.choice.op)
        arguments = [f"&{params_name(step, number)}"]
        arguments += [self._argument(value, place) for value in (*call.inputs, call.output)]
        arguments.append("NULL" if scratch is None else str(Place(Spot(scratch))))
        return f"{call.routine.name}({', '.join(arguments)});"

    def _argument(self, value: Value, place: dict[Value, Place]) -> str:
        return self.program.operands[value] if value.is_constant else str(place[value])


def _shared_out(parts: Sequence[Part], places: Places) -> Iterator[tuple[Part, Places]]:
    """Gives each part of a loop the places that are its own."""
    at = 0
    for part in parts:
        yield part, places[at : at + part.places]
        at += part.places


def comment(step: Step) -> str:
    """Says of an op what it is, and from what shapes it makes what."""
    op = step.choice.op
    place = f"  {op.source}" if op.source else ""
    operands = ", ".join("x".join(map(str, v.shape)) or "1" for v in op.activations)
    shape = "x".join(map(str, op.results[0].shape)) or "1"
    return f"/* {step.index}: {op.kind} {commented(f'{op.name}  {operands} -> {shape}{place}')} */"
