# SPDX-License-Identifier: Apache-2.0
"""Estimated bytes that each buffer, and the constants of each op, move per run: the basis of choosing memories.

With a cache, an op moves each byte of its operands and results once. Without, windows read their operand once per tap,
and weights and scratch are read again for every few positions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pillion.ir.graph import Graph
from pillion.ir.op import Op
from pillion.ir.types import Value
from pillion.memory.live_blocks import LiveBlock
from pillion.memory.memory_units import Touched
from pillion.memory.op_memory import Needs, RegionMemory
from pillion.ops import Reshape, Scan, op_run_counts
from pillion.ops.conv import Convolution
from pillion.ops.pool import Pool

POSITIONS = 4
"""The positions that kernels compute in one pass over the weights."""


def passes(op: Op) -> float:
    """Returns how often a kernel reads weights and scratch without a cache."""
    most = max((v.type.elements for v in op.operands if v.is_constant), default=0)
    return max(op.macs / (most * POSITIONS), 1.0) if most else 1.0


def _taps(op: Op) -> float:
    """Returns how many windows an element of the operand lies in."""
    if not isinstance(op, (Convolution, Pool)):
        return 1.0
    return max(math.prod(op.kernel) / math.prod(op.stride), 1.0)


def touched_constants(run: OpRuns, size: int) -> Touched:
    """Returns the bytes of an op's constants, of some size, that it reads: with a cache once in each of its runs."""
    often = run.times * max(passes(run.op), run.tiles)
    return Touched(read=size * run.times * run.tiles, read_often=size * often)


def touched_bytes(
    graph: Graph, needs: Needs, blocks: Mapping[Value, LiveBlock], scratch: Mapping[Op, LiveBlock]
) -> dict[LiveBlock, Touched]:
    """Returns the bytes that a run moves to and from each block."""
    found: dict[LiveBlock, Touched] = {}
    for run in runs_of_ops(graph, needs, blocks):
        op, times, block_of = run.op, run.times, run.blocks
        if isinstance(op, (Reshape, Scan)):
            continue
        for value in op.activations:
            size = value.type.size_bytes * times
            if value in block_of:
                _add(found, block_of[value], Touched(read=size, read_often=size * _taps(op)))
        for value in op.results:
            size = value.type.size_bytes * times
            if value in block_of:
                _add(found, block_of[value], Touched(written=size, written_often=size))
        if op in scratch:
            size = scratch[op].size * times
            once, often = size * run.tiles, size * max(passes(op), run.tiles)
            _add(found, scratch[op], Touched(once, once, often, often))
    return found


def _add(found: dict[LiveBlock, Touched], block: LiveBlock, more: Touched) -> None:
    found[block] = found.get(block, Touched()) + more


@dataclass(frozen=True)
class OpRuns:
    """An op, the runs of the loop around it, the tiles of each, and the blocks of its values."""

    op: Op
    times: int
    tiles: int
    blocks: Mapping[Value, LiveBlock]


def runs_of_ops(graph: Graph, needs: Needs, blocks: Mapping[Value, LiveBlock]) -> Iterator[OpRuns]:
    """Yields each op that runs. The ops of a region share buffers, and run once for each tile."""
    for run in op_run_counts(graph.ops):
        need = needs.get(run.op)
        if isinstance(need, RegionMemory):
            storage = need.schedule.storage
            own = {value: blocks[home] for value, home in storage.items() if home in blocks}
            for number, op in enumerate(need.schedule.body.ops):
                yield OpRuns(op, run.times, max(len(need.schedule.run_events(number)), 1), own)
        else:
            yield OpRuns(run.op, run.times, 1, blocks)
