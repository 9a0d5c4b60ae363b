# SPDX-License-Identifier: Apache-2.0
"""Raises attention masks such as -1e9 that are added to scores before a softmax. A mask slightly below the lowest
score gives the same probabilities and leaves int8 its resolution."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import permutations
from typing import Any

from torch.fx import GraphModule, Node

from pillion.importers.torch.fx_nodes import aten, calls, constant, constant_of, single_user
from pillion.importers.torch.observers import calls_of_observers, observer_of

MARGIN = 12.0
"""Distance of masked scores: exp(-12) is below a hundredth of an int8 step of a probability, for hundreds of
masked scores."""
MOVES = (aten.reshape.default, aten.permute.default)
SOFTMAXES = (aten.softmax.int, aten._safe_softmax.default)
MASKED = -1e9
"""Replaces minus infinity until the scores' range is known."""


@dataclass(frozen=True)
class _MaskedScores:
    """Scores plus a mask in front of a softmax, with their observers."""

    mask: Node
    mask_observer: Any
    scores: Any
    total: Any

    @property
    def lowest(self) -> float:
        """Lowest useful value of the mask."""
        return float(self.scores.min_val - self.scores.max_val) - MARGIN


def clamp_masks(prepared: GraphModule) -> None:
    """Raises masks that are lower than their observed scores require."""
    by_mask: dict[Node, list[_MaskedScores]] = {}
    for masked in _masked_scores(prepared):
        by_mask.setdefault(masked.mask, []).append(masked)
    raised = [_raise_mask(mask, sums) for mask, sums in by_mask.items() if len(sums) == len(mask.users)]
    if any(raised):
        prepared.recompile()


def _raise_mask(mask: Node, sums: list[_MaskedScores]) -> bool:
    """Raises one mask. Returns whether it was too low for all its sums."""
    lowest = min(m.lowest for m in sums)
    tensor = constant_of(mask.args[0])
    observer = sums[0].mask_observer
    if tensor is None or float(observer.min_val) >= lowest:
        return False
    mask.args = (constant(mask, tensor.clamp(min=lowest), "mask"),)
    observer.min_val.clamp_(min=lowest)
    observer.max_val.clamp_(min=lowest)
    for m in sums:
        m.total.min_val.clamp_(min=float(m.scores.min_val) + lowest)
    return True


def _masked_scores(prepared: GraphModule) -> Iterator[_MaskedScores]:
    observed = calls_of_observers(prepared)
    for add in calls(prepared.graph, [aten.add.Tensor]):
        total = _observer_on_the_way_to_softmax(prepared, add, observed)
        for scores, mask in permutations(add.args[:2]):
            of_mask, of_scores = _range_observer(prepared, mask), _range_observer(prepared, scores)
            if None not in (total, of_mask, of_scores) and constant_of(mask.args[0]) is not None:  # type: ignore[union-attr]  # observed nodes
                yield _MaskedScores(mask, of_mask, of_scores, total)  # type: ignore[arg-type]  # a node


def _range_observer(prepared: GraphModule, node: object) -> Any:
    """Returns the observer of a range that a node calls; None for other nodes."""
    observer = observer_of(prepared, node)
    return observer if hasattr(observer, "min_val") else None


def _observer_on_the_way_to_softmax(
    prepared: GraphModule, add: Node, observed: Mapping[Any, list[Node]]
) -> Any:
    """Returns the observer of a sum that only a softmax reads; None if it observes anything else."""
    path = path_to_softmax(add)
    observer = _range_observer(prepared, path[0]) if path else None
    return observer if observer is not None and set(observed[observer]) <= set(path) else None


def path_to_softmax(add: Node) -> list[Node]:
    """Returns the observers and moves between a sum and the softmax that alone reads it, and the softmax last;
    empty if there is none."""
    path, node = [], single_user(add)
    while node is not None and (node.op == "call_module" or node.target in MOVES):
        path.append(node)
        node = single_user(node)
    return [*path, node] if node is not None and node.target in SOFTMAXES else []
