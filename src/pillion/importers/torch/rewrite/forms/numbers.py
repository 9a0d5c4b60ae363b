# SPDX-License-Identifier: Apache-2.0
"""Functions of two tensors, element by element, and of all numbers along axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.fx import Node

from pillion.importers.torch.nodes import aten, is_constant, value_of
from pillion.importers.torch.rewrite.forms.taken import diagonal


def _sum_of_exponentials(a: Tensor, b: Tensor) -> Tensor:
    """The larger one and a little more: nothing overflows."""
    return torch.maximum(a, b) + F.softplus(-(a - b).abs())


def _log_sum_exp(x: Tensor, dim: Sequence[int] | int, keepdim: bool = False) -> Tensor:
    axes = [dim] if isinstance(dim, int) else list(dim)
    largest = x.amax(axes, keepdim=True)
    rest = torch.log((x - largest).exp().sum(axes, keepdim=True))
    y = largest + rest
    return y if keepdim else y.squeeze(axes)


def _are_tensors(node: Node) -> bool:
    """Neither operand is one number: with one it is a function of the other one."""
    operands: Any = node.args[:2]
    return not any(is_constant(operand) and value_of(operand).numel() == 1 for operand in operands)


FORMS: dict[Any, Callable[..., Any]] = {
    aten.diagonal.default: diagonal,
    aten.fmax.default: torch.maximum,
    aten.fmin.default: torch.minimum,
    aten.hypot.default: lambda a, b: torch.sqrt(a * a + b * b),
    aten.logaddexp.default: _sum_of_exponentials,
    aten.logsumexp.default: _log_sum_exp,
    aten.trace.default: lambda x: diagonal(x).sum(),
}
CONDITIONS: dict[Any, Callable[[Node], bool]] = {
    aten.hypot.default: _are_tensors,
    aten.logaddexp.default: _are_tensors,
}
