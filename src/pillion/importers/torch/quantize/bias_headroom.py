# SPDX-License-Identifier: Apache-2.0
"""Widens weight ranges until int32 biases fit: their scale s_x · s_w is too small for channels with tiny weights."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule
from torchao.quantization.pt2e import MinMaxObserver, PerChannelMinMaxObserver

from pillion.importers.torch.fx_nodes import calls, constant_of
from pillion.importers.torch.observers import observer_of
from pillion.importers.torch.rows.quantization import RULES

LARGEST = 2.0**30
"""Largest bias: half of int32; the other half is for the products."""


def add_bias_headroom(prepared: GraphModule) -> None:
    """Widens the range of weights until the bias fits; matters for nearly zero channels."""
    for node in calls(prepared.graph):
        rule = RULES.get(node.target)
        if rule is not None and rule.weight is not None and len(node.args) > rule.weight + 1:
            bias = constant_of(node.args[rule.weight + 1])
            observers = [observer_of(prepared, node.args[i]) for i in (0, rule.weight)]
            if bias is not None and isinstance(observers[1], (PerChannelMinMaxObserver, MinMaxObserver)):
                _widen_weight_range(observers[1], observers[0], bias)


def _widen_weight_range(weights: PerChannelMinMaxObserver | MinMaxObserver, x: Any, bias: Tensor) -> None:
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
