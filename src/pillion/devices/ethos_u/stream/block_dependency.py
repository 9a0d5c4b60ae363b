# SPDX-License-Identifier: Apache-2.0
"""Checks that an operation on tensors does not read results before the previous operation has written them.

Results are computed block by block; those of convolutions and channel sums take one job per block and slice of input channels.
Register BLOCKDEP is the number `d` of jobs of the previous operation that may be in progress when an operation starts, and each of
its own jobs waits for one more of them. So its job `f` must not read the last `d - f` blocks of the previous operation. This counts a
block as one job, which is conservative. Earlier operations have ended. Writing what the previous operation still reads is not checked,
because the NPU fetches operands in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, product, repeat
from typing import TypeGuard

import numpy as np

from pillion.devices.ethos_u.stream import operations as npu
from pillion.devices.ethos_u.stream.memory import part_addresses, tensor_byte_range
from pillion.devices.ethos_u.stream.stream_errors import require_valid

Box = tuple[range, range, range]
"""Rows, columns, channels."""


def require_blocks_wait(found: Sequence[npu.Operation]) -> None:
    """Raises if an operation may read results that the previous one has not written yet."""
    before: npu.TensorOperation | None = None
    for op in found:
        if isinstance(op, npu.Wait) and not op.copies and op.most == 0:
            before = None
        if isinstance(op, npu.TensorOperation):
            if before is not None:
                _require_written(before, op)
            if op.y.region > npu.CHAIN:  # the NPU itself orders a chain, block by block
                before = op


def _require_written(before: npu.TensorOperation, op: npu.TensorOperation) -> None:
    """Raises if a job reads from blocks in progress. Both operands are checked."""
    for operand, jobs in _operand_boxes(op):
        if not op.overlap or not tensor_byte_range(before.y).overlaps(tensor_byte_range(operand)):
            continue
        blocks = list(islice(_result_block_boxes(before.y, before.block, backwards=True), op.overlap))
        for number, box in enumerate(islice(jobs, op.overlap)):
            late = blocks[: op.overlap - number]
            is_written = len(late) == op.overlap - number and not any(
                _boxes_overlap(before.y, late_box, operand, box) for late_box in late
            )
            require_valid(
                is_written,
                "an operation reads what the one before may not have written",
                "BLOCKDEP lets it start when all blocks that it reads are there",
                f"{op.overlap} blocks under way, words {before.at} and {op.at}",
            )


def _operand_boxes(op: npu.TensorOperation) -> Iterator[tuple[npu.FeatureMap, Iterator[Box]]]:
    yield op.x, _job_boxes(op)
    if isinstance(op, npu.MatrixProduct):
        yield op.second, repeat(tuple(map(range, op.second.shape)))  # type: ignore[arg-type]  # three axes
    if isinstance(op, npu.Elementwise) and isinstance(op.second, npu.FeatureMap):
        yield op.second, (_broadcast_box(box, op.second) for box in _result_block_boxes(op.y, op.block))


def _broadcast_box(box: Box, operand: npu.FeatureMap) -> Box:
    """Returns the part of an operand that a block of the result reads."""
    rows, columns, channels = (
        _clip_broadcast_axis(p, size) for p, size in zip(box, operand.shape, strict=True)
    )
    return rows, columns, channels


def _clip_broadcast_axis(part: range, size: int) -> range:
    """Returns the part of an axis, or its only index if the axis is broadcast."""
    return range(1) if size == 1 else part


def _job_boxes(op: npu.TensorOperation) -> Iterator[Box]:
    """Yields the part of the first operand that each job reads."""
    for rows, columns, channels in _result_block_boxes(op.y, op.block):
        seen = _window_extent(op, 0, rows), _window_extent(op, 1, columns)
        if _sums_channels(op):
            for start in range(0, op.x.shape[2], op.block.slice):
                yield *seen, range(start, min(start + op.block.slice, op.x.shape[2]))
        else:
            yield *seen, _clip_broadcast_axis(channels, op.x.shape[2])


def _sums_channels(
    op: npu.TensorOperation,
) -> TypeGuard[npu.Convolve | npu.PoolOperation | npu.MatrixProduct]:
    """Whether each result channel depends on all input channels, one slice per job."""
    if isinstance(op, npu.PoolOperation):
        return op.kind is npu.PoolKind.CHANNEL_SUM
    if isinstance(op, npu.MatrixProduct):
        return True
    return isinstance(op, npu.Convolve) and op.product is npu.ConvolutionKind.CONVOLUTION


def _window_extent(op: npu.TensorOperation, axis: int, part: range) -> range:
    """Returns the rows or columns that windows reach."""
    size = op.x.shape[axis]
    if isinstance(op, npu.Resize):
        first, last = (op.position(axis, at) // op.parts[axis] for at in (part.start, part.stop - 1))
        return range(max(first, 0), min(last + 2, size))
    if not isinstance(op, (npu.Convolve, npu.PoolOperation)):
        return _clip_broadcast_axis(part, size)
    kernel = op.kernel
    taps = (kernel.height, kernel.width)[axis]
    start = part.start * kernel.stride[axis] - kernel.pads[axis]
    end = (part.stop - 1) * kernel.stride[axis] - kernel.pads[axis] + (taps - 1) * kernel.dilation[axis] + 1
    if op.upscale is not npu.Upscale.NONE:
        start, end = start // 2, -(-end // 2)
    return range(max(start, 0), max(min(end, size), 0))


def _result_block_boxes(y: npu.FeatureMap, block: npu.BlockSize, *, backwards: bool = False) -> Iterator[Box]:
    """Yields the blocks of a result in execution order (channels, then columns, then rows), or in reverse
    order."""
    sides = (block.height, block.width, block.depth)
    starts = [range(0, size, side) for size, side in zip(y.shape, sides, strict=True)]
    for corner in product(*(axis[::-1] if backwards else axis for axis in starts)):
        rows, columns, channels = (
            range(start, min(start + side, size))
            for start, side, size in zip(corner, sides, y.shape, strict=True)
        )
        yield rows, columns, channels


def _boxes_overlap(a: npu.FeatureMap, box: Box, b: npu.FeatureMap, seen: Box) -> bool:
    """Whether parts of two tensors overlap in memory."""
    if not all(map(len, box)) or not all(map(len, seen)):
        return False
    first = part_addresses(a, box)
    second = part_addresses(b, seen)
    low, high = int(second.min()) - a.dtype.size_bytes, int(second.max()) + b.dtype.size_bytes
    first = first[(first > low) & (first < high)]
    if not first.size:
        return False
    written = (first[:, None] + np.arange(a.dtype.size_bytes)).ravel()
    read = (second.ravel()[:, None] + np.arange(b.dtype.size_bytes)).ravel()
    return bool(np.isin(written, read).any())
