# SPDX-License-Identifier: Apache-2.0
"""Refuses placements that the user cannot have meant."""

from __future__ import annotations

import difflib
from shlex import quote

from pillion.compile_options import PlacementOptions
from pillion.errors import PillionError
from pillion.ir.graph import Graph
from pillion.ops.movement import Movement
from pillion.partition import Placement


def refuse_unmatched_patterns(graph: Graph, placement: PlacementOptions) -> None:
    """Raises if a pattern matches no op: it is misspelt, or meant for another model."""
    patterns = placement.keep_on_cpu
    idle = [
        p for p in patterns if not any(PlacementOptions((p,)).keeps(op.name, op.kind) for op in graph.ops)
    ]
    if idle:
        known = list(dict.fromkeys(word for op in graph.ops for word in (op.kind, op.name)))
        close = difflib.get_close_matches(idle[0], known, n=1)
        raise PillionError(
            f"--keep-on-cpu {idle[0]} matches no op of `{graph.name}`",
            rule="each pattern matches the name or the kind of an op",
            here=f"{', '.join(idle)}; kinds: {', '.join(sorted({op.kind for op in graph.ops}))}",
            help=f"--keep-on-cpu {quote(close[0])}" if close else "`pillion explain` lists names and kinds",
        )


def require_same_units(name: str, whole: Placement, hop: Placement) -> None:
    """Raises if an op of a stream would run on another unit than for the whole window: NPU and core round
    differently."""
    units = {entry.op.name: entry.unit for entry in whole.ledger}
    moved = [
        entry
        for entry in hop.ledger
        if not isinstance(entry.op, Movement) and units.get(entry.op.name, entry.unit) is not entry.unit
    ]
    if moved:
        listed = (f"{e.op.kind} `{e.op.name}`: {units[e.op.name].value}, then {e.unit.value}" for e in moved)
        raise PillionError(
            f"`{name}` would round otherwise as a stream",
            rule="each op runs on the unit that runs it for the whole window",
            here="\n".join(listed),
            help=" ".join(f"--keep-on-cpu {quote(entry.op.name)}" for entry in moved),
        )
