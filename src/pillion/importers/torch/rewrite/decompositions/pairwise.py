# SPDX-License-Identifier: Apache-2.0
"""Decomposes binary elementwise functions, distances, and reductions such as logsumexp."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.fx import Node

from pillion.importers.torch.fx_nodes import aten, fake_result, is_constant, named_argument, torch_operators
from pillion.importers.torch.rewrite.decompositions.static_gather import strided_diagonal
from pillion.importers.torch.rewrite.decompositions.table import decompose_by


def _log_sum_exp(x: Tensor, dim: Sequence[int] | int, keepdim: bool = False) -> Tensor:
    axes = [dim] if isinstance(dim, int) else list(dim)
    largest = x.amax(axes, keepdim=True)
    rest = torch.log((x - largest).exp().sum(axes, keepdim=True))
    return largest + rest if keepdim else (largest + rest).squeeze(axes)


def _atan2(y: Tensor, x: Tensor) -> Tensor:
    """Computes the angle from the shorter coordinate over the longer one, within an eighth of a turn, and moves it
    to its octant."""
    longer, shorter = torch.maximum(y.abs(), x.abs()), torch.minimum(y.abs(), x.abs())
    angle = torch.atan(shorter / longer.clamp(min=1e-6))
    angle = torch.where(y.abs() > x.abs(), math.pi / 2 - angle, angle)
    angle = torch.where(x < 0, math.pi - angle, angle)
    return torch.where(y < 0, -angle, angle)


def _pairwise_distances(a: Tensor, b: Tensor, p: float = 2.0, compute_mode: int | None = None) -> Tensor:
    """Distances of each row of one matrix to each row of another."""
    apart = a.unsqueeze(-2) - b.unsqueeze(-3)
    if p == 2:
        return torch.sqrt((apart * apart).sum(-1))
    if p == 1:
        return apart.abs().sum(-1)
    if p == math.inf:
        return apart.abs().amax(-1)
    return (apart.abs() ** p).sum(-1) ** (1 / p)


def _are_tensor_operands(node: Node) -> bool:
    """Whether neither operand is a single constant, which would make it a function of one number."""
    operands: Any = node.args[:2]
    return not any(is_constant(operand) and fake_result(operand).numel() == 1 for operand in operands)


def _divide_with_rounding(a: Tensor, b: Tensor, rounding_mode: str | None = None) -> Tensor:
    ratio = a / b
    return {"floor": torch.floor, "trunc": torch.trunc}.get(rounding_mode or "", lambda x: x)(ratio)


def _are_real_tensors(node: Node) -> bool:
    """Whether both operands are real tensors; integer division has its own op."""
    values = [fake_result(operand) for operand in node.args[:2] if isinstance(operand, Node)]
    return len(values) == 2 and all(v.is_floating_point() for v in values) and _are_tensor_operands(node)


decompose_by(_pairwise_distances, aten._euclidean_dist.default)
decompose_by(  # norm 0 counts the elements that differ, which means nothing between int8 numbers
    _pairwise_distances,
    *torch_operators("_cdist_forward cdist"),
    when=lambda node: named_argument(node, "p") != 0,
)
decompose_by(torch.maximum, aten.fmax.default)
decompose_by(torch.minimum, aten.fmin.default)
decompose_by(_log_sum_exp, aten.logsumexp.default)
decompose_by(strided_diagonal, aten.diagonal.default)
decompose_by(lambda x: x < 0, aten.signbit.default)
decompose_by(lambda x: strided_diagonal(x).sum(), aten.trace.default)
for _decomposed, _target in (
    (_atan2, aten.atan2.default),
    (lambda a, b: torch.sqrt(a * a + b * b), aten.hypot.default),
    (lambda a, b: torch.maximum(a, b) + F.softplus(-(a - b).abs()), aten.logaddexp.default),
    (lambda a, b: torch.maximum(a, b) + torch.log2(1 + torch.exp2(-(a - b).abs())), aten.logaddexp2.default),
):
    decompose_by(_decomposed, _target, when=_are_tensor_operands)
for _decomposed, _target in (
    (lambda a, b: torch.where(b < 0, -a.abs(), a.abs()), aten.copysign.Tensor),
    (_divide_with_rounding, aten.div.Tensor_mode),
    (lambda a, b: torch.floor(a / b), aten.floor_divide.default),
    (lambda a, b: a - b * torch.trunc(a / b), aten.fmod.Tensor),
    (lambda a, b: a * torch.exp2(b), aten.ldexp.Tensor),
    (lambda a, b: a - b * torch.floor(a / b), aten.remainder.Tensor),
):
    decompose_by(_decomposed, _target, when=_are_real_tensors)
