# SPDX-License-Identifier: Apache-2.0
"""Converts depthwise convolutions with a channel multiplier to dense convolutions. Vela splits them into one
operation per few channels; as a dense convolution, the other weights zero, they are one operation, at a tenth
of the cycles for few channels."""

from __future__ import annotations

from collections.abc import Callable

from pillion.devices.ethos_u.accelerators import Accelerator
from pillion.devices.ethos_u.estimate import estimate
from pillion.devices.ethos_u.rules import rules
from pillion.ir.graph import Graph
from pillion.ir.rewriting import Replacement, RewriteSweep, rewrite_pass
from pillion.ir.verdict import all_ok
from pillion.ops import Conv2d, DepthwiseConv2d
from pillion.passes.per_channel_requantize import as_regular_conv, has_depth_multiplier

MOST_CHANNELS = 64
"""The most input channels; with more, Vela's split is faster."""


def dense_multiplier_pass(accelerator: Accelerator) -> Callable[[Graph], Graph]:
    """Returns the pass for an NPU of this size."""
    own = [rule for rule in rules(accelerator.family) if rule.op is Conv2d]

    @rewrite_pass(DepthwiseConv2d)
    def dense_multipliers(op: DepthwiseConv2d, at: RewriteSweep) -> Replacement:
        """Converts depthwise convolutions with a channel multiplier to dense convolutions, if these take
        fewer cycles and satisfy all rules."""
        if not has_depth_multiplier(op) or op.in_channels > MOST_CHANNELS:
            return None
        conv = as_regular_conv(op, at.names)
        fits = all_ok(rule.judge(conv) for rule in own)
        return [conv] if fits and estimate(conv, accelerator) < estimate(op, accelerator) else None

    return dense_multipliers
