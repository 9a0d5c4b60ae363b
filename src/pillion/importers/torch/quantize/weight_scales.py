# SPDX-License-Identifier: Apache-2.0
"""Chooses the scale of each channel of weights. A scale slightly larger than the largest weight needs may round the
other weights better."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.fx import GraphModule
from torchao.quantization.pt2e import PerChannelMinMaxObserver

from pillion.compensated_rounding import best_scales
from pillion.importers.torch.fx_nodes import calls, constant_of
from pillion.importers.torch.observers import observer_of
from pillion.importers.torch.rows.quantization import RULES

LARGEST_FACTOR = 1.1
"""Larger steps lose more than chance gives back."""
TRIED = 64
MOST_INPUTS = 512
"""Errors of more weights average out: all scales are about equally good."""


def choose_weight_scales(prepared: GraphModule) -> None:
    """Gives the weights of layers the scales with the least squared error, where each channel has one."""
    for node in calls(prepared.graph, RULES):
        rule = RULES[node.target]
        if rule.weight is None or len(node.args) <= rule.weight:
            continue
        held: Any = node.args[rule.weight]
        observer = observer_of(prepared, held)
        weights = constant_of(held.args[0]) if isinstance(observer, PerChannelMinMaxObserver) else None
        if weights is not None:
            _choose_scales(observer, weights)


def _choose_scales(observer: PerChannelMinMaxObserver, weights: torch.Tensor) -> None:
    real = weights.detach().double().movedim(observer.ch_axis, 0).flatten(1).numpy()
    if real.shape[1] > MOST_INPUTS:
        return
    scales = observer.calculate_qparams()[0].double().numpy()
    tried = [scales * factor for factor in np.linspace(1.0, LARGEST_FACTOR, TRIED)]
    levels = observer.quant_min, observer.quant_max
    best = best_scales(real, tried, levels, np.ones(real.shape[1]))
    largest = torch.maximum(observer.max_val, -observer.min_val)
    observer.max_val = largest * torch.from_numpy(best / scales).to(largest)
