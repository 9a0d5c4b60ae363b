# SPDX-License-Identifier: Apache-2.0
"""Lowers scores that a computed mask removes from a softmax.

Minus infinity or -1e9 would ruin the scale of int8 scores. The lowest level of the scores, MARGIN below every
row's largest, gives the same probabilities. (Constant masks: `clamp_masks.py`.)"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from pillion.importers.torch import fx_nodes as fx
from pillion.importers.torch.fx_nodes import aten
from pillion.importers.torch.rewrite.clamp_masks import MARGIN, path_to_softmax
from pillion.importers.torch.rewrite.patterns import Call, Number, Operand, find_match, number_of

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
    for node in fx.calls(module.graph):
        folded = _fold_into_selection(node)
        if folded is not None:
            fx.replace(node, folded)
    for node in fx.calls(module.graph, [aten.where.self, aten.add.Tensor]):
        match = _match_selected_mask(node) if node.target is aten.where.self else _match_added_mask(node)
        path = path_to_softmax(node) if match is not None else []
        if match is not None and len(path) == 1:
            scores, mask, where = match
            dim: Any = path[0].args[1]
            fx.replace(
                node, fx.call(node, masked_scores, scores, mask, int(dim) % len(fx.shape_of(node)), where)
            )


NUMBERS = frozenset(
    getattr(getattr(aten, name), kind)
    for name in ("add", "sub", "mul", "div", "rsub")
    for kind in ("Tensor", "Scalar")
)
MOVES_OF_MASKS = (aten.reshape.default, aten.permute.default, aten.slice.Tensor)


SELECTION = Call((aten.where.self,), (Operand("mask"), Number("first"), Number("second")))
"""A selection between two numbers."""
ADDED_MASK = Call((aten.add.Tensor,), (Operand("scores"), SELECTION), commutes=True)


def _fold_into_selection(node: Node) -> Node | None:
    """Folds moves and arithmetic into a selection between two constants."""
    if node.target in MOVES_OF_MASKS and _is_selection(node.args[0]):
        mask, a, b = node.args[0].args  # type: ignore[union-attr]  # a choice
        return fx.call(node, aten.where.self, fx.call(node, node.target, mask, *node.args[1:]), a, b)
    if node.target is aten.cat.default and _is_repeated(node.args[0]):
        mask, a, b = node.args[0][0].args  # type: ignore[index, union-attr]  # a list of choices
        flags = fx.call(node, node.target, [mask] * len(node.args[0]), *node.args[1:])  # type: ignore[arg-type]  # a list
        return fx.call(node, aten.where.self, flags, a, b)
    if node.target not in NUMBERS or node.kwargs or len(node.args) != 2:
        return None
    first, second = node.args
    choice = first if _is_selection(first) else second
    if not _is_selection(choice) or any(n is not choice and number_of(n) is None for n in (first, second)):
        return None
    mask, *numbers = choice.args  # type: ignore[union-attr]  # a choice
    values = [_evaluate_with_choice(node, choice, number) for number in numbers]
    constants = [fx.constant(node, number, f"{node.name}_number") for number in values]
    return fx.call(node, aten.where.self, mask, *constants)


def _is_repeated(operands: Any) -> bool:
    return all(operand is operands[0] for operand in operands) and _is_selection(operands[0])


def _is_selection(node: Any) -> bool:
    return find_match(SELECTION, node) is not None


def _evaluate_with_choice(node: Node, choice: Any, number: Any) -> Tensor:
    """Evaluates a call with a selection replaced by one of its numbers."""
    operands = [fx.constant_of(number if n is choice else n) if isinstance(n, Node) else n for n in node.args]
    tensors = [n.reshape(()) if isinstance(n, Tensor) else n for n in operands]
    result: Tensor = node.target(*tensors)  # type: ignore[operator]  # a call_function
    return result.to(torch.float32)


def _match_added_mask(node: Node) -> tuple[Node, Any, bool] | None:
    """Scores, mask and polarity of a sum that adds zero or minus infinity."""
    found = find_match(ADDED_MASK, node)
    if (
        found is None
        or not isinstance(found["scores"], Node)
        or fx.shape_of(found["scores"]) != fx.shape_of(node)
    ):
        return None
    numbers = (found["first"], found["second"])
    is_mask = max(numbers) == 0.0 and min(numbers) < FAR
    return (found["scores"], found["mask"], numbers[0] < numbers[1]) if is_mask else None


def _match_selected_mask(node: Node) -> tuple[Node, Any, bool] | None:
    """Scores, mask and polarity of a selection between scores and minus infinity."""
    mask, a, b = node.args
    for masked, scores, where in ((a, b, True), (b, a, False)):
        tensor = fx.constant_of(masked)
        is_far = tensor is not None and tensor.is_floating_point() and bool((tensor < FAR).all())
        if is_far and isinstance(scores, Node) and fx.shape_of(scores) == fx.shape_of(node):
            return scores, mask, where
    return None
