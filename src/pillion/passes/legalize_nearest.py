# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses

import numpy as np

from pillion.ir.graph import Graph, rewrite
from pillion.ir.op import Op
from pillion.ops import ResizeNearest


def legalize_nearest(graph: Graph) -> Graph:
    """Drops the rounding mode of a nearest-neighbour resize if every mode chooses the same pixels, for NPUs
    that know one mode."""
    return rewrite(graph, lambda _, op: _drop_rounding_mode(op))


def _drop_rounding_mode(op: Op) -> list[Op] | None:
    if not isinstance(op, ResizeNearest) or not (op.align_corners or op.half_pixel):
        return None
    plain = dataclasses.replace(op, align_corners=False, half_pixel=False)
    same = all(np.array_equal(op.sources(axis), plain.sources(axis)) for axis in (0, 1))
    return [plain] if same else None
