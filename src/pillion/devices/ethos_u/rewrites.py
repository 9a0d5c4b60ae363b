# SPDX-License-Identifier: Apache-2.0
"""Passes before partitioning, for what Vela does not know, computes wrongly, or makes slow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pillion.devices.ethos_u import limits
from pillion.devices.ethos_u.accelerators import Accelerator
from pillion.devices.ethos_u.estimate import estimate
from pillion.devices.ethos_u.rules import rules
from pillion.ir.graph import Graph
from pillion.ir.rewriting import Replacement, RewriteSweep, rewrite_pass
from pillion.ir.types import DType, constant_value
from pillion.ir.verdict import all_ok
from pillion.ops import Concat, Conv2d, DepthwiseConv2d, Function, Lut, MaxPool2d, ResizeBilinear
from pillion.passes.per_channel_requantize import as_regular_conv, has_depth_multiplier

MOST_CHANNELS = 64
"""The most input channels; with more, Vela's split is faster."""


@rewrite_pass(Lut)
def tabulate_functions(op: Lut, at: RewriteSweep) -> Replacement:
    """Turns activations without an exact TFLite operator into the tables that they are, for NPUs with lookup tables."""
    is_known = op.function not in limits.TABULATED or op.y.dtype is DType.INT16
    if is_known or not limits.can_exchange_tables():
        return None
    table = constant_value(at.names.fresh(f"{op.name}_table"), op.entries(at.graph.arithmetic))
    return [Lut(x=op.x, y=op.y, table=table, function=Function.TABLE, source=op.source)]


@rewrite_pass(ResizeBilinear)
def separate_resizes(op: ResizeBilinear, at: RewriteSweep) -> Replacement:
    """Copies a resized image, by a pool of single pixels, before it is concatenated, for NPUs with Vela."""
    # Vela writes a resized image into a concatenation, and reads its own intermediate images with the channels of that.
    if not isinstance(at.graph.only_user(op.y), Concat):
        return None
    resized = op.y.like(at.names.fresh(f"{op.name}_resized"))
    low, high = op.y.dtype.bounds
    return [replace(op, y=resized), MaxPool2d(x=resized, y=op.y, low=low, high=high, source=op.source)]


def dense_multiplier_pass(accelerator: Accelerator) -> Callable[[Graph], Graph]:
    """Returns the pass for an NPU of this size."""
    own = [rule for rule in rules(accelerator.family) if rule.op is Conv2d]

    @rewrite_pass(DepthwiseConv2d)
    def dense_multipliers(op: DepthwiseConv2d, at: RewriteSweep) -> Replacement:
        """Converts depthwise convolutions with a channel multiplier to dense convolutions, if these take
        fewer cycles and satisfy all rules."""
        # Vela splits them into one operation per few channels; dense, with zeros as the other weights, they are one.
        if not has_depth_multiplier(op) or op.in_channels > MOST_CHANNELS:
            return None
        conv = as_regular_conv(op, at.names)
        fits = all_ok(rule.judge(conv) for rule in own)
        return [conv] if fits and estimate(conv, accelerator) < estimate(op, accelerator) else None

    return dense_multipliers
