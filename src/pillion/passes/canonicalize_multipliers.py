# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses

from pillion.ir.graph import Graph
from pillion.ir.op import values_without_scales
from pillion.ops.conv import Convolution


def canonicalize_multipliers(graph: Graph) -> Graph:
    """Replaces LiteRT's multipliers for uint8 by those that follow from the scales, as NPUs compute them.
    About one result of 100,000 changes."""
    ops = [
        dataclasses.replace(op, given=())
        if isinstance(op, Convolution)
        and op.given
        and not values_without_scales(op)
        and op.given == op.from_scales_in_uint8()
        else op
        for op in graph.ops
    ]
    return graph.replace(ops=tuple(ops))
