# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolutions with several filters for each channel. Vela takes them apart into operations for every few channels; as plain
convolutions whose other weights are zero they are one operation, and a tenth of the cycles where channels are few."""

from __future__ import annotations

from collections.abc import Callable

from pillion.devices.device import Rule
from pillion.devices.ethos_u.accelerators import Accelerator
from pillion.devices.ethos_u.estimate import estimate
from pillion.devices.ethos_u.rules import rules
from pillion.ir.graph import Graph, Names, rewrite
from pillion.ir.op import Op
from pillion.ir.verdict import all_ok
from pillion.ops import Conv2d, DepthwiseConv2d
from pillion.passes.spread_multipliers import as_plain, has_multiplier

MOST_CHANNELS = 64
"""With more, Vela's own way is faster."""


def multipliers_for(accelerator: Accelerator) -> Callable[[Graph], Graph]:
    """Makes the pass for an NPU of some size."""
    own = [rule for rule in rules(accelerator.family) if rule.op is Conv2d]

    def plain_multipliers(graph: Graph) -> Graph:
        """Makes plain convolutions of depthwise ones with several filters for each channel, where these are fewer cycles and all
        rules hold."""
        names = Names(list(graph.values))
        return rewrite(graph, lambda _, op: _plain(op, accelerator, names, own))

    return plain_multipliers


def _plain(op: Op, accelerator: Accelerator, names: Names, own: list[Rule]) -> list[Op] | None:
    if not isinstance(op, DepthwiseConv2d) or not has_multiplier(op) or op.in_channels > MOST_CHANNELS:
        return None
    made = as_plain(op, names)
    fits = all_ok(rule.judge(made) for rule in own)
    return [made] if fits and estimate(made, accelerator) < estimate(op, accelerator) else None
