# SPDX-License-Identifier: Apache-2.0
"""The multipliers of log-softmax at the ends of the input scales."""

from __future__ import annotations

import pytest

from pillion.ir.numerics import Multiplier
from pillion.ops import LogSoftmax
from pillion.ops.example_values import value
from pillion.ops.log_softmax import OUTPUT


@pytest.mark.parametrize("scale", [2.0**-26, 2.0**-40])
def test_the_way_back_from_the_finest_steps_is_the_largest_fraction(scale: float) -> None:
    """LiteRT multiplies by a fraction below 1 even where a step is one unit of Q5.26."""
    op = LogSoftmax(x=value("x", (1, 4), scale), y=value("y", (1, 4), OUTPUT.scale, OUTPUT.zero_point))
    assert op.multiplier == Multiplier(2**30, 1)
    assert op.back == Multiplier(2**31 - 1, 0)
