# SPDX-License-Identifier: Apache-2.0
"""Compares the partitions of a model and its stream."""

from __future__ import annotations

from shlex import quote

from pillion.errors import PillionError
from pillion.ops.movement import Movement
from pillion.partition import Placement


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
