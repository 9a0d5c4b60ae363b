# SPDX-License-Identifier: Apache-2.0
"""The range of samples of sound."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torchao.quantization.pt2e import ObserverBase

from pillion.ir.types import DType

OF_FRACTIONS, OF_INTEGERS = 2.0**-15, 1.0
"""Steps of samples in ±1 and of integer recordings; either way the samples enter unchanged."""


class SampleRange(ObserverBase):
    """Chooses the step of 16-bit samples: the step of fractions in ±1 or of integers, otherwise a power of two."""

    def __init__(self, quant_min: int, quant_max: int, **options: Any) -> None:
        super().__init__(torch.int16)
        self.quant_min, self.quant_max = quant_min, quant_max
        self.qscheme = torch.per_tensor_symmetric
        self.largest, self.has_fractions = 0.0, False

    def forward(self, x: Tensor) -> Tensor:
        """Notes the largest sample, and fractions, and returns the tensor unchanged."""
        self.largest = max(self.largest, float(x.detach().abs().max()))
        self.has_fractions |= bool((x != x.round()).any())
        return x

    def calculate_qparams(self, **arguments: Any) -> tuple[Tensor, Tensor]:
        """Returns scale and zero point."""
        levels = -DType.INT16.bounds[0]
        step = OF_FRACTIONS if self.largest <= 1 else OF_INTEGERS
        if self.largest > (1 if self.has_fractions else levels):
            step = 2.0 ** math.ceil(math.log2(self.largest / levels))
        return torch.tensor([step]), torch.zeros(1, dtype=torch.int64)
