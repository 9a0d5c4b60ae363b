# SPDX-License-Identifier: Apache-2.0
"""Decompositions of operators, a file for each family: functions of tensors that are traced in place of a call.

A decomposition has the operator's arguments. `CONDITIONS` restricts it to some calls; the others stay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.fx import Node

from pillion.importers.torch.rewrite.decompositions import (
    dynamic_weights,
    embedding_bag,
    norms,
    padding,
    pairwise,
    pools,
    products,
    resizes,
    scatter,
    search_sorted,
    statistics,
    unpool,
    volumes,
    warps,
)

PARTS = (
    embedding_bag,
    volumes,
    norms,
    pairwise,
    padding,
    search_sorted,
    pools,
    products,
    scatter,
    resizes,
    statistics,
    unpool,
    warps,
)

DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    target: form for part in PARTS for target, form in part.DECOMPOSITIONS.items()
}
"""Decompositions by operator."""
CONDITIONS: dict[Any, Callable[[Node], bool]] = {
    target: condition for part in PARTS for target, condition in part.CONDITIONS.items()
}
"""Which calls of an operator are decomposed; all of them by default."""
LATE_DECOMPOSITIONS: dict[Any, Callable[..., Any]] = (
    dynamic_weights.LATE_DECOMPOSITIONS | volumes.LATE_DECOMPOSITIONS
)
"""Decompositions that run after batch norms were folded into layers."""
LATE_CONDITIONS: dict[Any, Callable[[Node], bool]] = dynamic_weights.LATE_CONDITIONS | volumes.LATE_CONDITIONS
"""Which calls of an operator are decomposed late."""
