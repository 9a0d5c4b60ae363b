# SPDX-License-Identifier: Apache-2.0
"""Loops on chips with an NPU, which knows none: a loop runs on the core, or its steps are written out as copies, which the NPU may take.

Copies are made where the whole program is estimated to be faster so, or where the user prefers the NPU and it takes more ops so. What
is computed is the same; `explain` says the rule and both numbers, and `--keep-on-cpu repeat` keeps loops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pillion.devices.cortex_m import Isa
from pillion.devices.device import Device
from pillion.ir.graph import Graph
from pillion.ir.op import Op
from pillion.ir.verdict import Verdict
from pillion.ops.repeat import Repeat, runs, unrolled
from pillion.place.ledger import Loop, Unit
from pillion.place.place import Costs, Placement, PlacementOptions, place, want_all

MOST_COPIES = 1024
"""Ops of all steps of a loop that are tried as copies: commands for each of them take flash, and time to compile."""
RULE = "repeat.copies"
Tidy = Callable[[Graph], Graph]
"""Merges the movement that copies of steps begin and end with."""


def place_loops(
    graph: Graph,
    npu: Device,
    isa: Isa,
    options: PlacementOptions,
    costs: Costs,
    tidy: Tidy,
) -> Placement:
    """Places a graph as `place` does, with loops as copies of their steps where that is better."""
    is_wanted = options.only_npu or options.prefer_npu
    some = replace(options, only_npu=False, prefer_npu=is_wanted)
    placed = place(graph, npu, isa, some, costs)
    kept: dict[Op, Verdict] = {}
    copied: list[Loop] = []
    for loop in [op for op in graph.ops if isinstance(op, Repeat)]:
        count = sum(one.times for one in runs([loop]))
        if options.keeps(loop):
            continue
        if count > MOST_COPIES:
            kept[loop] = Verdict(RULE, False, f"at most {MOST_COPIES:,} ops in all steps", f"{count:,}")
            continue
        written = tidy(unrolled(graph, loop))
        tried = place(written, npu, isa, some, costs)
        verdict = _gains(tried, placed) if is_wanted else _is_faster(tried, placed)
        if verdict.ok:
            graph, placed = written, tried
            copied.append(Loop(loop.name, loop.count, verdict))
        else:
            kept[loop] = verdict
    if options.only_npu:
        want_all(placed.ledger)
    entries = tuple(
        replace(entry, deciding=kept[entry.op], verdicts=(kept[entry.op], *entry.verdicts))
        if entry.op in kept
        else entry
        for entry in placed.ledger
    )
    return replace(placed, ledger=replace(placed.ledger, entries=entries, copied=tuple(copied)))


def _is_faster(tried: Placement, placed: Placement) -> Verdict:
    wanted = f"less than {placed.cycles:,} cycles (the program, its loop on the core)"
    return Verdict(RULE, tried.cycles < placed.cycles, wanted, f"{tried.cycles:,} with copies of its steps")


def _gains(tried: Placement, placed: Placement) -> Verdict:
    """Whether the NPU takes more ops with copies."""
    now, then = (sum(entry.unit is Unit.NPU for entry in one.ledger) for one in (placed, tried))
    return Verdict(RULE, then > now, "copies of its steps of which the NPU takes ops", f"{then - now:,} ops")
