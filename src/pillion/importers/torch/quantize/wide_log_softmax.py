# SPDX-License-Identifier: Apache-2.0
"""Lowers log softmaxes with wide results to a maximum, exponentials and a logarithm, whose ranges follow the data.

The kernel of LiteRT has fixed steps of 1/16 and ends at -16, which keeps 3 dB of logits that reach 50 apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from pillion.importers.torch.fx_nodes import aten, call, calls, replace
from pillion.importers.torch.loop_nodes import LoopInterpreter
from pillion.ops.log_softmax import OUTPUT

LOWEST = (-128 - OUTPUT.zero_point) * OUTPUT.scale
"""The least result of the kernel."""


def lower_wide_log_softmaxes(module: GraphModule, samples: Sequence[tuple[Tensor, ...]]) -> None:
    """Replaces log softmaxes whose results fall below the kernel's range on some sample by x - log(sum(exp(x)))."""
    lowest: dict[Node, float] = {}

    def record(node: Node, value: Any) -> None:
        if node.target is aten.log_softmax.int:
            lowest[node] = min(lowest.get(node, 0.0), float(value.min()))

    with torch.no_grad():
        for sample in samples:
            LoopInterpreter(module, record).run(*sample)
    for node in calls(module.graph, [aten.log_softmax.int]):
        if lowest.get(node, 0.0) < LOWEST:
            x, dims = node.args[0], [node.args[1]]
            largest = call(node, aten.amax.default, x, dims, True)
            shares = call(node, aten.exp.default, call(node, aten.sub.Tensor, x, largest))
            total = call(node, aten.sum.dim_IntList, shares, dims, True)
            log = call(node, aten.add.Tensor, largest, call(node, aten.log.default, total))
            replace(node, call(node, aten.sub.Tensor, x, log))
    module.recompile()
