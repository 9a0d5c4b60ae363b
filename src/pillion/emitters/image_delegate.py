# SPDX-License-Identifier: Apache-2.0
"""Emits lowered programs as ExecuTorch programs whose CPU segments are program images, run by the delegate `PillionBackend`
(image/runtime/PillionBackend.cpp). The planned memory is the arena of the C project: nothing is copied between segments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from pillion.emitters.c.actions import LoadConstant, MoveRows, ProgramItem, RolledLoop, RunStep
from pillion.emitters.c.branch_items import without_branches
from pillion.emitters.c.lower import CProgram
from pillion.emitters.image.writer import image_bytes
from pillion.emitters.pte.lower import LoweredProgram
from pillion.emitters.pte.node import Delegate, NodeView, Temp, contiguous_view
from pillion.emitters.pte.writer import Writer
from pillion.errors import PillionError
from pillion.ir.op import Op
from pillion.ir.types import DType, TensorType, Value
from pillion.memory import ARENA
from pillion.ops import Segment
from pillion.option_values import NEWEST_RUNTIME, Runtime
from pillion.schemas import pte_record
from pillion.schemas.pte import PILLION_BACKEND

MOST_ALIGNMENT = 16
"""The alignment of planned memory in ExecuTorch."""


@dataclass(frozen=True)
class _Part:
    """Consecutive ops of a program: one NPU segment, or ops for the core."""

    ops: tuple[Op, ...]
    items: tuple[ProgramItem, ...]

    @property
    def segment(self) -> Segment | None:
        """The NPU segment, if the part is one."""
        return self.ops[0] if self.ops and isinstance(self.ops[0], Segment) else None


def emit_with_images(
    program: CProgram,
    core: str,
    runtime: Runtime = NEWEST_RUNTIME,
    payloads: Sequence[bytes] = (),
    npu: str = "",
    checksums: str = "",
) -> bytes:
    """Returns a `.pte` with a program image for each CPU segment; `payloads` are for the NPU's segments, whose delegate is
    named `npu`. `checksums` of the reference's outputs go to the image, if there is only one."""
    _refuse_rows(program)
    memory = replace(program.memory, arena_bytes=max(program.memory.arena_bytes, MOST_ALIGNMENT))
    arena = Temp(memory.arena_bytes)
    shared = [_bytes_view(arena, memory.arena_bytes)]
    if memory.state_bytes:
        states = Value("states", TensorType((memory.state_bytes,), DType.UINT8))
        shared.append(contiguous_view(states))
        memory = replace(memory, state_offsets={**memory.state_offsets, states: 0})
    steps: list[Delegate] = []
    code = iter(payloads)
    for number, part in enumerate(parts := [*_parts(program)]):
        segment = part.segment
        if segment is None:
            own = program if len(parts) == 1 else _program_of(program, parts, number)
            inputs, outputs = own.graph.inputs, own.graph.outputs
            image = image_bytes(own, core, checksums if len(parts) == 1 else "")
            steps.append(Delegate(PILLION_BACKEND, image, (), _views(inputs), (*_views(outputs), *shared)))
        else:
            steps.append(
                Delegate(npu or segment.device, next(code), (), _views(segment.xs), _views(segment.ys))
            )
    graph = program.graph.replace(states=())  # the first image initializes them
    head = {"core": core, "runtime": runtime, "model": graph.name}
    lowered = LoweredProgram(graph, tuple(steps), memory, {arena: 0})
    return Writer(lowered).program(lambda: pte_record.compose_record(head, b""))


def _refuse_rows(program: CProgram) -> None:
    if program.feed is not None:
        raise PillionError(
            f"a .pte cannot hand rows to `{program.graph.name}`",
            rule="ExecuTorch's runtime hands whole tensors to a program",
            here=f"--rows-in: {program.feed.rows} rows of {program.feed.row_bytes} bytes",
            help="leave --rows-in out (--max-ram goes with --kernels pillion), or write a C project or an image: -o FOLDER/, -o net.plm",
        )


def _views(values: Iterable[Value]) -> tuple[NodeView, ...]:
    return tuple(map(contiguous_view, values))


def _bytes_view(of: Temp, size: int) -> NodeView:
    return NodeView(of, DType.UINT8, (size,), (0,))


def _parts(program: CProgram) -> Iterator[_Part]:
    """Yields the parts in running order, except those whose ops run nothing. A segment is a part of its own. Programs
    with segments run both sides of branches."""
    ops, items = list(program.graph.ops), list(program.items)
    if any(isinstance(op, Segment) for op in ops):
        items = without_branches(items)
    while ops:
        end = next((n for n, op in enumerate(ops) if isinstance(op, Segment)), len(ops))
        last = next((n for n, item in enumerate(items) if _segment_of(program, item)), len(items))
        part = _Part(tuple(ops[:end]), tuple(items[:last]))
        if any(_computes(program, item) for item in part.items):
            yield part
        if end < len(ops):
            yield _Part((ops[end],), (items[last],))
        ops, items = ops[end + 1 :], items[last + 1 :]


def _segment_of(program: CProgram, item: ProgramItem) -> bool:
    return isinstance(item.what, RunStep) and isinstance(program.steps[item.what.step].choice.op, Segment)


def _computes(program: CProgram, item: ProgramItem) -> bool:
    """Whether an item writes memory; a reshape does not."""
    return not isinstance(item.what, RunStep) or bool(program.steps[item.what.step].calls)


def _crossing_values(
    program: CProgram, parts: Sequence[_Part], number: int
) -> tuple[tuple[Value, ...], tuple[Value, ...]]:
    """Returns the arena values that a part reads from outside, and its results that are read outside."""
    ops = parts[number].ops
    inside = dict.fromkeys(y for op in ops for y in op.results)
    read = [x for op in ops for x in op.activations if x not in inside]
    later = [x for part in parts[number + 1 :] for op in part.ops for x in op.activations]
    wanted = {*program.graph.outputs, *later}
    outputs = (y for y in inside if y in wanted)
    return tuple(_in_arena(program, dict.fromkeys(read))), tuple(_in_arena(program, outputs))


def _in_arena(program: CProgram, values: Iterable[Value]) -> Iterator[Value]:
    return (v for v in values if program.memory.location(v).area == ARENA)


def _program_of(program: CProgram, parts: Sequence[_Part], number: int) -> CProgram:
    """Returns a part as a program in the arena of the whole, with the constants that it reads. The first one initializes states."""
    part, (inputs, outputs) = parts[number], _crossing_values(program, parts, number)
    is_first = all(one.segment is not None for one in parts[:number])
    initial = (*program.initial_states.values(), *program.initial_sums.values()) if is_first else ()
    states = program.graph.states if is_first else ()
    names = {*_constant_names(program, part.items), *initial}
    return replace(
        program,
        graph=program.graph.replace(ops=part.ops, inputs=inputs, outputs=outputs, states=states),
        items=part.items,
        constants=tuple(c for c in program.constants if c.name in names),
        sums=program.sums if is_first else (),
        stream=program.stream if is_first else None,
    )


def _constant_names(program: CProgram, items: Iterable[ProgramItem]) -> Iterator[str]:
    """Yields the names of the constants that items read."""
    for item in items:
        match item.what:
            case RunStep(step=number):
                step = program.steps[number]
                yield from (name for pointers in step.pointers for name in pointers.values())
                yield from (program.operands[v] for call in step.calls for v in call.inputs if v.is_constant)
            case LoadConstant(value=value):
                yield program.operands[value]
            case RolledLoop(body=body):
                yield from _constant_names(program, body)
            case MoveRows():
                pass
