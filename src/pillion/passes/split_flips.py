# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pillion.ir.rewriting import Replacement, RewriteSweep, rewrite_pass
from pillion.ops import Concat, Flip, Slice

MAX_PARTS = 8
"""The longest axis that is split. Borders of reflected padding are one longer than the padding is wide."""


@rewrite_pass(Flip)
def split_flips(op: Flip, at: RewriteSweep) -> Replacement:
    """Replaces a flip along one short axis by slices and their concat in reverse order, for NPUs without flips:
    reflected padding flips its borders."""
    shape = op.x.shape
    axes = [axis for axis in op.axes if shape[axis] > 1]
    if len(axes) != 1 or shape[axes[0]] > MAX_PARTS:
        return None
    (axis,) = axes
    part = tuple(1 if a == axis else size for a, size in enumerate(shape))
    slices = [
        Slice(
            x=op.x,
            y=op.x.like(at.names.fresh(f"{op.name}_{place}"), shape=part),
            begin=tuple(place if a == axis else 0 for a in range(len(shape))),
            step=(1,) * len(shape),
            source=op.source,
        )
        for place in reversed(range(shape[axis]))
    ]
    return [*slices, Concat(xs=tuple(s.y for s in slices), y=op.y, axis=axis, source=op.source)]
