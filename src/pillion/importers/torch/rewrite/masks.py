# SPDX-License-Identifier: Apache-2.0
"""Masks of attention: constants such as -1e9 that are added to scores before a softmax. In int8 they would leave nothing of the
scores; a mask that is as low as the scores reach, and a bit, has the same probabilities."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import permutations
from typing import Any

from torch import nn
from torch.fx import GraphModule, Node

from pillion.importers.torch.nodes import aten, calls, constant, constant_of, single_user

MARGIN = 12.0
"""exp(-12) is less than a hundredth of what a probability in int8 can tell apart, for hundreds of masked scores."""
MOVES = (aten.reshape.default, aten.permute.default)
SOFTMAXES = (aten.softmax.int, aten._safe_softmax.default)
MASKED = -1e9
"""What stands for minus infinity until the scores are known."""


@dataclass(frozen=True)
class _Masked:
    """Scores plus a mask, on their way to a softmax, with their observers."""

    mask: Node
    mask_observer: Any
    scores: Any
    total: Any

    @property
    def lowest(self) -> float:
        """Gives the number below which the mask need not go."""
        return float(self.scores.min_val - self.scores.max_val) - MARGIN


def limit_masks(prepared: GraphModule) -> None:
    """Raises masks that are lower than they need to be, where their ranges have been observed."""
    found: dict[Node, list[_Masked]] = {}
    for masked in _masked(prepared):
        found.setdefault(masked.mask, []).append(masked)
    raised = [_raise(prepared, mask, sums) for mask, sums in found.items() if len(sums) == len(mask.users)]
    if any(raised):
        prepared.recompile()


def _raise(prepared: GraphModule, mask: Node, sums: list[_Masked]) -> bool:
    """Raises one mask, if that is lower than any of the sums needs it to be."""
    lowest = min(m.lowest for m in sums)
    held = constant_of(mask.args[0])
    observer = sums[0].mask_observer
    if held is None or float(observer.min_val) >= lowest:
        return False
    mask.args = (constant(prepared, mask, held.clamp(min=lowest), "mask"),)
    observer.min_val.clamp_(min=lowest)
    observer.max_val.clamp_(min=lowest)
    for m in sums:
        m.total.min_val.clamp_(min=float(m.scores.min_val) + lowest)
    return True


def _masked(prepared: GraphModule) -> Iterator[_Masked]:
    observed: dict[nn.Module, list[Node]] = {}
    for node in prepared.graph.find_nodes(op="call_module"):
        observed.setdefault(_observer(prepared, node), []).append(node)
    for add in calls(prepared.graph, [aten.add.Tensor]):
        total = _observer_on_the_way_to_softmax(prepared, add, observed)
        for scores, mask in permutations(add.args[:2]):
            of_mask, of_scores = _observer(prepared, mask), _observer(prepared, scores)
            if None not in (total, of_mask, of_scores) and constant_of(mask.args[0]) is not None:  # type: ignore[union-attr]  # observed nodes
                yield _Masked(mask, of_mask, of_scores, total)  # type: ignore[arg-type]  # a node


def _observer(prepared: GraphModule, node: object) -> Any:
    """What observes a node's operand, if the node does that."""
    if not isinstance(node, Node) or node.op != "call_module":
        return None
    observer = prepared.get_submodule(str(node.target))
    return observer if hasattr(observer, "min_val") else None


def _observer_on_the_way_to_softmax(
    prepared: GraphModule, add: Node, observed: Mapping[nn.Module, list[Node]]
) -> Any:
    """The observer of a sum that goes to a softmax; none if it observes anything else."""
    way = way_to_softmax(add)
    observer = _observer(prepared, way[0]) if way else None
    return observer if observer is not None and set(observed[observer]) <= set(way) else None


def way_to_softmax(add: Node) -> list[Node]:
    """Gives what lies between a sum and the softmax that alone reads it: observers and moves. The softmax comes last."""
    way, node = [], single_user(add)
    while node is not None and (node.op == "call_module" or node.target in MOVES):
        way.append(node)
        node = single_user(node)
    return [*way, node] if node is not None and node.target in SOFTMAXES else []
