# SPDX-License-Identifier: Apache-2.0
"""The table from PyTorch operators to ops.

A row has the operator's arguments, with tensors as `Placed`, and returns placed results. Its decorator declares
how calls are quantized. Rows exist for the canonical forms that `rewrite` produces."""

from __future__ import annotations

from importlib import import_module

from pillion.importers.torch.rows import (  # noqa: F401  # they enter themselves
    byte_functions,
    compare_select,
    convolutions,
    elementwise,
    magnitude,
    matmul,
    movement,
    norms,
    pool_resize,
    reductions,
    signals,
    unary,
)
from pillion.importers.torch.rows.table import ROWS
from pillion.registry import REGISTRY

for _module in REGISTRY.torch_rows:
    import_module(_module)

__all__ = ["ROWS"]
