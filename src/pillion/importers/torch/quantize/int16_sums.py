# SPDX-License-Identifier: Apache-2.0
"""Decides which sums are int16. A transformer's residual stream has one scale, but its norms read each row: a row
a hundred times smaller than the largest has two int8 steps, and the norm amplifies their noise."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor
from torch.fx import GraphModule, Node

from pillion.importers.torch.fx_nodes import CLAMPS, aten, single_user
from pillion.importers.torch.loop_nodes import has_loops
from pillion.importers.torch.observers import observer_of, range_of
from pillion.importers.torch.quantize.int16_tensors import widen_to_int16
from pillion.importers.torch.quantize.outlier_clipping import HistogramRange
from pillion.importers.torch.quantize.shared_scales import NormParams
from pillion.importers.torch.rewrite.norm_calls import normalize_axes, normalize_groups
from pillion.ir.constraints import QuantizationConstraints
from pillion.ir.types import DType
from pillion.ops import Add
from pillion.ops.normalize import MOST_ELEMENTS

NORMS = (normalize_axes, normalize_groups)
MOST_NOISE = 2e-4
"""Maximum int8 rounding noise relative to a row's variance (37 dB) before a sum becomes int16."""


class RowVarianceRange(HistogramRange):
    """Observes the range of a norm's operand and the least variance of its rows."""

    def __init__(self, *args: Any, norm: NormParams, **options: Any) -> None:
        super().__init__(*args, **options)
        self.norm = norm
        self.least = math.inf

    def forward(self, x_orig: Tensor) -> Tensor:
        """Observes the rows and returns the tensor unchanged."""
        rows = x_orig.detach().double().flatten(-self.norm.axes)
        if rows.numel():
            centred = rows - rows.mean(-1, keepdim=True) if self.norm.centred else rows
            self.least = min(self.least, float(centred.square().mean(-1).min()) + self.norm.eps)
        return super().forward(x_orig)


def relative_rounding_noise(observer: HistogramRange, least: float) -> float:
    """Returns the power of int8 rounding noise relative to the variance `least`."""
    low, high = range_of(observer)
    step = (high - low) / 255
    return step**2 / 12 / least if least > 0 else math.inf


def use_int16_sums(prepared: GraphModule, constraints: QuantizationConstraints) -> None:
    """Uses int16 for sums that are too coarse for the norms reading them, and for the sums upstream. Other ops
    read them in int8. Models with loops are skipped."""
    if Add.kind in constraints.fixed or has_loops(prepared.graph):
        return
    for total in _sums_too_coarse(prepared):
        widen_to_int16(prepared, total, accepts_int16)
    prepared.recompile()


def _sums_too_coarse(prepared: GraphModule) -> list[Node]:
    """Sums whose int8 rounding exceeds MOST_NOISE in the smallest row of a norm."""
    coarse: dict[Node, None] = {}
    open_ends: list[tuple[Any, float]] = []
    for norm in prepared.graph.find_nodes(op="call_function", target=normalize_axes):
        observer = observer_of(prepared, norm.args[0])
        if isinstance(observer, RowVarianceRange) and accepts_int16(norm):
            open_ends.append((norm.args[0], observer.least))
    while open_ends:
        observed, least = open_ends.pop()
        observer, total = observer_of(prepared, observed), observed
        while total.op == "call_module":
            total = total.all_input_nodes[0]
        is_sum = isinstance(observer, HistogramRange) and _is_sum(total) and single_user(total) is not None
        if is_sum and total not in coarse and relative_rounding_noise(observer, least) > MOST_NOISE:
            coarse[total] = None
            open_ends += [(operand, least) for operand in total.all_input_nodes]
    return list(coarse)


def _is_sum(node: Node) -> bool:
    return node.target is aten.add.Tensor


def accepts_int16(node: Node) -> bool:
    """Whether a call takes int16 operands: a norm of few enough elements, or a sum without clamp."""
    if node.target in NORMS:
        dims: Any = node.args[3]
        shape = node.meta["val"].shape
        is_grouped = node.target is normalize_groups
        count = math.prod(shape[1:]) // dims if is_grouped else math.prod(shape[d] for d in dims)
        return count <= MOST_ELEMENTS[DType.INT16]
    return _is_sum(node) and not any(user.target in CLAMPS for user in node.users)
