# SPDX-License-Identifier: Apache-2.0
"""Checks that copies and operations on tensors wait for each other where they access the same bytes.

Operations on tensors are ordered by block dependencies, and copies are executed in order; only waits order copies and operations
relative to each other."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pillion.devices.ethos_u.accelerators import Accelerator, Family
from pillion.devices.ethos_u.stream import operations as npu
from pillion.devices.ethos_u.stream.lookup_tables import Tables
from pillion.devices.ethos_u.stream.memory import tensor_byte_range
from pillion.devices.ethos_u.stream.stream_errors import at_word, require_valid

KERNELS_UNDER_WAY = 2
"""The operations on tensors that may be in progress at once."""
COPIES_UNDER_WAY = {Family.U55: 1, Family.U65: 2, Family.U85: 4}


@dataclass(frozen=True)
class _AccessedBytes:
    """The bytes that an operation reads and writes."""

    at: int
    reads: tuple[npu.Range, ...]
    writes: tuple[npu.Range, ...]

    def overlaps(self, other: _AccessedBytes) -> bool:
        return _ranges_overlap(self.writes, other.reads + other.writes) or _ranges_overlap(
            self.reads, other.writes
        )


def require_waits(found: Sequence[npu.Operation], accelerator: Accelerator) -> None:
    """Raises if a copy and an operation on tensors access the same bytes without a wait between them."""
    copies: deque[_AccessedBytes] = deque(maxlen=COPIES_UNDER_WAY[accelerator.family])
    kernels: deque[_AccessedBytes] = deque(maxlen=KERNELS_UNDER_WAY)
    for op in found:
        if isinstance(op, npu.Wait):
            waiting = copies if op.copies else kernels
            with at_word(op.at):
                most = waiting.maxlen or 0
                require_valid(op.most < most, "a wait has no effect", f"less than {most}", op.most)
            while len(waiting) > op.most:
                waiting.popleft()
            continue
        touched = _accessed_ranges(op, accelerator)
        mine, others = (copies, kernels) if isinstance(op, npu.DmaCopy) else (kernels, copies)
        for other in others:
            require_valid(
                not touched.overlaps(other),
                "a copy and an operation touch the same bytes at the same time",
                "a wait stands between them",
                f"words {other.at} and {op.at}",
            )
        mine.append(touched)


def _accessed_ranges(op: npu.Operation, accelerator: Accelerator) -> _AccessedBytes:
    if isinstance(op, npu.DmaCopy):
        return _AccessedBytes(op.at, (op.source,), (op.destination,))
    assert isinstance(op, npu.TensorOperation)
    return _AccessedBytes(op.at, tuple(_read_ranges(op, accelerator)), (tensor_byte_range(op.y),))


def _read_ranges(op: npu.TensorOperation, accelerator: Accelerator) -> Iterator[npu.Range]:
    yield tensor_byte_range(op.x)
    if isinstance(op, (npu.Elementwise, npu.MatrixProduct)) and isinstance(op.second, npu.FeatureMap):
        yield tensor_byte_range(op.second)
    if isinstance(op, npu.Convolve):
        yield from (*op.weights, op.scales)
    if op.activation.table is not None:
        start, end = Tables(accelerator).place(op.activation.table, op.y.dtype)
        yield npu.Range(npu.INTERNAL, accelerator.table_address + start, end - start)


def _ranges_overlap(some: Sequence[npu.Range], others: Sequence[npu.Range]) -> bool:
    return any(first.overlaps(second) for first in some for second in others)
