# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses

from pillion.ir.rewriting import Replacement, RewriteSweep, rewrite_pass
from pillion.ir.types import DType, PerTensor
from pillion.ops import Requantize


@rewrite_pass(Requantize)
def merge_rescaled(op: Requantize, at: RewriteSweep) -> Replacement:
    """Merges a requantize with a neighbouring conversion between uint8 and int8, and removes requantizes
    that change nothing."""
    before = at.producers.get(op.x)
    if (
        isinstance(before, Requantize)
        and {before.x.dtype, op.to} != {DType.UINT8, DType.INT16}  # no op converts between these at once
        and (preserves_real_values(before) or preserves_real_values(op))
    ):
        op = dataclasses.replace(op, x=before.x)
    return at.read_instead(op, op.x) if op.is_identity and not at.graph.is_output(op.y) else [op]


def preserves_real_values(op: Requantize) -> bool:
    """Whether every number keeps its meaning: the scale stays, and the zero point moves with the element
    type."""
    x, y = op.x, op.y
    if not (isinstance(x.type.quant, PerTensor) and isinstance(y.type.quant, PerTensor)):
        return False
    offsets = (x.zero_point - x.dtype.bounds[0], y.zero_point - y.dtype.bounds[0])
    return x.scale == y.scale and offsets[0] == offsets[1]
