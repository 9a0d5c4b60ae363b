# SPDX-License-Identifier: Apache-2.0
"""Decomposes padding with the image's own elements: reflected, replicated or circular."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from torch import Tensor
from torch.fx import Node

from pillion.importers.torch.fx_nodes import argument_of, aten, named_argument, per_axis
from pillion.importers.torch.rewrite.decompositions.static_gather import gather_static
from pillion.importers.torch.rewrite.decompositions.table import decompose_by

NUMPY = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}
"""Numpy's names of PyTorch's modes."""


def _decompose_pad(
    x: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None
) -> Tensor:
    """Pads from the last axis backwards; negative numbers crop. Padding that no max pool window sees alone
    replicates the edge."""
    for number in range(len(pad) // 2):
        before, after = pad[2 * number], pad[2 * number + 1]
        dim = x.dim() - 1 - number
        around = (max(before, 0), max(after, 0))
        positions: Any = np.pad(np.arange(x.shape[dim]), around, mode=NUMPY.get(mode, "edge"))  # type: ignore[call-overload]  # known modes
        cropped = positions[max(-before, 0) : len(positions) - max(-after, 0)].tolist()
        if cropped != list(range(x.shape[dim])):
            x = gather_static(x, dim, cropped)
    return x


MAXIMA = (aten.max_pool2d.default, aten.max_pool2d_with_indices.default)


def _pads_from_image(node: Node) -> bool:
    """Whether padding repeats pixels of the image, or is minus infinity and narrower than the windows of the max
    pools that alone read it: then no window holds padding only."""
    if named_argument(node, "mode") in NUMPY:
        return True
    if named_argument(node, "mode") != "constant" or named_argument(node, "value") != -math.inf:
        return False
    most = max(named_argument(node, "pad"))
    plain = [user.target in MAXIMA and argument_of(user, 4, 1) in (1, [1], [1, 1]) for user in node.users]
    return all(plain) and all(most < min(per_axis(argument_of(user, 1), 2)) for user in node.users)


decompose_by(_decompose_pad, aten.pad.default, when=_pads_from_image)
for _rank in (1, 2, 3):
    decompose_by(partial(_decompose_pad, mode="reflect"), getattr(aten, f"reflection_pad{_rank}d").default)
    decompose_by(partial(_decompose_pad, mode="replicate"), getattr(aten, f"replication_pad{_rank}d").default)
