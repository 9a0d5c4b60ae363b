# SPDX-License-Identifier: Apache-2.0
"""Names that programs of others import from here. The code is in `importers/torch/`."""

from __future__ import annotations

from pillion.importers.torch.data import load_calibration
from pillion.importers.torch.quantize import (
    QatModule,
    QuantizedProgram,
    Wishes,
    finish_training,
    prepare_qat,
    ptq,
)

__all__ = [
    "QatModule",
    "QuantizedProgram",
    "Wishes",
    "finish_training",
    "load_calibration",
    "prepare_qat",
    "ptq",
]
