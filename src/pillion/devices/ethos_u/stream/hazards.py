# SPDX-License-Identifier: Apache-2.0
"""Whether a stream waits enough: copies run beside operations on tensors, and only waits keep them in order.

Operations on tensors keep their own order by block dependencies, copies theirs: each unit does one after the other. So what is to
be shown is that no copy and no operation that may be under way at the same time touch the same bytes, if one of both writes them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pillion.devices.ethos_u.accelerators import Accelerator, Family
from pillion.devices.ethos_u.stream.errors import wrong
from pillion.devices.ethos_u.stream.memory import span
from pillion.devices.ethos_u.stream.operations import (
    INTERNAL,
    Compute,
    Convolve,
    Copy,
    Elementwise,
    FeatureMap,
    Operation,
    Range,
    Wait,
)
from pillion.devices.ethos_u.stream.tables import Tables

KERNELS_UNDER_WAY = 2
"""So many operations on tensors are started before the first one has ended."""
COPIES_UNDER_WAY = {Family.U55: 1, Family.U65: 2}


@dataclass(frozen=True)
class _Touched:
    """The bytes that an operation reads and writes."""

    at: int
    reads: tuple[Range, ...]
    writes: tuple[Range, ...]

    def meets(self, other: _Touched) -> bool:
        return _overlap(self.writes, other.reads + other.writes) or _overlap(self.reads, other.writes)


def want_waits(found: Sequence[Operation], accelerator: Accelerator) -> None:
    """Raises where a copy and an operation on tensors touch the same bytes and neither waits for the other."""
    copies: deque[_Touched] = deque(maxlen=COPIES_UNDER_WAY[accelerator.family])
    kernels: deque[_Touched] = deque(maxlen=KERNELS_UNDER_WAY)
    for op in found:
        if isinstance(op, Wait):
            waiting = copies if op.copies else kernels
            if op.most >= (waiting.maxlen or 0):
                raise wrong(
                    "a wait that waits for nothing", f"less than {waiting.maxlen}", f"{op.most}, word {op.at}"
                )
            while len(waiting) > op.most:
                waiting.popleft()
            continue
        touched = _touched(op, accelerator)
        mine, others = (copies, kernels) if isinstance(op, Copy) else (kernels, copies)
        for other in others:
            if touched.meets(other):
                raise wrong(
                    "a copy and an operation touch the same bytes at the same time",
                    "a wait stands between them",
                    f"words {other.at} and {op.at}",
                )
        mine.append(touched)


def _touched(op: Operation, accelerator: Accelerator) -> _Touched:
    if isinstance(op, Copy):
        return _Touched(op.at, (op.source,), (op.destination,))
    assert isinstance(op, Compute)
    return _Touched(op.at, tuple(_read(op, accelerator)), (span(op.y),))


def _read(op: Compute, accelerator: Accelerator) -> Iterator[Range]:
    yield span(op.x)
    if isinstance(op, Elementwise) and isinstance(op.second, FeatureMap):
        yield span(op.second)
    if isinstance(op, Convolve):
        yield from (op.weights, op.scales)
    if op.activation.table is not None:
        start, end = Tables(accelerator).place(op.activation.table, op.y.dtype, op.at)
        yield Range(INTERNAL, accelerator.table_address + start, end - start)


def _overlap(some: Sequence[Range], others: Sequence[Range]) -> bool:
    return any(
        one.region == other.region and one.start < other.end and other.start < one.end
        for one in some
        for other in others
    )
