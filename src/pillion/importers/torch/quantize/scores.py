# SPDX-License-Identifier: Apache-2.0
"""Ranges of what a softmax alone reads. A score far below the largest of its row has no share that int8 could hold, and how far below it is makes no
difference: where the largest score of every row is high, all steps can be spent above what is lost anyway."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from torch import Tensor
from torch.fx import GraphModule, Node

from pillion.importers.torch.nodes import aten, constant_of, shape_of
from pillion.importers.torch.quantize.finer import observer_of
from pillion.importers.torch.quantize.histogram import CountedRange
from pillion.importers.torch.rewrite.masks import MOVES, SOFTMAXES

LOST = 0.25
"""The part of a step of the result that all lost shares of a row have together at most."""


class RangeOfScores(CountedRange):
    """An observer of what a softmax reads: of its range, and of the least that is the largest of a row."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.least = math.inf

    def forward(self, x_orig: Tensor) -> Tensor:
        """Looks at the rows, and gives the tensor back as it is."""
        if x_orig.numel():
            self.least = min(self.least, float(x_orig.detach().amax(-1).min()))
        return super().forward(x_orig)


def cut_lost_scores(prepared: GraphModule) -> None:
    """Raises the lower ends of what softmaxes alone read to where shares are lost anyway; so of what is scaled for that."""
    observed: dict[Any, list[Node]] = {}
    for node in prepared.graph.find_nodes(op="call_module"):
        observed.setdefault(observer_of(prepared, node), []).append(node)
    for observer, nodes in observed.items():
        softmaxes = _readers(nodes) if isinstance(observer, RangeOfScores) else []
        if softmaxes and all(reader.target in SOFTMAXES for reader in softmaxes):
            lost = max(_lost(prepared, softmax) for softmax in softmaxes)
            lowest = min(0.0, observer.least - lost)
            _raise(observer, lowest)
            for factor, before in _scaled(prepared, nodes):
                if _readers(observed[before]) == [
                    node.args[0] for node in nodes if _is_product(node.args[0])
                ]:
                    _raise(before, lowest / factor)


def _readers(nodes: list[Node]) -> list[Node]:
    """What reads a tensor that is observed here and there, moved or not; nothing, if a move leaves these places."""
    readers = [user for node in nodes for user in node.users if user not in nodes]
    moved = {user for reader in readers if reader.target in MOVES for user in reader.users}
    return [reader for reader in readers if reader.target not in MOVES] if moved <= set(nodes) else []


def _lost(prepared: GraphModule, softmax: Node) -> float:
    """How far below the largest score of a row others are lost."""
    shown = next(iter(softmax.users), None)
    observer = observer_of(prepared, shown)
    step = float(observer.calculate_qparams()[0]) if observer is not None else 1.0
    return math.log(shape_of(softmax)[-1] / (LOST * step))


def _raise(observer: Any, lowest: float) -> None:
    observer.min_val.clamp_(min=lowest)


def _is_product(node: Any) -> bool:
    return node.target is aten.mul.Tensor


def _scaled(prepared: GraphModule, nodes: Iterable[Node]) -> list[tuple[float, CountedRange]]:
    """What is multiplied by a positive number to become scores: by which number, and what observes it."""
    found = []
    products: list[Any] = [node.args[0] for node in nodes if _is_product(node.args[0])]
    for product in products:
        for operand, factor in (product.args[:2], product.args[1::-1]):
            held = constant_of(factor.args[0]) if observer_of(prepared, factor) is not None else None
            observer = observer_of(prepared, operand)
            if (
                held is not None
                and held.numel() == 1
                and float(held) > 0
                and isinstance(observer, CountedRange)
            ):
                found.append((float(held), observer))
    return found
