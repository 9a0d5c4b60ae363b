# SPDX-License-Identifier: Apache-2.0
"""Room for biases: they are integers of 32 bits in steps of s_x · s_w, which a channel of tiny weights makes too small."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torchao.quantization.pt2e import MinMaxObserver, PerChannelMinMaxObserver

from pillion.importers.torch.nodes import calls, constant_of
from pillion.importers.torch.rows.quantization import RULES

LARGEST = 2.0**30
"""Half of what 32 bits hold; the other half is for the sum of products."""


def make_room_for_biases(prepared: GraphModule) -> None:
    """Widens the range of weights until the bias fits. It matters for channels that are zero or nearly so."""
    for node in calls(prepared.graph):
        rule = RULES.get(node.target)
        if rule is not None and rule.weight is not None and len(node.args) > rule.weight + 1:
            bias = constant_of(node.args[rule.weight + 1])
            observers = [_observer(prepared, node.args[i]) for i in (0, rule.weight)]
            if bias is not None and isinstance(observers[1], (PerChannelMinMaxObserver, MinMaxObserver)):
                _widen(observers[1], observers[0], bias)


def _observer(prepared: GraphModule, node: Any) -> Any:
    if not isinstance(node, Node) or node.op != "call_module":
        return None
    observer = prepared.get_submodule(str(node.target))
    return getattr(observer, "activation_post_process", observer)  # inside a fake quantization


def _widen(weights: PerChannelMinMaxObserver | MinMaxObserver, x: Any, bias: Tensor) -> None:
    if x is None:
        return
    input_scale, _ = x.calculate_qparams()
    channels = weights.max_val.numel()
    magnitudes = (
        bias.detach().abs().reshape(-1, channels).amax(0)
    )  # of all groups of a transposed convolution
    needed = magnitudes / (LARGEST * input_scale) * weights.quant_max
    weights.max_val = torch.maximum(
        weights.max_val, needed.to(weights.max_val).reshape(weights.max_val.shape)
    )
