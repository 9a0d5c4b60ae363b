# SPDX-License-Identifier: Apache-2.0
"""Unrolls loops for an NPU, which cannot loop, if the whole program is then estimated to be faster, or if the
user prefers the NPU and it takes more ops. Results are the same; `explain` reports the rule and both numbers,
and `--keep-on-cpu repeat` keeps loops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pillion.compile_options import PlacementOptions
from pillion.devices.device import Device
from pillion.ir.graph import Graph
from pillion.ir.op import Op
from pillion.ir.verdict import Verdict
from pillion.ops.scan import Scan, op_run_counts, unroll_loops
from pillion.partition.ledger import LoopEntry, ProcessingUnit
from pillion.partition.partition import CoreCycles, Costs, Placement, partition, require_all_on_npu

MOST_COPIES = 1024
"""The most ops of an unrolled loop; each costs flash and compile time."""
RULE = "scan.copies"
Tidy = Callable[[Graph], Graph]
"""Merges the movement ops at the ends of unrolled steps."""


def partition_loops(
    graph: Graph, npu: Device, core: CoreCycles, options: PlacementOptions, costs: Costs, tidy: Tidy
) -> Placement:
    """Partitions a graph like `partition`, with loops unrolled if that is better."""
    is_wanted = options.only_npu or options.prefer_npu
    some = replace(options, only_npu=False, prefer_npu=is_wanted)
    placed = partition(graph, npu, core, some, costs)
    loop_verdicts: dict[Op, Verdict] = {}
    copied: list[LoopEntry] = []
    for loop in [op for op in graph.ops if isinstance(op, Scan)]:
        count = sum(run.times for run in op_run_counts([loop]))
        if options.keeps(loop.name, loop.kind):
            continue
        if count > MOST_COPIES:
            loop_verdicts[loop] = Verdict(
                RULE, False, f"at most {MOST_COPIES:,} ops in all steps", f"{count:,}"
            )
            continue
        written = tidy(unroll_loops(graph, loop))
        tried = partition(written, npu, core, some, costs)
        verdict = _takes_more_ops(tried, placed) if is_wanted else _is_faster(tried, placed)
        if verdict.ok:
            graph, placed = written, tried
            copied.append(LoopEntry(loop.name, loop.count, verdict))
        else:
            loop_verdicts[loop] = verdict
    if options.only_npu:
        require_all_on_npu(placed.ledger)
    entries = tuple(
        replace(entry, deciding=loop_verdicts[entry.op], verdicts=(loop_verdicts[entry.op], *entry.verdicts))
        if entry.op in loop_verdicts
        else entry
        for entry in placed.ledger
    )
    return replace(placed, ledger=replace(placed.ledger, entries=entries, copied=tuple(copied)))


def _is_faster(tried: Placement, placed: Placement) -> Verdict:
    requirement = f"less than {placed.cycles:,} cycles (the program, its loop on the core)"
    return Verdict(
        RULE, tried.cycles < placed.cycles, requirement, f"{tried.cycles:,} with copies of its steps"
    )


def _takes_more_ops(tried: Placement, placed: Placement) -> Verdict:
    """Returns the verdict on whether the NPU takes more ops of the unrolled loop."""
    now, then = (
        sum(entry.unit is ProcessingUnit.NPU for entry in placement.ledger) for placement in (placed, tried)
    )
    return Verdict(RULE, then > now, "copies of its steps of which the NPU takes ops", f"{then - now:,} ops")
