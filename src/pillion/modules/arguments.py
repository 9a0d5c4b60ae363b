# SPDX-License-Identifier: Apache-2.0
"""Checks of the arguments of modules."""

from __future__ import annotations

import torch
from torch import Tensor

from pillion.errors import PillionError


def require(holds: bool, module: object, rule: str, here: object) -> None:
    """Raises an error if an argument breaks a rule."""
    if not holds:
        raise PillionError(
            f"{type(module).__name__} cannot be made of these arguments",
            rule=rule,
            here=str(here),
            help=f"help(pillion.modules.{type(module).__name__}) describes the arguments",
        )


def require_table(module: object, name: str, table: Tensor, columns: int | None = None) -> Tensor:
    """Returns a table as float32. Its shape is [rows, columns], all its numbers are finite."""
    is_table = isinstance(table, Tensor) and table.dim() == 2 and table.numel() > 0
    width = "columns" if columns is None else columns
    rule = f"{name} are a tensor of finite numbers, of shape [rows, {width}]"
    require(is_table and columns in (None, table.shape[-1]), module, rule, getattr(table, "shape", table))
    numbers = table.detach().to(torch.float32)
    require(bool(numbers.isfinite().all()), module, rule, "infinite or no number")
    return numbers.clone()
