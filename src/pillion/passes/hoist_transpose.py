# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses

from pillion.ir.rewriting import Replacement, RewriteSweep, rewrite_pass
from pillion.ops import Pad, Transpose


@rewrite_pass(Transpose)
def hoist_transpose(op: Transpose, at: RewriteSweep) -> Replacement:
    """Moves a transpose before the pad that precedes it: less data moves, and a convolution can fold the
    pad."""
    pad = at.graph.producers.get(op.x)
    if not isinstance(pad, Pad) or at.graph.only_user(pad.y) is not op:
        return None
    shape, before, after = (
        tuple(sizes[a] for a in op.order) for sizes in (pad.x.shape, pad.before, pad.after)
    )
    early = pad.x.like(f"{pad.y.name}_moved", shape=shape)
    return [
        dataclasses.replace(op, x=pad.x, y=early),
        dataclasses.replace(pad, x=early, y=op.y, before=before, after=after),
    ]
