# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses

import numpy as np

from pillion.ir.rewriting import Replacement, RewriteSweep, rewrite_pass
from pillion.ops import ResizeNearest


@rewrite_pass(ResizeNearest)
def legalize_nearest(op: ResizeNearest, at: RewriteSweep) -> Replacement:
    """Drops the rounding mode of a nearest-neighbour resize if every mode chooses the same pixels, for NPUs
    that know one mode."""
    if not (op.align_corners or op.half_pixel):
        return None
    plain = dataclasses.replace(op, align_corners=False, half_pixel=False)
    same = all(np.array_equal(op.sources(axis), plain.sources(axis)) for axis in (0, 1))
    return [plain] if same else None
