# SPDX-License-Identifier: Apache-2.0
"""Public names of quantization, for other packages. The code is in `importers/torch/`."""

from __future__ import annotations

from pillion.importers.torch.calibration_data import load_calibration
from pillion.importers.torch.quantize.ptq import ptq
from pillion.importers.torch.quantize.quantized_program import QuantizedProgram
from pillion.importers.torch.train.qat import finish_training, prepare_qat
from pillion.importers.torch.train.qat_module import QatModule
from pillion.ir.constraints import QuantizationConstraints

__all__ = [
    "QatModule",
    "QuantizationConstraints",
    "QuantizedProgram",
    "Wishes",
    "finish_training",
    "load_calibration",
    "prepare_qat",
    "ptq",
]

Wishes = QuantizationConstraints
"""The old name of `QuantizationConstraints`."""
