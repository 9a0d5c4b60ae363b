# SPDX-License-Identifier: Apache-2.0
"""Widens weight ranges until int32 biases fit: their scale s_x · s_w is too small for channels with tiny weights."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torchao.quantization.pt2e import MinMaxObserver, PerChannelMinMaxObserver

from pillion.importers.torch.fx_nodes import CLAMPS, calls, constant_of, single_user
from pillion.importers.torch.observers import observer_of
from pillion.importers.torch.quantize.int16_observers import SymmetricObserver, WidenedObserver
from pillion.importers.torch.rows.quantization import RULES
from pillion.ir.types import DType

LARGEST = 2.0**30
"""Largest bias: half of int32; the other half is for the products."""

MOST_SUM = 0.98 * 2.0**31
"""Largest sum of 16-bit products and bias, with room for the rounding of weights."""

FINEST_STEP = 2.001
"""The least step of a 16-bit result in steps of a sum: a kernel's factor is below 1/2."""

COARSER = 8.0
"""By how much the steps of a result may grow for the sake of a fast kernel, if the operand has 16 bits."""

LEAST_RATIO = 1.01 * 2.0**-17
"""Smallest ratio of scales that a single multiplication rounds."""


def add_bias_headroom(prepared: GraphModule) -> None:
    """Widens the range of weights until the bias fits; matters for nearly zero channels. 16-bit results get steps of two of a
    sum at least."""
    for node in calls(prepared.graph):
        rule = RULES.get(node.target)
        if rule is None or rule.weight is None or len(node.args) <= rule.weight:
            continue
        bias = constant_of(node.args[rule.weight + 1]) if len(node.args) > rule.weight + 1 else None
        x, weights = (observer_of(prepared, node.args[i]) for i in (0, rule.weight))
        if not isinstance(weights, (PerChannelMinMaxObserver, MinMaxObserver)):
            continue
        if bias is not None:
            _widen_weight_range(weights, x, bias)
        if getattr(x, "dtype", None) is not torch.int16 or not weights.max_val.numel():
            continue
        held: Any = node.args[rule.weight]
        y = _observer_behind(prepared, node)
        if bias is not None:
            _fit_sums(weights, x, bias, constant_of(held.args[0]))
        if isinstance(y, SymmetricObserver):
            _coarsen_result(y, x, weights)
        if y is not None and hasattr(weights, "ch_axis"):
            least = LEAST_RATIO * y.calculate_qparams()[0] / x.calculate_qparams()[0] * weights.quant_max
            weights.max_val = weights.max_val.clamp(min=float(least))


def _coarsen_result(y: SymmetricObserver, x: Any, weights: PerChannelMinMaxObserver | MinMaxObserver) -> None:
    """Coarsens the steps of a result as far as the fast kernels need; an 8-bit operand needs that in any case."""
    step = FINEST_STEP * float(x.calculate_qparams()[0] * weights.calculate_qparams()[0].max())
    if isinstance(x, WidenedObserver) or step <= COARSER * float(y.calculate_qparams()[0]):
        y.least_step = max(y.least_step, step)


def _observer_behind(prepared: GraphModule, layer: Node) -> Any:
    """Returns the observer of a layer's result, which may be clamped."""
    user = single_user(layer)
    if user is not None and user.target in CLAMPS:
        user = single_user(user)
    return observer_of(prepared, user)


def _widen_weight_range(weights: PerChannelMinMaxObserver | MinMaxObserver, x: Any, bias: Tensor) -> None:
    if x is None or not weights.max_val.numel():  # not observed yet: a module prepared for training
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


def _fit_sums(
    observer: PerChannelMinMaxObserver | MinMaxObserver, x: Any, bias: Tensor, weights: Tensor | None
) -> None:
    """Widens weight ranges by at most a factor of two, if the sums of 16-bit products then fit 32 bits, whose kernels
    are several times faster."""
    axis = getattr(observer, "ch_axis", None)
    if axis is None or weights is None or bias.numel() != weights.shape[axis]:
        return
    scales, step = observer.calculate_qparams()[0].double(), float(x.calculate_qparams()[0])
    magnitudes = weights.detach().double().abs().movedim(axis, 0).flatten(1).sum(1)
    products = magnitudes * -DType.INT16.bounds[0] + bias.detach().double().abs() / step
    factor = products / (scales * MOST_SUM)
    factor = torch.where((factor > 1) & (factor <= 2), factor, 1.0)
    observer.max_val = torch.maximum(observer.max_val, -observer.min_val) * factor.to(observer.max_val)
