# SPDX-License-Identifier: Apache-2.0
"""Partitions a graph between NPU and core: judges every op, cuts segments, and records the reasons."""

from __future__ import annotations

from pillion.partition.ledger import Ledger, LedgerEntry, ProcessingUnit
from pillion.partition.loop_copies import partition_loops
from pillion.partition.partition import Placement, all_on_cpu, partition
from pillion.partition.restore import inline_segments, restore_original_ops

__all__ = [
    "Ledger",
    "LedgerEntry",
    "Placement",
    "ProcessingUnit",
    "all_on_cpu",
    "inline_segments",
    "partition",
    "partition_loops",
    "restore_original_ops",
]
