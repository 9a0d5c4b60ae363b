# SPDX-License-Identifier: Apache-2.0
"""Constants that are copied to a buffer in time for their op: which arrays, and when a copy starts and is awaited."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pillion.emitters.c.actions import AwaitConstants, FetchConstants, ProgramItem
from pillion.ir.graph import Graph
from pillion.ir.op import Op
from pillion.memory import MemoryLocation, is_alias
from pillion.memory.events import align_up

LEAST_COPIED = 64
"""The size from which arrays are copied in time."""


@dataclass(frozen=True)
class CopiedArray:
    """An array that is copied to a buffer: the field of the params that points to it, its name, its place there."""

    key: str
    name: str
    bytes: int
    offset: int


def copied_arrays(pointers: Mapping[str, str], sizes: Mapping[str, int]) -> Iterator[CopiedArray]:
    """Yields the arrays that are copied in time for an op, one behind the other. Small ones stay where they are. `pointers` are
    the fields of the op's params with the names of their arrays."""
    at = 0
    for key, name in pointers.items():
        if sizes[name] >= LEAST_COPIED:
            yield CopiedArray(key, name, sizes[name], at)
            at += align_up(sizes[name])


def with_fetches(
    graph: Graph,
    items: Sequence[list[ProgramItem]],
    pointers: Mapping[Op, Mapping[str, str]],
    sizes: Mapping[str, int],
    streamed: Mapping[Op, MemoryLocation],
) -> Iterator[list[ProgramItem]]:
    """Yields the items of each op with the copies of its constants: a copy starts before the previous op, and is
    awaited before its own."""
    arrays = {
        op: tuple((array.name, array.bytes) for array in copied_arrays(fields, sizes))
        for op, fields in pointers.items()
    }
    working = [op for op in graph.ops if not is_alias(op)]
    following = dict(itertools.pairwise(working))
    for op, of_op in zip(graph.ops, items, strict=True):
        fetched = [op] if op in streamed and op is working[0] else []
        later = following.get(op)
        fetched_next = [later] if later is not None and later in streamed else []
        first, second = (
            [ProgramItem.at(FetchConstants(arrays[one]), streamed[one]) for one in ops]
            for ops in (fetched, fetched_next)
        )
        yield [*first, *[ProgramItem.at(AwaitConstants())] * (op in streamed), *second, *of_op]
