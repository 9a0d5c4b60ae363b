# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pillion.ir.numerics import Arithmetic
from pillion.ir.op import why_multipliers_explicit
from pillion.ir.rewriting import Replacement, RewriteSweep, rewrite_pass
from pillion.ir.types import DType, constant_value
from pillion.ops import Conv2d, Linear, Reshape


@rewrite_pass(Linear)
def convolve_linear(op: Linear, at: RewriteSweep) -> Replacement:
    """Rewrites fully connected layers of programs that hold multipliers as convolutions of an image with one row, for NPUs that
    follow LiteRT: there convolutions round sums twice, as those programs do, and fully connected layers once."""
    is_known = op.explicit and op.weights.is_constant and not why_multipliers_explicit(op)
    if not is_known or op.x.dtype is not DType.INT8 or at.graph.arithmetic is not Arithmetic.CMSIS_NN:
        return None
    image = op.x.like(at.names.fresh(f"{op.x.name}_image"), shape=(1, 1, op.rows, op.in_features))
    made = op.y.like(at.names.fresh(f"{op.name}_image"), shape=(1, 1, op.rows, op.out_features))
    layer = Conv2d(
        x=image,
        weights=constant_value(
            at.names.fresh(f"{op.weights.name}_image"),
            op.weights.constant.reshape(op.out_features, 1, 1, op.in_features),
            op.weights.type.quant,
        ),
        bias=op.bias,
        y=made,
        low=op.low,
        high=op.high,
        explicit=op.explicit,
        source=op.source,
    )
    before, after = Reshape(x=op.x, y=image, source=op.source), Reshape(x=made, y=op.y, source=op.source)
    return [before, layer, after]
