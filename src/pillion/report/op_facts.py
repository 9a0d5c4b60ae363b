# SPDX-License-Identifier: Apache-2.0
"""Ops, tensors and NPU segments in execution order."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pillion.compiled_program import CompiledProgram
from pillion.emitters.c.kernel_choice import KernelChoice
from pillion.emitters.c.kernel_costs import core_cycles
from pillion.ir.graph import Graph
from pillion.ir.op import Op
from pillion.ir.types import PerChannel, PerTensor, Value
from pillion.ir.verdict import Verdict
from pillion.ops import Scan, Segment, flatten_ops
from pillion.partition import LedgerEntry, ProcessingUnit
from pillion.report.report_facts import EdgeFacts, KernelFacts, OpFacts, RuleFacts, SegmentFacts, TensorFacts
from pillion.targets import NPUS

LONGEST_ATTRIBUTE = 120
OUTSIDE = -1
"""The op number of the caller, which provides inputs and takes outputs."""


@dataclass(frozen=True)
class PlacedOp:
    """An op with its step and segment."""

    op: Op
    step: int
    segment: int | None
    device: str


def expand_segments(subject: CompiledProgram) -> list[PlacedOp]:
    """Returns all ops in execution order, with segments expanded."""
    found: list[PlacedOp] = []
    numbers = itertools.count()
    for step, op in enumerate(flatten_ops(subject.graph.ops)):
        if isinstance(op, Segment):
            number = next(numbers)
            found += [PlacedOp(inner, step, number, op.device) for inner in op.body.ops]
        else:
            found.append(PlacedOp(op, step, None, ""))
    return found


def tensor_facts(value: Value) -> TensorFacts:
    """Describes a tensor."""
    match value.type.quant:
        case PerTensor(scale, zero_point):
            words = f"scale {scale:.6g}, zero point {zero_point}"
        case PerChannel(scales, axis):
            words = f"{len(scales)} scales on axis {axis}: {min(scales):.4g} to {max(scales):.4g}"
        case _:
            words = ""
    return TensorFacts(value.name, value.dtype.value, value.shape, value.type.size_bytes, words)


def op_facts(subject: CompiledProgram, instructions: Sequence[int] | None) -> tuple[OpFacts, ...]:
    """Returns all ops. `instructions` are the counts per step, if measured."""
    entries = {entry.op: entry for entry in subject.ledger}
    choices = {step.choice.op: step.choice for step in subject.lowered.steps}
    rows = []
    for number, placed in enumerate(expand_segments(subject)):
        entry = entries.get(placed.op) or _entry_of_read_program(placed, subject)
        counted = None if placed.segment is not None or instructions is None else instructions[placed.step]
        rows.append(_facts_of_op(number, placed, entry, choices.get(placed.op), counted))
    return tuple(rows)


def _entry_of_read_program(placed: PlacedOp, subject: CompiledProgram) -> LedgerEntry:
    """Returns the ledger entry of an op in a program read from a file, which records the unit but no reason."""
    op = placed.op
    npu = NPUS.get(placed.device)
    on_npu = placed.segment is not None
    verdict = Verdict("file.placement", on_npu, "what the file says", placed.device or "a kernel of the core")
    verdicts = (*npu.judge(op), verdict) if npu else (verdict,)
    cycles = npu.estimate(op) if npu else 0
    unit = ProcessingUnit.NPU if on_npu else ProcessingUnit.CPU
    on_core = core_cycles(subject.target.core, subject.graph.arithmetic)(op)
    return LedgerEntry(op, unit, placed.segment, verdict, verdicts, "", 0, cycles, on_core)


def _facts_of_op(
    number: int, placed: PlacedOp, entry: LedgerEntry, choice: KernelChoice | None, instructions: int | None
) -> OpFacts:
    op, on_npu = placed.op, placed.segment is not None
    constants = tuple(v for v in op.operands if v.is_constant)
    return OpFacts(
        number=number,
        step=placed.step,
        name=op.name,
        kind=op.kind,
        source=op.source,
        module=op.module,
        unit=entry.unit.value,
        segment=placed.segment,
        because=_placement_reason(entry),
        decided_by=_rule_facts(entry.deciding),
        rules=tuple(map(_rule_facts, entry.verdicts)),
        flip=entry.flip,
        kernel=_kernel_facts(op, choice, placed.device),
        attributes={name: _value_in_words(value) for name, value in op.attributes.items()},
        reads=tuple(map(tensor_facts, op.activations)),
        constants=tuple(map(tensor_facts, constants)),
        makes=tuple(map(tensor_facts, op.results)),
        macs=op.macs,
        bytes_read=sum(v.type.size_bytes for v in op.activations),
        bytes_written=sum(v.type.size_bytes for v in op.results),
        constant_bytes=sum(v.type.size_bytes for v in dict.fromkeys(constants)),
        crossing_bytes=entry.crossing_bytes,
        estimated_cycles=entry.npu_cycles if on_npu else entry.cpu_cycles,
        instructions=instructions,
    )


def _placement_reason(entry: LedgerEntry) -> str:
    if entry.deciding.rule == "file.placement":
        return f"the file says so: {entry.deciding.got}"
    return entry.because


def _kernel_facts(op: Op, choice: KernelChoice | None, device: str) -> KernelFacts:
    if choice is None:
        return KernelFacts(device, "the NPU's own", (), 0)
    passed = tuple(f"{name}: {verdict}" for name, verdict in choice.passed_over)
    return KernelFacts(choice.kernel.name, choice.short_reason, passed, choice.kernel.scratch_bytes(op))


def _rule_facts(verdict: Verdict) -> RuleFacts:
    return RuleFacts(verdict.rule, verdict.ok, verdict.wanted, verdict.got)


def _value_in_words(value: object) -> str:
    if isinstance(value, Graph):
        return f"{len(value.ops)} ops"
    words = str(getattr(value, "value", value))
    return words if len(words) <= LONGEST_ATTRIBUTE else f"{words[:LONGEST_ATTRIBUTE]}…"


def tensor_edges(subject: CompiledProgram) -> tuple[EdgeFacts, ...]:
    """Returns every tensor's edges, from its producer to its readers."""
    rows = expand_segments(subject)
    outer = _outer_names(subject)
    maker = {v: n for n, placed in enumerate(rows) for v in placed.op.results}
    by_outer = {outer[v]: n for v, n in maker.items() if v in outer}
    facts = []
    for number, placed in enumerate(rows):
        for value in dict.fromkeys(placed.op.activations):
            seen = outer.get(value, value)
            if seen.is_constant:  # a loop's carried value may begin with a constant
                continue
            made_by = maker.get(value, maker.get(seen, by_outer.get(seen, OUTSIDE)))
            facts.append(_facts_of_edge(rows, made_by, number, seen if made_by == OUTSIDE else value))
    graph = subject.graph
    for value in (*graph.outputs, *(state.after for state in graph.states)):
        if not value.is_constant:
            facts.append(_facts_of_edge(rows, maker.get(value, by_outer.get(value, OUTSIDE)), OUTSIDE, value))
    return tuple(facts)


def _outer_names(subject: CompiledProgram) -> Mapping[Value, Value]:
    """Maps values inside segments to the values outside that they correspond to."""
    segments = [op for op in subject.graph.ops if isinstance(op, Segment)]
    loops = [op for op in flatten_ops(subject.graph.ops) if isinstance(op, Scan)]
    pairs = [(s.body.inputs, s.xs) for s in segments] + [(s.body.outputs, s.ys) for s in segments]
    pairs += [(op.body.inputs, (*op.sequences, *op.initial, *op.invariants)) for op in loops]
    return {inner: outer for inners, outers in pairs for inner, outer in zip(inners, outers, strict=True)}


def _facts_of_edge(rows: Sequence[PlacedOp], maker: int, reader: int, value: Value) -> EdgeFacts:
    sides = [rows[n].segment if n != OUTSIDE else None for n in (maker, reader)]
    return EdgeFacts(maker, reader, value.name, value.type.size_bytes, sides[0] != sides[1])


def segments(subject: CompiledProgram, ops: Sequence[OpFacts]) -> tuple[SegmentFacts, ...]:
    """Returns the NPU's segments with the tensors that cross their boundaries."""
    facts = []
    for number, op in enumerate(o for o in subject.graph.ops if isinstance(o, Segment)):
        rows = [row for row in ops if row.segment == number]
        cost = rows[0].decided_by
        facts.append(
            SegmentFacts(
                number=number,
                device=op.device,
                ops=len(rows),
                macs=op.macs,
                enters=tuple(map(tensor_facts, op.xs)),
                leaves=tuple(map(tensor_facts, op.ys)),
                bytes_in=sum(v.type.size_bytes for v in op.xs),
                bytes_out=sum(v.type.size_bytes for v in op.ys),
                weight_bytes=sum(v.type.size_bytes for v in op.body.constants),
                cost=f"{cost.got}, wanted {cost.wanted}",
            )
        )
    return tuple(facts)


def with_boundary_bytes(ops: Sequence[OpFacts], found: Sequence[EdgeFacts]) -> tuple[OpFacts, ...]:
    """Returns the ops of a program read from a file with their boundary bytes, counting each tensor once."""
    crossing: dict[int, int] = {}
    for name in dict.fromkeys(edge.tensor for edge in found if edge.is_border):
        edge = next(e for e in found if e.tensor == name and e.is_border)
        npu_ops = [n for n in (edge.maker, edge.reader) if n != OUTSIDE and ops[n].segment is not None]
        if npu_ops:
            crossing[npu_ops[0]] = crossing.get(npu_ops[0], 0) + edge.bytes
    return tuple(replace(op, crossing_bytes=crossing.get(op.number, 0)) for op in ops)
