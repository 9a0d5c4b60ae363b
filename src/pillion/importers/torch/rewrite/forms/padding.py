# SPDX-License-Identifier: Apache-2.0
"""Pads with what is in the image: mirrored, its edges, or its other side."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from torch import Tensor
from torch.fx import Node

from pillion.importers.torch.nodes import argument, aten, named_argument
from pillion.importers.torch.rewrite.forms.taken import taken

NUMPY = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}
"""Modes of PyTorch, and what numpy calls them."""


def _pad(x: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """The list goes from the last axis backwards; negative numbers crop. What a maximum does not see is as if its edge were there again."""
    for number in range(len(pad) // 2):
        before, after = pad[2 * number], pad[2 * number + 1]
        dim = x.dim() - 1 - number
        around = (max(before, 0), max(after, 0))
        places: Any = np.pad(np.arange(x.shape[dim]), around, mode=NUMPY.get(mode, "edge"))  # type: ignore[call-overload]  # known modes
        kept = places[max(-before, 0) : len(places) - max(-after, 0)].tolist()
        if kept != list(range(x.shape[dim])):
            x = taken(x, dim, kept)
    return x


def _in_mode(mode: str) -> Callable[[Tensor, Sequence[int]], Tensor]:
    return lambda x, pad: _pad(x, pad, mode)


def _is_from_the_image(node: Node) -> bool:
    return named_argument(node, "mode") in NUMPY or _is_unseen(node)


MAXIMA = (aten.max_pool2d.default, aten.max_pool2d_with_indices.default)


def _is_unseen(node: Node) -> bool:
    """Whether it pads by less than the windows of the max pools that alone read it, with minus infinity, so that no window sees it alone."""
    if named_argument(node, "mode") != "constant" or named_argument(node, "value") != -math.inf:
        return False
    most = max(named_argument(node, "pad"))
    plain = [user.target in MAXIMA and argument(user, 4, 1) in (1, [1], [1, 1]) for user in node.users]
    return all(plain) and all(most < min(_two(argument(user, 1))) for user in node.users)


def _two(given: int | Sequence[int]) -> list[int]:
    return [given] if isinstance(given, int) else list(given)


FORMS: dict[Any, Callable[..., Any]] = {
    aten.pad.default: _pad,
    **{getattr(aten, f"reflection_pad{rank}d").default: _in_mode("reflect") for rank in (1, 2, 3)},
    **{getattr(aten, f"replication_pad{rank}d").default: _in_mode("replicate") for rank in (1, 2, 3)},
}
CONDITIONS: dict[Any, Callable[[Node], bool]] = {aten.pad.default: _is_from_the_image}
