# SPDX-License-Identifier: Apache-2.0
"""Cuts a graph into segments for the NPU and ops for the CPU.

An op may run on the NPU if all its rules hold. Connected allowed ops form a segment, cut so that no path leaves and re-enters it. A
segment is kept if it is estimated to be faster than on the CPU, including dispatch and boundary traffic, and if it contains work:
converters fail on segments that only move data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from pillion.compile_options import DEFAULT_OPTIONS, PlacementOptions
from pillion.devices.device import Device
from pillion.devices.payloads import ConverterError, SegmentCost
from pillion.errors import PillionError
from pillion.ir.graph import Graph
from pillion.ir.op import Op
from pillion.ir.topological_order import topological_order
from pillion.ir.types import Value
from pillion.ir.verdict import Verdict, all_ok, failed_rules
from pillion.ops import Dequantize, Quantize, Segment, op_run_counts
from pillion.ops.guards import branch_guards
from pillion.ops.movement import Movement
from pillion.ops.scan import OpRunCount
from pillion.partition.ledger import NO_NPU, PREFERRED, Ledger, LedgerEntry, ProcessingUnit
from pillion.partition.what_if import smallest_change

CPU_BYTES_PER_CYCLE = 4
"""The estimated bandwidth of the CPU for copies at a segment's boundary."""

BEGIN_CYCLES = 150
"""The NPU's cycles for an op of few elements without a better estimate: Vela 5.2's for sums and products of
32 elements on an Ethos-U55."""


@dataclass(frozen=True)
class Placement:
    """The graph with its segments, and the ledger."""

    graph: Graph
    ledger: Ledger

    @property
    def cycles(self) -> int:
        """The estimated cycles of the program; 0 for chips without an NPU."""
        return round(sum(entry.cycles for entry in self.ledger))

    def with_core_ops(self, graph: Graph, core: CoreCycles) -> Placement:
        """Returns the placement with another graph of the same segments. A new op has the reason of the op that computed its
        result, or else of the op of its kind that reads its operand."""
        if graph is self.graph:
            return self
        by_op = {entry.op: entry for entry in self.ledger}
        reasons: dict[object, LedgerEntry] = {
            (entry.op.kind, x): entry for entry in self.ledger for x in entry.op.activations
        }
        reasons |= {y: entry for entry in self.ledger for y in entry.op.results}

        def entry_of(run: OpRunCount) -> LedgerEntry:
            op = run.op
            if op in by_op:
                return by_op[op]
            before = reasons.get(op.results[0]) or reasons[op.kind, op.activations[0]]
            on_core = run.times * core(op)
            cycles = before.cycles + on_core - before.cpu_cycles
            return replace(before, op=op, npu_cycles=0, cpu_cycles=on_core, cycles=cycles)

        flat = (op for one in graph.ops for op in (one.body.ops if isinstance(one, Segment) else (one,)))
        entries = tuple(map(entry_of, op_run_counts(flat)))
        return Placement(graph, replace(self.ledger, entries=entries))


CoreCycles = Callable[[Op], int]
"""Returns the estimated cycles of an op on the core."""
Costs = Callable[[Graph], SegmentCost | None]
"""Returns a converter's estimate for a segment's graph; raises if it cannot be converted. Without one it returns
None, and the estimates of ops are summed."""


def partition(
    graph: Graph,
    npu: Device,
    core: CoreCycles,
    options: PlacementOptions = DEFAULT_OPTIONS.placement,
    costs: Costs = lambda body: None,
) -> Placement:
    """Cuts a graph into segments for the NPU and ops for the CPU. `costs` estimates a segment on the NPU."""
    judged = {op: _npu_verdicts(op, npu, options) for op in graph.ops}
    refused = {op for op, verdicts in judged.items() if not all_ok(verdicts)}
    while True:
        segments = _group_into_segments(graph, refused)
        if failed := _conversion_failures(graph, segments, npu, costs):
            refused.update(failed)
            judged.update((op, (*judged[op], verdict)) for op, verdict in failed.items())
            continue
        verdicts = [_segment_benefit(graph, segment, npu, core, options, costs) for segment in segments]
        losing = [s for s, v in zip(segments, verdicts, strict=True) if not v.ok]
        if not losing:
            break
        for segment, verdict in zip(segments, verdicts, strict=True):
            if not verdict.ok:
                refused.update(segment)
                judged.update((op, (*judged[op], verdict)) for op in segment)
    for segment, verdict in zip(segments, verdicts, strict=True):
        judged.update((op, (*judged[op], verdict)) for op in segment)
    cut = _replace_by_segments(graph, segments, npu)
    cycles: dict[Op, float] = {
        run.op: run.times * _core_cycles([run.op], npu, core) for run in op_run_counts(graph.ops)
    }
    for segment in segments:
        cycles |= _shares(segment, npu, _segment_cycles(graph, segment, npu, core, costs))
    ledger = _make_ledger(
        graph, [list(op.body.ops) for op in cut.ops if isinstance(op, Segment)], judged, npu, core, cycles
    )
    if options.only_npu:
        require_all_on_npu(ledger)
    return Placement(cut, ledger)


def _shares(segment: list[Op], npu: Device, cost: _SegmentCycles) -> dict[Op, float]:
    """Returns the cycles of the ops of a segment on the NPU, in proportion to their estimates."""
    # Estimates of single ops omit the start of each op.
    begin = 0 if cost.by else BEGIN_CYCLES * sum(not npu.removes(op) for op in segment)
    estimates = {op: npu.estimate(op) + 1 for op in segment}  # moves alone are estimated as 0
    scale = (cost.on_npu + begin) / sum(estimates.values())
    return {op: scale * estimate for op, estimate in estimates.items()}


def all_on_cpu(graph: Graph, core: CoreCycles, flip: str) -> Ledger:
    """Returns the ledger of a program for a chip without an NPU; `flip` names a chip with one."""
    why = Verdict(NO_NPU, False, "a chip with an NPU", "none")
    return Ledger(tuple(_entry_on_cpu(run, core, why, flip) for run in op_run_counts(graph.ops)))


def _entry_on_cpu(run: OpRunCount, core: CoreCycles, why: Verdict, flip: str = "") -> LedgerEntry:
    """Returns the entry of an op that runs on the core for one reason."""
    cycles = run.times * core(run.op)
    return LedgerEntry(run.op, ProcessingUnit.CPU, None, why, (why,), flip, 0, 0, cycles)


def _npu_verdicts(op: Op, npu: Device, options: PlacementOptions) -> tuple[Verdict, ...]:
    pattern = options.keeps(op.name, op.kind)
    user_verdicts = (
        ()
        if pattern is None
        else (Verdict("user.keep_on_cpu", False, "an op that no --keep-on-cpu names", pattern),)
    )
    return (*user_verdicts, *npu.judge(op))


def _group_into_segments(graph: Graph, refused: set[Op]) -> list[list[Op]]:
    """Returns connected sets of allowed ops at one level and with the same guards; the level changes where a path
    enters or leaves the CPU."""
    guards = branch_guards(graph)
    level: dict[Op, int] = {}
    for op in graph.ops:
        flags = (guard.flag for guard in guards.get(op, ()))
        before = [graph.producers[v] for v in (*op.activations, *flags) if v in graph.producers]
        on_npu = op not in refused
        level[op] = max((level[b] + ((b not in refused) != on_npu) for b in before), default=0)
    members: dict[Op, list[Op]] = {}
    stages = {op: (level[op], guards.get(op)) for op in graph.ops}
    first = _connected_sets([op for op in graph.ops if op not in refused], stages)
    for op, representative in first.items():
        members.setdefault(representative, []).append(op)
    return list(members.values())


def _connected_sets(ops: Sequence[Op], stages: Mapping[Op, object]) -> dict[Op, Op]:
    """Returns the representative of each op's connected set: ops of a stage that share an operand or pass a
    result."""
    stands_for: dict[Op, Op] = {}
    touched: dict[tuple[Value, object], Op] = {}
    for op in ops:
        stands_for[op] = op
        for value in op.activations:
            first = touched.setdefault((value, stages[op]), op)
            stands_for[_set_representative(stands_for, first)] = _set_representative(stands_for, op)
        touched.update(((value, stages[op]), op) for value in op.results)
    return {op: _set_representative(stands_for, op) for op in ops}


def _set_representative(stands_for: dict[Op, Op], op: Op) -> Op:
    """Returns the representative of an op's set, with path halving."""
    while stands_for[op] is not op:
        stands_for[op] = op = stands_for[stands_for[op]]
    return op


def _conversion_failures(
    graph: Graph, segments: Sequence[list[Op]], npu: Device, costs: Costs
) -> dict[Op, Verdict]:
    """Returns the ops that the NPU's converter fails on, with its reason; a whole segment if none of its ops
    fails alone."""
    failed: dict[Op, Verdict] = {}
    for segment in segments:
        computing = [op for op in segment if not npu.removes(op)]
        failure = _conversion_failure(graph, segment, npu, costs) if computing else None
        if failure is not None:
            alone = {
                op: why
                for op in computing
                if (why := _conversion_failure(graph, [op], npu, costs)) is not None
            }
            failed |= alone or dict.fromkeys(segment, failure)
    return failed


def _conversion_failure(graph: Graph, segment: list[Op], npu: Device, costs: Costs) -> Verdict | None:
    """Returns the reason why a segment cannot be converted, or None."""
    try:
        costs(_segment_op(graph, segment, npu).body)
    except ConverterError:
        raise
    except PillionError as error:
        first_lines = "; ".join(error.here.splitlines()[:2])
        return Verdict("segment.converter", False, error.rule, f"{error.what}: {first_lines}")
    return None


def _segment_benefit(
    graph: Graph, segment: list[Op], npu: Device, core: CoreCycles, options: PlacementOptions, costs: Costs
) -> Verdict:
    """Returns the verdict on a segment: it contains work, and is estimated to be faster on the NPU if that
    matters."""
    if all(npu.removes(op) for op in segment):
        return Verdict(
            "segment.work", False, "an op that computes", ", ".join(sorted({op.kind for op in segment}))
        )
    if options.only_npu or options.prefer_npu:
        option = "--only-npu" if options.only_npu else "--prefer-npu"
        return Verdict(PREFERRED, True, "what the rules allow, whatever it costs", option)
    cycles = _segment_cycles(graph, segment, npu, core, costs)
    flash = "" if npu.flash_bytes_per_cycle is None else ", constants from the same flash"
    return Verdict(
        "segment.cost",
        cycles.on_npu < cycles.on_core,
        f"less than {cycles.on_core:,} cycles (estimated on the CPU{flash})",
        f"{cycles.on_npu:,} ({f'estimated by {cycles.by}' if cycles.by else 'estimated'})",
    )


@dataclass(frozen=True)
class _SegmentCycles:
    """The cycles of a segment on either unit, and the source of the NPU's."""

    on_npu: int
    on_core: int
    by: str


def _segment_cycles(
    graph: Graph, segment: list[Op], npu: Device, core: CoreCycles, costs: Costs
) -> _SegmentCycles:
    known = costs(_segment_op(graph, segment, npu).body)
    work = known.cycles if known else sum(npu.estimate(op) for op in segment)
    on_npu = npu.dispatch_cycles + work + _copied_bytes(graph, segment, npu) // CPU_BYTES_PER_CYCLE
    return _SegmentCycles(on_npu, _core_cycles(segment, npu, core), known.by if known else "")


def _copied_bytes(graph: Graph, segment: list[Op], npu: Device) -> int:
    """Returns the bytes that are copied into and out of the NPU's workspace: of operands that are still needed after
    the segment, and of states, which have memory of their own. All others are placed there."""
    if not npu.has_workspace:
        return 0
    members, last = set(segment), graph.ops.index(segment[-1])
    later = {v for op in graph.ops[last:] if op not in members for v in op.activations}
    states = {v for state in graph.states for v in (state.before, state.after)}
    inputs, outputs = _segment_inputs(graph, segment), _segment_outputs(graph, segment)
    copied = [v for v in inputs if v in later or v in states or graph.is_output(v)]
    return sum(v.type.size_bytes for v in (*copied, *(v for v in outputs if v in states)))


def _core_cycles(ops: Sequence[Op], npu: Device, core: CoreCycles) -> int:
    """Returns the cycles of ops on the core; they include reading constants from flash if the NPU's estimates do."""
    cycles = sum(map(core, ops))
    if npu.flash_bytes_per_cycle is None:
        return cycles
    constants = {v: None for op in ops for v in op.operands if v.is_constant}
    return cycles + int(sum(v.type.size_bytes for v in constants) / npu.flash_bytes_per_cycle)


def _segment_inputs(graph: Graph, segment: list[Op]) -> list[Value]:
    results = {r for op in segment for r in op.results}
    return list(dict.fromkeys(v for op in segment for v in op.activations if v not in results))


def _segment_outputs(graph: Graph, segment: list[Op]) -> list[Value]:
    members = set(segment)
    return [
        r
        for op in segment
        for r in op.results
        if graph.is_output(r) or any(user not in members for user in graph.users.get(r, []))
    ]


def _make_ledger(
    graph: Graph,
    segments: list[list[Op]],
    judged: dict[Op, tuple[Verdict, ...]],
    npu: Device,
    core: CoreCycles,
    cycles: Mapping[Op, float],
) -> Ledger:
    number = {op: i for i, segment in enumerate(segments) for op in segment}
    crossing = Counter[Op]()
    for segment in segments:
        crossing.update(_crossing_bytes(graph, segment))
    entries = []
    for run in op_run_counts(graph.ops):
        op = run.op
        if op not in judged:
            inside = f"one that runs {run.times:,} times, in a loop"
            why = Verdict("scan.step", False, "an op that runs once", inside)
            entries.append(replace(_entry_on_cpu(run, core, why), cycles=cycles[op]))
            continue
        verdicts = judged[op]
        entries.append(
            LedgerEntry(
                op=op,
                unit=ProcessingUnit.NPU if op in number else ProcessingUnit.CPU,
                segment=number.get(op),
                deciding=(failed_rules(verdicts) or list(verdicts[-1:]))[0],
                verdicts=verdicts,
                flip="" if op in number else smallest_change(op, npu, verdicts),
                crossing_bytes=crossing[op],
                npu_cycles=npu.estimate(op) if all_ok(npu.judge(op)) else 0,
                cpu_cycles=core(op),
                cycles=cycles[op],
            )
        )
    return Ledger(tuple(entries))


def _crossing_bytes(graph: Graph, segment: list[Op]) -> Counter[Op]:
    """Returns for each op the bytes that enter the segment with it (the first reader counts) or leave it."""
    reader = {v: op for op in reversed(segment) for v in op.activations}
    maker = {v: op for op in segment for v in op.results}
    crossing: Counter[Op] = Counter()
    for value in _segment_inputs(graph, segment):
        crossing[reader[value]] += value.type.size_bytes
    for value in _segment_outputs(graph, segment):
        crossing[maker[value]] += value.type.size_bytes
    return crossing


def require_all_on_npu(ledger: Ledger) -> None:
    """Raises if the core runs an op that computes."""
    left = [
        e
        for e in ledger
        if e.unit is ProcessingUnit.CPU and not isinstance(e.op, (Quantize, Dequantize, Movement))
    ]
    if left:
        raise PillionError(
            f"{len(left)} of {len(ledger.entries)} ops cannot run on the NPU",
            rule="--only-npu: every op that computes runs on the NPU; the core may move bytes, and convert at the model's borders",
            here="\n".join(
                f"{e.op.kind} {e.op.name}{f' ({e.op.source})' if e.op.source else ''}: {e.deciding}"
                for e in left
            ),
            help="leave --only-npu out: the Cortex-M runs these ops",
        )


def _replace_by_segments(graph: Graph, segments: list[list[Op]], npu: Device) -> Graph:
    """Returns the graph with a segment op for each segment, in a valid order."""
    segment_ops = {op: _segment_op(graph, segment, npu) for segment in segments for op in segment[-1:]}
    members = {op for segment in segments for op in segment}
    waiting = [segment_ops.get(op, op) for op in graph.ops if op not in members or op in segment_ops]
    return graph.replace(ops=tuple(topological_order(waiting, graph.sources)))


def _segment_op(graph: Graph, segment: list[Op], npu: Device) -> Segment:
    inputs, outputs = _segment_inputs(graph, segment), _segment_outputs(graph, segment)
    body = Graph(
        f"{graph.name}_{segment[0].name}", tuple(inputs), tuple(segment), tuple(outputs), npu.arithmetic
    )
    return Segment(xs=tuple(inputs), ys=tuple(outputs), body=body, device=npu.name, source=segment[0].source)
