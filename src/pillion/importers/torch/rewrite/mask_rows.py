# SPDX-License-Identifier: Apache-2.0
"""Canonicalizes attention masks row by row; a row is the scores of one softmax.

A softmax ignores a constant added to its whole row, so a fully masked row is not masked. PyTorch's result there
depends on the mask: zeros for minus infinity in `scaled_dot_product_attention`, NaN elsewhere, and for other masks
equal probabilities or the probabilities of the scores, depending on float32 rounding. Each case is lowered to its
result."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from pillion.errors import PillionError
from pillion.importers.torch import fx_nodes as fx
from pillion.importers.torch.fx_nodes import aten
from pillion.importers.torch.rewrite.clamp_masks import MARGIN, MASKED, path_to_softmax

KEPT_TO = -(2.0**17)
"""Masks down to this keep the scores to 2^-7 in float32, about an int8 step of a probability."""
LOST_FROM = -(2.0**29)
"""Masks from here on erase scores of up to 32."""

FAR = -512.0
"""Below this, adding to a masked score and replacing it give the same probability."""


@dataclass(frozen=True)
class _Rows:
    """A mask as its softmax reads it."""

    mask: Tensor
    """The mask in the sum's shape."""
    places: Tensor
    """Index in the sum of each element that the softmax reads."""
    axis: int
    highest: Tensor
    """Largest value of each row."""

    def spread_over_rows(self, rows: Tensor) -> Tensor:
        """Spreads one value per row over the row's elements, in the sum's shape."""
        spread = torch.empty(self.mask.numel(), dtype=rows.dtype)
        spread[self.places.reshape(-1)] = rows.expand(self.places.shape).reshape(-1)
        return spread.reshape(self.mask.shape)


def lower_masks(module: GraphModule, *, training: bool = False) -> None:
    """Shifts the rows of constant masks so that they end at zero or above and hold only finite numbers."""
    for node in fx.calls(module.graph, [aten.add.Tensor, aten.sub.Tensor]):
        mask = _mask_of(node, training)
        if mask is not None:
            _lower_mask(_move_mask_behind(node, training), training)
    for softmax in fx.calls(module.graph, [aten._safe_softmax.default]):
        fx.replace(softmax, fx.call(softmax, aten.softmax.int, *softmax.args[:2]))


def _mask_of(node: Node, training: bool) -> Node | None:
    """Returns the operand of a sum or difference that is constant and far below zero."""
    operands = node.args[:2] if node.target is aten.add.Tensor else node.args[1:2]
    for operand in operands:
        tensor = fx.fixed_tensor(operand, training)
        if tensor is None or not tensor.numel() or not tensor.is_floating_point():
            continue
        lowest = tensor.detach().min() if node.target is aten.add.Tensor else -tensor.detach().max()
        if float(lowest) < -MARGIN:
            return operand  # type: ignore[return-value]  # what holds a constant is a node
    return None


def _move_mask_behind(node: Node, training: bool) -> Node:
    """Moves a mask behind the constants that are added to, or multiplied by, the masked scores."""
    if node.target is aten.sub.Tensor:
        node.target = aten.add.Tensor
        node.args = (node.args[0], fx.constant(node, -fx.constant_tensor(node.args[1]), "mask"))
    mask, scores = _mask_and_scores(node)
    user = fx.single_user(node)
    operand = next((a for a in user.args[:2] if a is not node), None) if user else None
    tensor = fx.fixed_tensor(operand, training)
    if user is None or tensor is None or fx.shape_of(user) != fx.shape_of(node):
        return node
    if user.target is aten.add.Tensor:
        summed = fx.call(
            user, aten.add.Tensor, scores, fx.constant(user, fx.constant_tensor(mask) + tensor, "mask")
        )
    elif user.target is aten.mul.Tensor and bool((tensor > 0).all()):
        scaled = _scale_scores(user, scores, operand)
        summed = fx.call(
            user, aten.add.Tensor, scaled, fx.constant(user, fx.constant_tensor(mask) * tensor, "mask")
        )
    else:
        return node
    fx.replace(user, summed)
    return _move_mask_behind(summed, training)


def _scale_scores(before: Node, scores: Node, factor: Any) -> Node:
    """Scales scores before their zeros are applied."""
    if _zeroing_factors(scores) is None:
        return fx.call(before, aten.mul.Tensor, scores, factor)
    scaled = fx.call(before, aten.mul.Tensor, scores.args[0], factor)
    return fx.call(before, aten.mul.Tensor, scaled, scores.args[1])


def _mask_and_scores(node: Node) -> tuple[Node, Node]:
    """Returns the mask and the scores."""
    first, second = node.args[:2]
    return (first, second) if fx.constant_of(first) is not None else (second, first)  # type: ignore[return-value]  # nodes


def _lower_mask(total: Node, training: bool) -> None:
    path = path_to_softmax(total)
    mask = _mask_of(total, training)
    if not path or mask is None:
        return
    rows = _mask_rows(fx.constant_tensor(mask), total, path)
    if bool(torch.isnan(rows.highest).any()):
        return  # refused as every constant that is not finite
    scores = next(a for a in total.args[:2] if a is not mask)
    source, unmasked = _scores_before_zeroing(scores, rows.mask)
    empty, lost = rows.highest == -math.inf, rows.highest <= LOST_FROM
    _refuse_intermediate_masks(rows, unmasked, path[-1])
    shift = rows.spread_over_rows(torch.where(empty, 0.0, -rows.highest.clamp(max=0.0)))
    settled = torch.where(rows.spread_over_rows(empty), 0.0, rows.mask + shift).clamp(min=MASKED)
    erased = (~unmasked | rows.spread_over_rows(lost & ~empty)) & (settled > FAR)
    if bool(erased.any()):
        ones = (1,) * erased.dim()
        factors = _remove_repetitions((~erased).to(settled.dtype), ones)
        source = fx.call(total, aten.mul.Tensor, source, fx.constant(total, factors, "rows"))
    total.args = (
        source,
        fx.constant(total, _remove_repetitions(settled, fx.constant_tensor(mask).shape), "mask"),
    )
    if bool(empty.any()):
        _zero_empty_rows(path[-1], empty)


def _scores_before_zeroing(scores: Any, mask: Tensor) -> tuple[Any, Tensor]:
    """Scores before zeroing, and which elements are kept."""
    factors = _zeroing_factors(scores)
    if factors is None:
        return scores, torch.ones(mask.shape, dtype=torch.bool)
    return scores.args[0], (factors != 0).expand(mask.shape)


def _zeroing_factors(scores: Any) -> Tensor | None:
    """Factors of a product that zeroes scores; None for other products."""
    is_product = isinstance(scores, Node) and scores.target is aten.mul.Tensor and len(scores.users) == 1
    tensor = fx.constant_of(scores.args[1]) if is_product else None
    is_known = tensor is not None and bool(((tensor == 0) | (tensor == 1)).all())
    return tensor if is_known and fx.shape_of(scores.args[0]) == fx.shape_of(scores) else None


def _mask_rows(mask: Tensor, total: Node, path: Sequence[Node]) -> _Rows:
    full = mask.expand(fx.shape_of(total))
    positions, moved = torch.arange(full.numel()).reshape(full.shape), full
    for move in path[:-1]:
        positions, moved = (move.target(tensor, *move.args[1:]) for tensor in (positions, moved))  # type: ignore[operator]  # a call
    axis = int(path[-1].args[1])  # type: ignore[arg-type]  # the schema says int
    return _Rows(full, positions, axis, moved.amax(axis, keepdim=True))


def _remove_repetitions(full: Tensor, wanted_shape: Sequence[int]) -> Tensor:
    """Removes repetitions along the axes with size 1 in `wanted_shape`."""
    shape = (1,) * (full.dim() - len(wanted_shape)) + tuple(wanted_shape)
    for axis, size in enumerate(shape):
        first = full.narrow(axis, 0, 1)
        if size == 1 and bool((full == first).all()):
            full = first
    return full.contiguous()


def _refuse_intermediate_masks(rows: _Rows, unmasked: Tensor, softmax: Node) -> None:
    highest = torch.where(unmasked, rows.spread_over_rows(rows.highest), 0.0)
    between = (highest > LOST_FROM) & (highest < KEPT_TO)
    if bool(between.any()):
        raise PillionError(
            "a mask leaves some of the scores of a row that it masks as a whole",
            rule=f"where all keys are masked, the mask is -inf, {LOST_FROM:.2g} or less, or {KEPT_TO:.2g} or more",
            here=f"{float(highest[between][0]):.3g}: float32 rounds the scores beside it  ({fx.source_line(softmax)})",
            help="mask with -inf, or leave each query one key at least",
        )


def _zero_empty_rows(softmax: Node, empty: Tensor) -> None:
    """Zeroes rows without any key, as `scaled_dot_product_attention` does; a softmax would return NaN."""
    if softmax.target is not aten._safe_softmax.default:
        raise PillionError(
            "a softmax over nothing but minus infinity is not a number",
            rule="a mask leaves each row of scores one finite value at least",
            here=f"{int(empty.sum())} of {empty.numel()} rows are -inf throughout  ({fx.source_line(softmax)})",
            help="F.scaled_dot_product_attention answers zeros for such rows; a mask of -1e9 gives equal probabilities",
        )
    full = (~empty).to(torch.float32).expand(*empty.shape)
    row_factors = fx.constant(softmax, _remove_repetitions(full, (1,) * full.dim()), "rows")
    users = list(softmax.users)
    with softmax.graph.inserting_after(softmax):
        zeroed = softmax.graph.call_function(aten.mul.Tensor, (softmax, row_factors))
    zeroed.meta.update(softmax.meta)
    for user in users:
        user.replace_input_with(softmax, zeroed)
