# SPDX-License-Identifier: Apache-2.0
"""What may be asked of quantization after training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from pillion.choices import Ranges
from pillion.errors import one_of


@dataclass(frozen=True)
class Tuning:
    """What is done after training for models that are hard to quantize; nothing of it, if it is not asked for."""

    ranges: Ranges = "auto"
    equalize: bool = False
    """Channels of very different ranges are brought to one, where two layers can share the factors."""
    correct_biases: bool = False
    """Biases take back by how much rounding has shifted the means of channels."""

    def __post_init__(self) -> None:
        one_of("ranges", self.ranges, get_args(Ranges))
