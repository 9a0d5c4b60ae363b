# SPDX-License-Identifier: Apache-2.0
"""Narrows ranges that only softmaxes read: scores far below their row's largest have no int8 share, so no levels
are spent on them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from torch import Tensor
from torch.fx import GraphModule, Node

from pillion.importers.torch.fx_nodes import aten, constant_of, shape_of
from pillion.importers.torch.observers import calls_of_observers, observer_of
from pillion.importers.torch.quantize.outlier_clipping import HistogramRange
from pillion.importers.torch.rewrite.clamp_masks import MOVES, SOFTMAXES

LOST = 0.25
"""Maximum sum of a row's lost shares, as a fraction of a result's step."""


class RowMaximumRange(HistogramRange):
    """Observes the range of a softmax's operand and the least row maximum."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.least = math.inf

    def forward(self, x_orig: Tensor) -> Tensor:
        """Observes the rows and returns the tensor unchanged."""
        if x_orig.numel():
            self.least = min(self.least, float(x_orig.detach().amax(-1).min()))
        return super().forward(x_orig)


def clip_softmax_inputs(prepared: GraphModule) -> None:
    """Raises the lower ends of softmax operands, and of the tensors that are scaled to them, to where shares
    vanish."""
    observed = calls_of_observers(prepared)
    for observer, nodes in observed.items():
        softmaxes = _readers_through_moves(nodes) if isinstance(observer, RowMaximumRange) else []
        if softmaxes and all(reader.target in SOFTMAXES for reader in softmaxes):
            lost = max(_negligible_score_distance(prepared, softmax) for softmax in softmaxes)
            lowest = min(0.0, observer.least - lost)
            observer.min_val.clamp_(min=lowest)
            for factor, before in _scaled_observers(prepared, nodes):
                if _readers_through_moves(observed[before]) == [
                    node.args[0] for node in nodes if _is_product(node.args[0])
                ]:
                    before.min_val.clamp_(min=lowest / factor)


def _readers_through_moves(nodes: list[Node]) -> list[Node]:
    """Readers of an observed tensor, through moves; empty if a move is observed elsewhere."""
    readers = [user for node in nodes for user in node.users if user not in nodes]
    moved = {user for reader in readers if reader.target in MOVES for user in reader.users}
    return [reader for reader in readers if reader.target not in MOVES] if moved <= set(nodes) else []


def _negligible_score_distance(prepared: GraphModule, softmax: Node) -> float:
    """Returns the distance below a row's largest score at which shares vanish."""
    shown = next(iter(softmax.users), None)
    observer = observer_of(prepared, shown)
    step = float(observer.calculate_qparams()[0]) if observer is not None else 1.0
    return math.log(shape_of(softmax)[-1] / (LOST * step))


def _is_product(node: Any) -> bool:
    return node.target is aten.mul.Tensor


def _scaled_observers(prepared: GraphModule, nodes: Iterable[Node]) -> list[tuple[float, HistogramRange]]:
    """Returns the positive factors that scale tensors to scores, with the observers of these tensors."""
    scaled = []
    products: list[Any] = [node.args[0] for node in nodes if _is_product(node.args[0])]
    for product in products:
        for operand, factor in (product.args[:2], product.args[1::-1]):
            tensor = constant_of(factor.args[0]) if observer_of(prepared, factor) is not None else None
            observer = observer_of(prepared, operand)
            if (
                tensor is not None
                and tensor.numel() == 1
                and float(tensor) > 0
                and isinstance(observer, HistogramRange)
            ):
                scaled.append((float(tensor), observer))
    return scaled
