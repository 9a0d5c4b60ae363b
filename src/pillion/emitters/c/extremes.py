# SPDX-License-Identifier: Apache-2.0
"""The vector kernels of minima and maxima over adjacent axes, complete or of one tile."""

from __future__ import annotations

from pillion.emitters.c.kernel import Call, Kernel, Params
from pillion.emitters.c.kernel_conditions import int8_or_bool
from pillion.emitters.c.kernel_library import Library
from pillion.emitters.c.portable.reduce import check_extremum_tile
from pillion.emitters.c.reduction_blocks import block_of
from pillion.ir.numerics import Arithmetic
from pillion.ir.verdict import Verdict
from pillion.ops.reduce import Extremes, ReduceMax, ReduceMin


def check(op: Extremes, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks whether an extremum is over adjacent axes, and the element types."""
    is_block = block_of(op.x.shape, op.axes) is not None
    adjacent = Verdict("axes", is_block, "neighbours", f"{op.axes} of {list(op.x.shape)}")
    return (*int8_or_bool(x=op.x, y=op.y), adjacent)


def params(op: Extremes) -> Params:
    """Returns the sizes of the block, and the place of a tile among those of its op."""
    if op.part is not None:
        inner = op.folded_bytes
        sizes = {"outer": 1, "reduced": op.x.type.elements // inner, "inner": inner}
        return {**sizes, "is_first": int(op.part.is_first), "is_last": int(op.part.is_last)}
    block = block_of(op.x.shape, op.axes)
    assert block is not None
    outer, reduced, inner = block
    return {"outer": outer, "reduced": reduced, "inner": inner, "is_first": 1, "is_last": 1}


def kernels(library: Library, lanes: int = 1, overread_bytes: int = 0) -> tuple[Kernel, ...]:
    """Returns the kernels of a library that compares `lanes` results at a time."""

    def calls(op: Extremes, arithmetic: Arithmetic) -> tuple[Call, ...]:
        return (Call(library.routine(f"{op.kind}_s8"), params(op), (op.x,), op.y),)

    def scratch_bytes(op: Extremes) -> int:
        return lanes * -(-op.folded_bytes // lanes) if op.is_part else 0

    return tuple(
        library.kernel(
            op,
            calls,
            check_extremum_tile if is_tiled else check,
            name=f"{op.kind}_rows" if is_tiled else op.kind,
            scratch_bytes=scratch_bytes,
            overread_bytes=overread_bytes,
            is_tiled=is_tiled,
        )
        for op in (ReduceMax, ReduceMin)
        for is_tiled in (True, False)
    )
