# SPDX-License-Identifier: Apache-2.0
"""Options of post-training quantization."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from pillion.errors import one_of
from pillion.option_values import Ranges


@dataclass(frozen=True)
class Tuning:
    """Options of post-training quantization."""

    ranges: Ranges = "auto"
    equalize: bool = False
    """Scale channels of very different ranges to one range where two layers can share the factors."""
    correct_biases: bool = True
    """Correct biases by the mean error that rounding adds to each channel; needs four calibration samples or more."""

    def __post_init__(self) -> None:
        one_of("ranges", self.ranges, get_args(Ranges))
