# SPDX-License-Identifier: Apache-2.0
"""The C statements of a program: kernel and NPU calls, row moves, loops, and functions for outlined sequences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import indent
from typing import Literal

from pillion.emitters.c import actions
from pillion.emitters.c.arena_parameter import arena_pointers, base_of
from pillion.emitters.c.constant_copies import copied_arrays
from pillion.emitters.c.escaping import comment_text
from pillion.emitters.c.lower import CProgram, CStep, Variant, sizes_of
from pillion.emitters.c.outlining import outline_repeated_calls
from pillion.ir.op import Op
from pillion.ir.types import Value
from pillion.memory import MemoryLocation
from pillion.memory.events import align_up
from pillion.ops import Segment

Texts = Sequence[str]
"""The C expressions of locations."""


NO_CALLBACK = """
/* The callback if the caller passes none. */
static void no_one(uint32_t op) {
    (void)op;
}
"""


def params_name(step: CStep, number: int) -> str:
    """Returns the name of a call's params struct."""
    return f"op{step.index}" + (f"_{number}" if len(step.calls) > 1 else "")


def segment_function(program: CProgram, number: int) -> str:
    """Returns the name of the function that runs a segment."""
    return f"{program.graph.name}_npu_segment_{number}"


SegmentPart = Literal["", "_start", "_end"]
"""The functions of a segment: the whole, or its parts in a program that overlaps core and NPU."""


def segment_signature(program: CProgram, number: int, part: SegmentPart = "") -> str:
    """Returns the declaration of the function that runs a segment, or of its parts in a program that overlaps core and
    NPU, with the workspace as an argument if it is part of the arena."""
    more = ", void *workspace" if program.workspaces else ""
    kind, task = ("int", "pillion_task *task, ") if part else ("void", "")
    return f"{kind} {segment_function(program, number)}{part}({task}const void *const *inputs, void *const *outputs{more})"


class StatementWriter:
    """Writes the statements of a program, and the functions of outlined sequences."""

    def __init__(self, program: CProgram, after_op: bool) -> None:
        self.program, self.after_op = program, after_op
        segments = [s.index for s in program.steps if isinstance(s.choice.op, Segment)]
        self.segments = {index: number for number, index in enumerate(segments)}
        self.named: set[int] = set()
        self.waits = 0
        self.answer = ""
        self.resume_points = 0
        fed = program.feed.items if program.feed is not None else range(0)
        parts = [program.items[: fed.start], program.items[fed.start : fed.stop], program.items[fed.stop :]]
        branches = list(dict.fromkeys(actions.branches_in(program.items)))
        (self.before, self.fed, self.rest, *bodies), self.subroutines = outline_repeated_calls(
            [*parts, *(branch.body for branch in branches)], interchangeable_variants(program)
        )
        self.bodies = dict(zip(branches, bodies, strict=True))
        self.functions = "".join(map(self._subroutine_function, self._subroutine_order()))

    def text(self) -> str:
        """Returns the statements behind the row input, or all if there is none."""
        return "\n".join(map(self._item_statements, self.rest))

    def statements_in_steps(self) -> str:
        """Returns the statements of a program that overlaps core and NPU: they return 0 where they must wait for the
        NPU, and go on from there."""
        body = self.text()
        cases = "".join(f"case {n}:\n    goto at_{n};\n" for n in range(1, self.resume_points + 1))
        return f"switch (task->at) {{\ncase 0:\n    break;\n{cases}default:\n    return 1;\n}}\n{body}"

    def statements_before_rows(self) -> str:
        """Returns the statements that run before the first row arrives."""
        return "\n".join(map(self._item_statements, self.before))

    def resumable_statements(self) -> str:
        """Returns the resumable statements that run while rows arrive."""
        return self._resumable_item_statements(self.fed)

    def _resumable_item_statements(self, items: Sequence[actions.ProgramItem]) -> str:
        """Returns statements that wait for rows. `at` holds the resume point, followed by the counters of the
        enclosing loops."""
        self.waits = 0
        body = "\n".join(map(self._item_statements, items))
        cases = "".join(f"case {n}:\n    goto rows_{n};\n" for n in range(1, self.waits + 1))
        return f"switch (at[0]) {{\n{cases}default:\n    break;\n}}\n{body}"

    def _subroutine_order(self) -> list[int]:
        """Returns the subroutines in an order in which each is defined before its callers."""
        order: dict[int, None] = {}

        def put(what: actions.Action) -> None:
            inner = what.body if isinstance(what, actions.RolledLoop) else ()
            for part in self.bodies[what] if isinstance(what, actions.RunBranch) else inner:
                put(part.what)
            if isinstance(what, actions.CallSubroutine) and what.subroutine not in order:
                for item in self.subroutines[what.subroutine].items:
                    put(item.what)
                order[what.subroutine] = None

        for item in (*self.before, *self.fed, *self.rest):
            put(item.what)
        return list(order)

    def _subroutine_function(self, number: int) -> str:
        """Returns the function of a subroutine. If it waits for rows, it returns whether there were enough."""
        subroutine = self.subroutines[number]
        is_left = any(actions.waits(item.what) for item in subroutine.items)
        self.answer = " 0"
        body = (
            self._resumable_item_statements(subroutine.items)
            if is_left
            else "\n".join(map(self._item_statements, subroutine.items))
        )
        self.answer = ""
        numbers = range(len(subroutine.parameter_types))
        known = [name for name, _ in self._common_parameters(is_left)] + [f"place{n}" for n in numbers]
        parameters = [declared for _, declared in self._common_parameters(is_left)]
        parameters += [f"{self._type(subroutine.parameter_types[n])}place{n}" for n in numbers]
        unused = "".join(f"(void){name};\n" for name in known)
        text = indent(f"{unused}{body}{'return 1;' * is_left}", "    ")
        kind = "uint32_t" if is_left else "void"
        return f"\nstatic {kind} part_{number}({', '.join(parameters)}) {{\n{text}\n}}\n"

    def _type(self, kind: actions.LocationType) -> str:
        """Returns the C type of a parameter: an address, a row index, or the params of a variant."""
        if not isinstance(kind, actions.RunStep):
            return "uint8_t *" if kind is None else "uint32_t "
        step = self.program.steps[kind.step]
        return f"const {step.calls[step.variants[kind.variant].calls[0]].routine.params_type} *"

    def _location_expression(self, place: actions.MovingLocation, counters: Sequence[str] = ()) -> str:
        """Returns a location as a C expression: an address, a row index, or the params of a variant. `counters` are
        the counters of the enclosing loops."""
        start = place.start
        if isinstance(start, actions.VariantSelector):
            step = self.program.steps[start.kind.step]
            return f"&{params_name(step, step.variants[start.variant].calls[0])}"
        if isinstance(actions.type_of(start), actions.RunStep):
            assert isinstance(start, actions.ParameterLocation)
            return f"place{start.number}"
        moves = "".join(
            f" {'+' if stride > 0 else '-'} {abs(stride)} * {count}"
            for count, stride in zip(counters, place.strides, strict=False)
            if stride
        )
        if isinstance(start, actions.RowIndex):
            return f"(uint32_t)({start.offset}{moves})"
        base = f"place{start.number}" if isinstance(start, actions.ParameterLocation) else base_of(start.area)
        offset = f"{'+' if start.offset >= 0 else '-'} {abs(start.offset)}"
        kind = "uint32_t" if actions.type_of(start) == "row" else "void *"
        return f"({kind})({base} {offset}{moves})"

    def _common_parameters(self, is_left: bool) -> list[tuple[str, str]]:
        """Returns the name and the declaration of the parameters that every subroutine has."""
        known = [(name, f"uint8_t *{name}") for name in arena_pointers(self.program)]
        known += [("kept", "uint8_t *kept")] if self.program.graph.states else []
        known += [("done", "void (*done)(uint32_t op)")] if self.after_op else []
        fed = [("feed", "pillion_feed *feed"), ("given", "pillion_rows *given"), ("at", "uint32_t *at")]
        return known + fed * is_left

    def _item_statements(self, item: actions.ProgramItem, counters: tuple[str, ...] = ()) -> str:
        """Returns the statements of an item inside loops with these counters."""
        what, places = item.what, [self._location_expression(place, counters) for place in item.places]
        match what:
            case actions.RunStep():
                return self._run_step_statements(what, places)
            case actions.RunVariant(first):
                return self._run_step_statements(first, places[1:], places[0])
            case actions.AwaitSegment() | actions.AwaitConstants() | actions.FetchConstants():
                return self._asynchronous_statements(what, places)
            case actions.MoveRows(size):
                return f"pillion_move_rows({places[0]}, {places[1]}, {size});\n"
            case actions.TakeRows(rows):
                return self._take_rows_call(rows, places)
            case actions.LoadConstant(size, value):
                return f"pillion_move_rows({places[0]}, {self.program.operands[value]}, {size});\n"
            case actions.CallSubroutine():
                return self._run(what, places, len(counters))
            case actions.RolledLoop():
                return self._loop(what, counters)
            case actions.RunBranch():
                return self._branch(what, places[0])

    def _asynchronous_statements(
        self, what: actions.AwaitSegment | actions.AwaitConstants | actions.FetchConstants, places: Texts
    ) -> str:
        """Returns the statements that start or await work in parallel with the core."""
        match what:
            case actions.AwaitSegment(step):
                return self._await_statements(step, places)
            case actions.FetchConstants(arrays):
                return self._fetch_calls(arrays, places[0])
            case actions.AwaitConstants():
                return f"{self.program.graph.name}_wait();\n"

    def _loop(self, loop: actions.RolledLoop, counters: tuple[str, ...]) -> str:
        depth = len(counters)
        count = f"at[{1 + depth}]" if loop.waits else f"i{depth}"
        body = "".join(self._item_statements(part, (*counters, count)) for part in loop.body)
        declared = count if loop.waits else f"uint32_t {count}"
        head = f"for ({declared} = 0; {count} < {loop.count}; {count}++) {{"
        return f"{head}\n{indent(body, '    ')}}}\n"

    def _branch(self, branch: actions.RunBranch, flag: str) -> str:
        """Returns the statements of a branch. Measurements see the ops that it skips as ops without instructions."""
        body = "".join(map(self._item_statements, self.bodies[branch]))
        skipped = [f"    done({step});\n" for step in actions.steps_in(branch.body)] if self.after_op else ()
        instead = f" else {{\n{''.join(skipped)}}}" if skipped else ""
        relation = "!=" if branch.value else "=="
        return f"if (*(const uint8_t *){flag} {relation} 0) {{\n{indent(body, '    ')}}}{instead}\n"

    def _take_rows_call(self, rows: int, locations: Texts) -> str:
        """Returns the call that takes rows from the caller."""
        assert self.program.feed is not None
        to = locations[0] if locations else "NULL"
        return self._waiting_call(
            f"pillion_take_rows(feed, given, {to}, {rows}, {self.program.feed.row_bytes})"
        )

    def _run(self, run: actions.CallSubroutine, locations: Texts, depth: int) -> str:
        """Returns the call of a subroutine. One that waits for rows has its own resume point behind the counters
        of the enclosing loops."""
        inner = f"at + {1 + depth}"
        known = [inner if name == "at" else name for name, _ in self._common_parameters(run.waits)]
        call = f"part_{run.subroutine}({', '.join([*known, *locations])})"
        return f"at[{1 + depth}] = 0;\n{self._waiting_call(call)}" if run.waits else f"{call};\n"

    def _waiting_call(self, call: str) -> str:
        """Returns a call that waits for rows: if too few have arrived, the function returns here and later resumes
        here."""
        self.waits += 1
        left = f"    return{self.answer};\n"
        return f"at[0] = {self.waits};\nrows_{self.waits}:\nif (!{call}) {{\n{left}}}\n"

    def _run_step_statements(self, run: actions.RunStep, locations: Texts, params: str = "") -> str:
        step = self.program.steps[run.step]
        variant = step.variants[run.variant]
        is_known = step.index in self.named
        self.named.add(step.index)
        lines = [] if is_known else [op_comment(step)]
        is_started = step.index in self.segments and self.program.in_steps
        if step.index in self.segments:
            lines.append(self._segment_call(step, locations, "_start" if is_started else ""))
        lines += [self._call(step, variant, n, locations, params) for n in variant.calls]
        after = f"done({step.index});\n" if self.after_op and not is_started else ""
        return "\n".join(lines) + "\n" + after

    def _await_statements(self, index: int, locations: Texts) -> str:
        return (
            f"{self._segment_call(self.program.steps[index], locations, '_end')}\n"
            + f"done({index});\n" * self.after_op
        )

    def _segment_call(self, step: CStep, locations: Texts, part: SegmentPart) -> str:
        """Returns the call of a segment, or of a part of it, with the addresses of its operands and results. If the NPU
        lets a part wait, the step of the program ends there, and the next one begins there."""
        op, number = step.choice.op, self.segments[step.index]
        count = len(op.activations)
        inputs, outputs = (", ".join(some) for some in (locations[:count], locations[count:]))
        task = "task, " if part else ""
        call = f"{segment_function(self.program, number)}{part}({task}inputs_{number}, outputs_{number}{self._workspace_argument(op)})"
        resumed = ""
        if part:
            self.resume_points += 1
            resumed = f"task->at = {self.resume_points};\nat_{self.resume_points}:\n"
            call = f"if (!{call}) {{\n        return 0;\n    }}"
        return (
            f"{resumed}{{\n    const void *const inputs_{number}[] = {{{inputs}}};\n"
            f"    void *const outputs_{number}[] = {{{outputs}}};\n"
            f"    {call}{'' if part else ';'}\n}}"
        )

    def _workspace_argument(self, op: Op) -> str:
        """Returns the last argument of a segment that works in the arena."""
        location = self.program.memory.scratch_location(op)
        return "" if location is None else f", {self._location_expression(actions.MovingLocation(location))}"

    def _call(self, step: CStep, variant: Variant, number: int, locations: Texts, params: str) -> str:
        call = step.calls[number]
        rows = locations[len(variant.values) :]
        location_of = dict(zip(variant.values, locations[: len(variant.values)], strict=True))
        scratch = self.program.memory.scratch_location(step.choice.op)
        arguments = [params or f"&{params_name(step, number)}"]
        arguments += [self._kernel_argument(value, location_of) for value in call.inputs]
        arguments += rows if call.counts_rows else ()
        arguments.append(self._kernel_argument(call.output, location_of))
        arguments.append(
            "NULL" if scratch is None else self._location_expression(actions.MovingLocation(scratch))
        )
        text = f"{call.routine.name}({', '.join(arguments)});"
        several = self.program.memory.several
        place = several.streamed.get(step.choice.op) if several else None
        return text if place is None else self._with_copied_constants(step, number, place, text)

    def _fetch_calls(self, arrays: Sequence[tuple[str, int]], to: str) -> str:
        """Returns the calls that start copying arrays, one behind the other."""
        calls, at = [], 0
        for name, size in arrays:
            calls.append(f"{self.program.graph.name}_fetch((uint8_t *){to} + {at}, {name}, {size});\n")
            at += align_up(size)
        return "".join(calls)

    def _with_copied_constants(self, step: CStep, number: int, place: MemoryLocation, call: str) -> str:
        """Returns a call whose params point to constants that were copied."""
        sizes = sizes_of(self.program.constants)
        params, address = params_name(step, number), self._location_expression(actions.MovingLocation(place))
        lines = [
            f"    copied.{array.key} = (const void *)((const uint8_t *){address} + {array.offset});\n"
            for array in copied_arrays(step.pointers[0], sizes)
        ]
        kind = step.calls[number].routine.params_type
        return f"{{\n    {kind} copied = {params};\n{''.join(lines)}    {call.replace(f'&{params}', '&copied', 1)}\n}}"

    def _kernel_argument(self, value: Value, locations: Mapping[Value, str]) -> str:
        return self.program.operands[value] if value.is_constant else locations[value]


def interchangeable_variants(program: CProgram) -> dict[actions.RunStep, actions.RunStep]:
    """Returns, for each single-call variant of an op with several, a run of the first variant whose call differs
    only in its params."""
    first_runs: dict[actions.RunStep, actions.RunStep] = {}
    for step in program.steps:
        firsts: dict[object, list[actions.RunStep]] = {}
        for number, variant in enumerate(step.variants):
            if len(variant.calls) == 1:
                call = step.calls[variant.calls[0]]
                order = tuple(
                    program.operands[v] if v.is_constant else variant.values.index(v)
                    for v in (*call.inputs, call.output)
                )
                firsts.setdefault((call.routine, order), []).append(actions.RunStep(step.index, number))
        for runs in firsts.values():
            first_runs |= {run: runs[0] for run in runs if len(runs) > 1}
    return first_runs


def op_comment(step: CStep) -> str:
    """Returns a comment with the kind, name, shapes and source of an op."""
    op = step.choice.op
    source = f"  {op.source}" if op.source else ""
    operands = ", ".join("x".join(map(str, v.shape)) or "1" for v in op.activations)
    shape = "x".join(map(str, op.results[0].shape)) or "1"
    return f"/* {step.index}: {op.kind} {comment_text(f'{op.name}  {operands} -> {shape}{source}')} */"
