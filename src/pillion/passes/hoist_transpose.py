# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses

from pillion.ir.graph import Graph
from pillion.ir.op import Op
from pillion.ir.types import Value
from pillion.ops import Pad, Transpose


def hoist_transpose(graph: Graph) -> Graph:
    """Moves a transpose before the pad that precedes it: less data moves, and a convolution can fold the
    pad."""
    instead: dict[Op, tuple[Op, ...]] = {}
    for op in graph.ops:
        pad = graph.producers.get(op.x) if isinstance(op, Transpose) else None
        if isinstance(pad, Pad) and isinstance(op, Transpose) and graph.only_user(pad.y) is op:
            instead[pad] = ()
            instead[op] = _swap_pad_and_transpose(pad, op)
    return (
        graph.replace(ops=tuple(new for op in graph.ops for new in instead.get(op, (op,))))
        if instead
        else graph
    )


def _swap_pad_and_transpose(pad: Pad, transpose: Transpose) -> tuple[Op, Op]:
    order = transpose.order
    shape = tuple(pad.x.shape[a] for a in order)
    early = Value(f"{pad.y.name}_moved", dataclasses.replace(pad.x.type, shape=shape))
    return (
        dataclasses.replace(transpose, x=pad.x, y=early),
        dataclasses.replace(
            pad,
            x=early,
            y=transpose.y,
            before=tuple(pad.before[a] for a in order),
            after=tuple(pad.after[a] for a in order),
        ),
    )
