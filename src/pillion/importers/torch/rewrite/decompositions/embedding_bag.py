# SPDX-License-Identifier: Apache-2.0
"""Decomposes embedding bags into lookups and reductions."""

from __future__ import annotations

import itertools
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.fx import Node

from pillion.importers.torch.fx_nodes import argument_of, aten, evaluate_constant, is_constant, shape_of
from pillion.importers.torch.rewrite.decompositions.table import decompose_by

MEAN, LARGEST = 1, 2
"""Modes; 0 is the sum."""


def _decompose_embedding_bag(
    weight: Tensor,
    words: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    factors: Tensor | None = None,
    include_last_offset: bool = False,
    padding: int = -1,
) -> tuple[Tensor, ...]:
    """Reduces bags of equal size; padding words do not count."""
    words = words.reshape(offsets.numel() - include_last_offset, -1)
    rows = F.embedding(words, weight)
    counted = None if padding < 0 else words != padding
    nothing = words.new_zeros(0)
    return _reduce_bag(rows, weight, mode, factors, counted), nothing, nothing, nothing


def _reduce_bag(
    rows: Tensor, weight: Tensor, mode: int, factors: Tensor | None, counted: Tensor | None
) -> Tensor:
    if mode == LARGEST:
        return rows.amax(1) if counted is None else _bag_maximum(rows, weight, counted)
    if factors is not None:
        rows = rows * factors.reshape(*rows.shape[:2], 1)
    if counted is None:
        return rows.mean(1) if mode == MEAN else rows.sum(1)
    flags = counted.to(torch.float32)
    total = (rows * flags.unsqueeze(-1)).sum(1)
    return total / flags.sum(1, keepdim=True).clamp(min=1.0) if mode == MEAN else total


def _bag_maximum(rows: Tensor, weight: Tensor, counted: Tensor) -> Tensor:
    """Returns the maximum over each bag; 0 for an empty bag."""
    largest = torch.where(counted.unsqueeze(-1), rows, weight.amin()).amax(1)
    return torch.where(counted.to(torch.float32).amax(1, keepdim=True) > 0, largest, 0.0)


def _are_bags_even(node: Node) -> bool:
    """Whether all bags have the same, known number of words."""
    offsets: Any = argument_of(node, 2)
    if not is_constant(offsets):
        return False
    words: Any = node.args[1]
    begins = [*evaluate_constant(offsets).tolist(), *([] if argument_of(node, 7) else [shape_of(words)[0]])]
    sizes = {after - before for before, after in itertools.pairwise(begins)}
    return len(sizes) == 1 and 0 not in sizes


BAGS = (aten._embedding_bag.default, aten._embedding_bag_forward_only.default)
decompose_by(_decompose_embedding_bag, *BAGS, when=_are_bags_even)
