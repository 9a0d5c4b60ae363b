# SPDX-License-Identifier: Apache-2.0
"""Who runs what: judge every op, cut segments for the NPU, keep the record of why."""

from __future__ import annotations

from pillion.place.inline import inline_segments
from pillion.place.ledger import Entry, Ledger, Unit
from pillion.place.loops import place_loops
from pillion.place.place import Placement, PlacementOptions, all_on_cpu, place

__all__ = [
    "Entry",
    "Ledger",
    "Placement",
    "PlacementOptions",
    "Unit",
    "all_on_cpu",
    "inline_segments",
    "place",
    "place_loops",
]
