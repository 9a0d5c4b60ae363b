# SPDX-License-Identifier: Apache-2.0
"""The vector kernels of minima and maxima over adjacent axes, complete or of one tile."""

from __future__ import annotations

from pillion.emitters.c.kernel import Kernel, Params
from pillion.emitters.c.kernel_library import Library
from pillion.emitters.c.portable.reduce import INT8_OR_BOOL, extremum_tile_params, of_extreme
from pillion.emitters.c.reduction_blocks import adjacent, block_sizes
from pillion.ops.reduce import ExtremumReduction, ReduceMax, ReduceMin


def params(op: ExtremumReduction) -> Params:
    """Returns the sizes of the block, and the place of a tile among those of its op."""
    if op.is_part:
        return {"outer": 1, **extremum_tile_params(op)}
    return {**block_sizes(op), "is_first": 1, "is_last": 1}


def kernels(library: Library, lanes: int = 1, overread_bytes: int = 0) -> tuple[Kernel, ...]:
    """Returns the kernels of a library that compares `lanes` results at a time."""
    return tuple(
        library.kernel(
            op,
            f"{op.kind}_s8",
            params,
            requires=(of_extreme, INT8_OR_BOOL) if is_tiled else (INT8_OR_BOOL, adjacent),
            name=f"{op.kind}_rows" if is_tiled else op.kind,
            scratch_bytes=lambda reduction: (
                lanes * -(-reduction.folded_bytes // lanes) if reduction.is_part else 0
            ),
            overread_bytes=overread_bytes,
            is_tiled=is_tiled,
        )
        for op in (ReduceMax, ReduceMin)
        for is_tiled in (True, False)
    )
