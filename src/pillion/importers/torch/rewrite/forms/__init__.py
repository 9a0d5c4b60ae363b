# SPDX-License-Identifier: Apache-2.0
"""What operators are made of, a file for each family: ordinary functions of tensors, which are traced in the place of calls.

A form takes the arguments of the operator. `CONDITIONS` says which calls have theirs; a call without one stays as it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.fx import Node

from pillion.importers.torch.rewrite.forms import (
    arranged,
    bags,
    computed,
    layers,
    norms,
    numbers,
    padding,
    placed,
    pools,
    products,
    put,
    resizes,
    statistics,
    unpool,
    warps,
)

PARTS = (
    arranged,
    bags,
    layers,
    norms,
    numbers,
    padding,
    placed,
    pools,
    products,
    put,
    resizes,
    statistics,
    unpool,
    warps,
)

FORMS: dict[Any, Callable[..., Any]] = {target: form for part in PARTS for target, form in part.FORMS.items()}
"""By operator."""
CONDITIONS: dict[Any, Callable[[Node], bool]] = {
    target: condition for part in PARTS for target, condition in part.CONDITIONS.items()
}
"""Which calls of an operator have its form; all of them, where nothing is said."""
LATE: dict[Any, Callable[..., Any]] = computed.LATE | layers.LATE
"""The same, of what has a form only after batch norms went into layers."""
LATE_CONDITIONS: dict[Any, Callable[[Node], bool]] = computed.LATE_CONDITIONS | layers.LATE_CONDITIONS
"""Which calls of an operator have that form."""
