# SPDX-License-Identifier: Apache-2.0
"""Whether operations on tensors wait enough for one another.

Results are made block by block, those of convolutions and of sums over channels in a job for each slice of
their input channels. An operation may start while as many jobs
of the one before are under way as its register BLOCKDEP says, and each of its own jobs lets one more of them end. So with `d`, its job `f`
must read nothing that the last `d - f` blocks of the operation before write: counted so, a block is one job, which is fewer than it may
have. Operations before that one have ended. What an operation writes where the one before still reads is not looked at: the NPU fetches
operands in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, product

import numpy as np

from pillion.devices.ethos_u.stream.errors import wrong
from pillion.devices.ethos_u.stream.memory import part_addresses, span
from pillion.devices.ethos_u.stream.operations import (
    Block,
    Compute,
    Convolve,
    Elementwise,
    FeatureMap,
    Operation,
    Pool,
    PoolKind,
    Product,
    Upscale,
    Wait,
)

Box = tuple[range, range, range]
"""Rows, columns, channels."""
_DEEP = 32
"""The input channels of one byte that a job of a convolution reads."""


def want_blocks_wait(found: Sequence[Operation]) -> None:
    """Raises where an operation may read what the one before has not written yet."""
    before: Compute | None = None
    for op in found:
        if isinstance(op, Wait) and not op.copies and op.most == 0:
            before = None
        if isinstance(op, Compute):
            if before is not None:
                _want_written(before, op)
            before = op


def _want_written(before: Compute, op: Compute) -> None:
    """Raises where a job reads from blocks that are under way. Both operands count, one of them may be what is waited for."""
    for operand, jobs in _operands(op):
        if not op.overlap or not _meet(before.y, operand):
            continue
        blocks = list(islice(_blocks(before.y, before.block, backwards=True), op.overlap))
        for number, box in enumerate(islice(jobs, op.overlap)):
            late = blocks[: op.overlap - number]
            if len(late) < op.overlap - number or any(_share(before.y, one, operand, box) for one in late):
                raise wrong(
                    "an operation reads what the one before may not have written",
                    "BLOCKDEP lets it start when all blocks that it reads are there",
                    f"{op.overlap} blocks under way, words {before.at} and {op.at}",
                )


def _operands(op: Compute) -> Iterator[tuple[FeatureMap, Iterator[Box]]]:
    yield op.x, _jobs(op)
    if isinstance(op, Elementwise) and isinstance(op.second, FeatureMap):
        yield op.second, (_repeated(box, op.second) for box in _blocks(op.y, op.block))


def _repeated(box: Box, operand: FeatureMap) -> Box:
    """The part of an operand that a block is made of."""
    rows, columns, channels = (_within(p, size) for p, size in zip(box, operand.shape, strict=True))
    return rows, columns, channels


def _within(part: range, size: int) -> range:
    """The part of an axis that is repeated if its size is one."""
    return range(1) if size == 1 else part


def _jobs(op: Compute) -> Iterator[Box]:
    """What each job reads of the first operand."""
    for rows, columns, channels in _blocks(op.y, op.block):
        seen = _seen(op, 0, rows), _seen(op, 1, columns)
        if not _mixes_channels(op):
            yield *seen, _within(channels, op.x.shape[2])
        else:
            deep = _DEEP // op.x.dtype.size_bytes
            for start in range(0, op.x.shape[2], deep):
                yield *seen, range(start, min(start + deep, op.x.shape[2]))


def _mixes_channels(op: Compute) -> bool:
    """Whether each result channel is made from all input channels, a slice of them in each job."""
    if isinstance(op, Pool):
        return op.kind is PoolKind.SUM
    return isinstance(op, Convolve) and op.product is Product.CONVOLUTION


def _seen(op: Compute, axis: int, part: range) -> range:
    """The rows or columns that windows reach."""
    size = op.x.shape[axis]
    if not isinstance(op, (Convolve, Pool)):
        return _within(part, size)
    kernel = op.kernel
    taps = (kernel.height, kernel.width)[axis]
    start = part.start * kernel.stride[axis] - kernel.pads[axis]
    end = (part.stop - 1) * kernel.stride[axis] - kernel.pads[axis] + (taps - 1) * kernel.dilation[axis] + 1
    if op.upscale is not Upscale.NONE:
        start, end = start // 2, -(-end // 2)
    return range(max(start, 0), max(min(end, size), 0))


def _blocks(y: FeatureMap, block: Block, *, backwards: bool = False) -> Iterator[Box]:
    """The blocks of a result in their order, channels first, then columns, then rows; or the last one first."""
    sides = (block.height, block.width, block.depth)
    starts = [range(0, size, side) for size, side in zip(y.shape, sides, strict=True)]
    for corner in product(*(axis[::-1] if backwards else axis for axis in starts)):
        rows, columns, channels = (
            range(start, min(start + side, size))
            for start, side, size in zip(corner, sides, y.shape, strict=True)
        )
        yield rows, columns, channels


def _meet(one: FeatureMap, other: FeatureMap) -> bool:
    first, second = span(one), span(other)
    return first.region == second.region and first.start < second.end and second.start < first.end


def _share(one: FeatureMap, box: Box, other: FeatureMap, seen: Box) -> bool:
    """Whether a part of a tensor and a part of another lie in the same bytes."""
    if not all(map(len, box)) or not all(map(len, seen)):
        return False
    first = part_addresses(one, box)
    second = part_addresses(other, seen)
    low, high = int(second.min()) - one.dtype.size_bytes, int(second.max()) + other.dtype.size_bytes
    first = first[(first > low) & (first < high)]
    if not first.size:
        return False
    written = (first[:, None] + np.arange(one.dtype.size_bytes)).ravel()
    read = (second.ravel()[:, None] + np.arange(other.dtype.size_bytes)).ravel()
    return bool(np.isin(written, read).any())
