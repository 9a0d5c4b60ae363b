# SPDX-License-Identifier: Apache-2.0
"""Lowers scores that a computed mask removes from a softmax.

Minus infinity or -1e9 would ruin the scale of int8 scores. The lowest level of the scores, MARGIN below every
row's largest, gives the same probabilities. (Constant masks: `clamp_masks.py`.)"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from pillion.importers.torch.fx_nodes import (
    aten,
    call,
    calls,
    constant,
    constant_of,
    replace,
    shape_of,
)
from pillion.importers.torch.rewrite.clamp_masks import MARGIN, path_to_softmax

FAR = -1e3
"""Numbers below this count as minus infinity."""


def masked_scores(scores: Tensor, mask: Tensor, dim: int, where: bool) -> Tensor:
    """Returns the scores, and a value too low to count where the mask equals `where`."""
    taken = mask if where else ~mask
    row_maxima = scores.masked_fill(taken, -torch.inf).amax(dim, keepdim=True)
    lowest = torch.where(row_maxima > -torch.inf, row_maxima, scores.amax()).amin() - MARGIN
    return torch.where(taken, torch.minimum(lowest, scores.amin()).detach(), scores)


def lower_computed_masks(module: GraphModule) -> None:
    """Lowers selections between scores and minus infinity, in front of a softmax, to `masked_scores`."""
    for node in calls(module.graph):
        folded = _fold_into_selection(node)
        if folded is not None:
            replace(node, folded)
    for node in calls(module.graph, [aten.where.self, aten.add.Tensor]):
        match = _match_selected_mask(node) if node.target is aten.where.self else _match_added_mask(node)
        path = path_to_softmax(node) if match is not None else []
        if match is not None and len(path) == 1:
            scores, mask, where = match
            dim: Any = path[0].args[1]
            replace(node, call(node, masked_scores, scores, mask, int(dim) % len(shape_of(node)), where))


NUMBERS = frozenset(
    getattr(getattr(aten, name), kind)
    for name in ("add", "sub", "mul", "div", "rsub")
    for kind in ("Tensor", "Scalar")
)
MOVES_OF_MASKS = (aten.reshape.default, aten.permute.default, aten.slice.Tensor)


def _fold_into_selection(node: Node) -> Node | None:
    """Folds moves and arithmetic into a selection between two constants."""
    if node.target in MOVES_OF_MASKS and _selects_between_numbers(node.args[0]):
        mask, a, b = node.args[0].args  # type: ignore[union-attr]  # a choice
        return call(node, aten.where.self, call(node, node.target, mask, *node.args[1:]), a, b)
    if node.target is aten.cat.default and _is_repeated(node.args[0]):
        mask, a, b = node.args[0][0].args  # type: ignore[index, union-attr]  # a list of choices
        flags = call(node, node.target, [mask] * len(node.args[0]), *node.args[1:])  # type: ignore[arg-type]  # a list
        return call(node, aten.where.self, flags, a, b)
    if node.target not in NUMBERS or node.kwargs or len(node.args) != 2:
        return None
    first, second = node.args
    choice = first if _selects_between_numbers(first) else second
    if not _selects_between_numbers(choice) or not all(n is choice or _is_number(n) for n in (first, second)):
        return None
    mask, *numbers = choice.args  # type: ignore[union-attr]  # a choice
    values = [_evaluate_with_choice(node, choice, number) for number in numbers]
    constants = [constant(node, number, f"{node.name}_number") for number in values]
    return call(node, aten.where.self, mask, *constants)


def _is_repeated(operands: Any) -> bool:
    return all(operand is operands[0] for operand in operands) and _selects_between_numbers(operands[0])


def _evaluate_with_choice(node: Node, choice: Any, number: Any) -> Tensor:
    """Evaluates a call with a selection replaced by one of its numbers."""
    operands = [constant_of(number if n is choice else n) if isinstance(n, Node) else n for n in node.args]
    tensors = [n.reshape(()) if isinstance(n, Tensor) else n for n in operands]
    result: Tensor = node.target(*tensors)  # type: ignore[operator]  # a call_function
    return result.to(torch.float32)


def _selects_between_numbers(node: Any) -> bool:
    return isinstance(node, Node) and node.target is aten.where.self and all(map(_is_number, node.args[1:]))


def _is_number(operand: Any) -> bool:
    tensor = constant_of(operand)
    if tensor is None:
        return isinstance(operand, (int, float))
    return tensor.numel() == 1 and tensor.is_floating_point()


def _match_added_mask(node: Node) -> tuple[Node, Any, bool] | None:
    """Scores, mask and polarity of a sum that adds zero or minus infinity."""
    for scores, added in (node.args[:2], node.args[1::-1]):
        if (
            _selects_between_numbers(added)
            and isinstance(scores, Node)
            and shape_of(scores) == shape_of(node)
        ):
            mask, *numbers = added.args  # type: ignore[union-attr]  # a choice
            a, b = (float(constant_of(number)) for number in numbers)  # type: ignore[arg-type]  # constants
            if {a, b} != {0.0} and 0.0 in (a, b) and min(a, b) < FAR:
                return scores, mask, a < b
    return None


def _match_selected_mask(node: Node) -> tuple[Node, Any, bool] | None:
    """Scores, mask and polarity of a selection between scores and minus infinity."""
    mask, a, b = node.args
    for masked, scores, where in ((a, b, True), (b, a, False)):
        tensor = constant_of(masked)
        is_far = tensor is not None and tensor.is_floating_point() and bool((tensor < FAR).all())
        if is_far and isinstance(scores, Node) and shape_of(scores) == shape_of(node):
            return scores, mask, where
    return None
