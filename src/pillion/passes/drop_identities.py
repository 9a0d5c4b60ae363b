# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pillion.ir.op import Op
from pillion.ir.rewriting import Replacement, RewriteSweep, rewrite_pass
from pillion.ops import Pad, Slice
from pillion.ops.pool import Pool
from pillion.ops.resize import Resize


@rewrite_pass(Pool, Resize, Slice, Pad)
def drop_identities(op: Op, at: RewriteSweep) -> Replacement:
    """Removes identities: pools of single pixels, resizes to the same size, slices of everything, pads by
    nothing."""
    x, y = op.operands[0], op.results[0]
    is_idle = op.is_identity and x.type == y.type and not at.graph.is_output(y)
    return at.read_instead(op, x) if is_idle else None
