# SPDX-License-Identifier: Apache-2.0
"""The arena over time: residents, peak, and advice on lowering it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pillion.compiled_program import CompiledProgram
from pillion.emitters.c.lower import lower
from pillion.ir.types import DType
from pillion.memory import ArenaResident, MemoryPlan
from pillion.ops import flatten_ops
from pillion.passes.int8_io import int8_io
from pillion.report.op_facts import OUTSIDE
from pillion.report.report_facts import ArenaFacts, MemoryFacts, OpFacts, PeakFacts, ResidentFacts

MOST_OPS = 400
"""Largest program for which alternative plans are computed; each takes seconds."""
NAMED = 3
"""Residents that advice names."""


def arena_facts(subject: CompiledProgram, ops: Sequence[OpFacts], *, plans: bool = True) -> ArenaFacts:
    """Returns the memory plan for the picture. With `plans`, computes plans with other options, for advice."""
    plan, steps = subject.lowered.memory, flatten_ops(subject.lowered.graph.ops)
    first_of: dict[int, int] = {}
    for op in ops:
        first_of.setdefault(op.step, op.number)
    residents = tuple(sorted(_resident_facts(subject, first_of), key=lambda r: (r.first, r.offset)))
    in_use = [occupied_bytes(r for r in residents if r.first <= s <= r.last) for s in range(len(steps))]
    names = tuple(op.name for op in steps)
    step_ops = tuple(first_of.get(s, OUTSIDE) for s in range(len(steps)))
    peak = peak_facts(max(range(len(in_use)), key=in_use.__getitem__), in_use, names, step_ops, residents)
    following = _next_peak(peak, in_use, names, step_ops, residents)
    return ArenaFacts(
        arena_bytes=plan.arena_bytes,
        activation_bytes=plan.activation_bytes,
        floor_bytes=plan.floor_bytes,
        scratch_bytes=plan.scratch_bytes,
        step_names=names,
        step_ops=step_ops,
        bytes_in_use=tuple(in_use),
        residents=residents,
        peak=peak,
        next_peak=following,
        advice=(
            *(_advice_from_other_plans(subject, plan) if plans else ()),
            *_arena_advice(plan, peak, following, ops),
        ),
        memories=memory_facts(plan),
        wait_cycles=round(plan.several.waits) if plan.several else 0,
    )


def memory_facts(plan: MemoryPlan) -> tuple[MemoryFacts, ...]:
    """Returns the memories of the chip in which a plan lies; none if the user named none."""
    used = plan.several.used if plan.several else ()
    starts = [sum(one.arena_bytes for one in used[:n]) for n in range(len(used))]
    return tuple(
        MemoryFacts(
            one.memory.name,
            start,
            one.arena_bytes,
            one.state_bytes,
            one.constant_bytes,
            one.bytes,
            one.memory.bytes,
            one.memory.read,
        )
        for start, one in zip(starts, used, strict=True)
    )


def _resident_facts(subject: CompiledProgram, first_of: dict[int, int]) -> Iterator[ResidentFacts]:
    ops = flatten_ops(subject.lowered.graph.ops)
    step_of = {result: step for step, op in enumerate(ops) for result in op.results}
    plan = subject.lowered.memory
    used = plan.several.used if plan.several else ()
    starts = {one.area: facts.start for one, facts in zip(used, memory_facts(plan), strict=True)}
    for resident in plan.residents:
        if not resident.bytes:
            continue
        if resident.values:
            what, step = _describe_resident(resident, subject), step_of.get(resident.values[0], -1)
        else:
            what, step = "scratch", resident.first if resident.constants_of is None else resident.last
        yield ResidentFacts(
            resident.name,
            what,
            starts.get(resident.area, 0) + resident.offset,
            resident.bytes,
            resident.first,
            resident.last,
            first_of.get(step, -1),
        )


def _describe_resident(resident: ArenaResident, subject: CompiledProgram) -> str:
    graph = subject.lowered.graph
    if any(v in graph.inputs for v in resident.values):
        return "input"
    return "output" if any(graph.is_output(v) for v in resident.values) else "activation"


def occupied_bytes(residents: Iterable[ResidentFacts]) -> int:
    """Returns the bytes that at least one of the residents occupies."""
    total = end = 0
    for offset, size in sorted((r.offset, r.bytes) for r in residents):
        total += max(0, offset + size - max(offset, end))
        end = max(end, offset + size)
    return total


def peak_facts(
    step: int,
    in_use: Sequence[int],
    names: Sequence[str],
    step_ops: Sequence[int],
    residents: Sequence[ResidentFacts],
) -> PeakFacts:
    """Returns the live blocks at a step."""
    there = sorted((r for r in residents if r.first <= step <= r.last), key=lambda r: -r.bytes)
    return PeakFacts(step, step_ops[step], names[step], in_use[step], tuple(there))


def _next_peak(
    peak: PeakFacts,
    in_use: Sequence[int],
    names: Sequence[str],
    step_ops: Sequence[int],
    residents: Sequence[ResidentFacts],
) -> PeakFacts | None:
    """Returns the fullest step that shares no resident with the peak."""
    taken = {s for r in peak.residents for s in range(r.first, r.last + 1)}
    free = [s for s in range(len(in_use)) if s not in taken]
    return peak_facts(max(free, key=in_use.__getitem__), in_use, names, step_ops, residents) if free else None


def _arena_advice(
    plan: MemoryPlan, peak: PeakFacts, following: PeakFacts | None, ops: Sequence[OpFacts]
) -> Iterator[str]:
    yield from _unused_live_tensors(peak, ops)
    images = [r for r in peak.residents if r.what != "scratch"][:NAMED]
    shapes = {t.name: t.shape for op in ops for t in (*op.reads, *op.makes)}
    if any(len(shapes.get(r.name.split(", ")[0], ())) == 4 for r in images):
        yield (
            f"The largest at the peak: {_list_residents(images)}. Images of half the height and width are a quarter of it, "
            "half the channels there are half of it."
        )
    if following is not None:
        yield (
            f"If the peak went away altogether, the fullest step would be `{following.op_name}` with "
            f"{following.bytes:,} bytes: changes there alone bring no less than that."
        )
    if plan.arena_bytes > peak.bytes:
        yield f"{plan.arena_bytes - peak.bytes:,} bytes of the arena are gaps at the peak, or room that kernels read beyond."


def _list_residents(residents: Sequence[ResidentFacts]) -> str:
    return ", ".join(f"`{r.name}` ({r.bytes:,} bytes)" for r in residents)


def _unused_live_tensors(peak: PeakFacts, ops: Sequence[OpFacts]) -> Iterator[str]:
    """Yields tensors that are live during the peak's op but unused by it."""
    here = [op for op in ops if op.step == peak.step]
    touched = {t.name for op in here for t in (*op.reads, *op.makes)}
    for resident in peak.residents:
        names = set(resident.name.split(", "))
        if resident.what in ("activation", "input") and not names & touched:
            readers = [op for op in ops if op.step > peak.step and names & {t.name for t in op.reads}]
            if readers:
                later = readers[-1].step - peak.step
                yield (
                    f"`{resident.name}` ({resident.bytes:,} bytes) is only kept for `{readers[-1].name}`, "
                    f"{f'{later} steps' if later > 1 else 'one step'} later: a shorter shortcut frees it."
                )


def _advice_from_other_plans(subject: CompiledProgram, plan: MemoryPlan) -> Iterator[str]:
    """Yields advice from plans with other options."""
    graph, isa = subject.graph, subject.target.isa
    same = (subject.payloads.workspaces, subject.npu_calls, subject.byte_price)
    if len(graph.ops) > MOST_OPS or subject.file is not None:
        return
    if subject.optimize == "speed" and plan.scratch_bytes:
        small = lower(graph, isa, "size", *same).memory.arena_bytes
        if small < plan.arena_bytes:
            yield f"--optimize size needs {small:,} bytes (planned): its kernels take less scratch."
    if any(v.dtype is DType.FLOAT32 for v in (*graph.inputs, *graph.outputs)):
        narrow = lower(int8_io(graph), isa, subject.optimize, *same).memory.arena_bytes
        if narrow < plan.arena_bytes:
            yield f"--io-dtype int8 needs {narrow:,} bytes (planned): inputs and outputs are a quarter as large."
