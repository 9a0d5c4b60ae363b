# SPDX-License-Identifier: Apache-2.0
"""The table from PyTorch operators to ops.

A row is a function whose arguments are those of the operator; tensors come `Placed`, and what it answers is placed again. At the
function stands how calls are quantized, too (`quantization.py`). The operators are those that `normalize` leaves in a graph: one
spelling for each thing."""

from __future__ import annotations

from pillion.importers.torch.rows import (
    choosing,
    convolutions,
    elementwise,
    functions,
    images,
    loops,
    magnitudes,
    matmul,
    movement,
    norms,
    reductions,
)
from pillion.importers.torch.rows.functions import TABULATED
from pillion.importers.torch.rows.table import ROWS

PARTS = (
    convolutions,
    matmul,
    elementwise,
    functions,
    images,
    reductions,
    norms,
    magnitudes,
    movement,
    choosing,
    loops,
)
"""The files of rows; this list is the only one."""

__all__ = ["PARTS", "ROWS", "TABULATED"]
