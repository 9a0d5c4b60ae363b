# SPDX-License-Identifier: Apache-2.0
"""How many elements the fast kernels add up: until their sums could leave their registers, and not one more."""

from __future__ import annotations

from typing import Any

import pytest

from pillion.devices.cortex_m import Isa
from pillion.emitters.c.kernel_choice import kernels
from pillion.ir.numerics import Arithmetic
from pillion.ir.verdict import failed_rules
from pillion.ops import Mean, ReduceSum
from pillion.ops.example_values import make_op, value

LIMITS = {Isa.DSP: 2**30, Isa.MVE: 2**31}
"""DSP kernels double their sums."""
LEVELS = 255


def refused(cls: type[Any], isa: Isa, count: int) -> list[str]:
    """What the first kernel of whole ops finds wrong with a sum of so many elements; no data is there."""
    op = make_op(cls, value("y", (), 100.0), x=value("x", (1, count, 4), 0.1), axes=(1,))
    kernel = next(k for k in kernels(isa) if k.op is cls and not k.is_tiled)
    return [verdict.rule for verdict in failed_rules(kernel.check(op, Arithmetic.CMSIS_NN))]


@pytest.mark.parametrize("isa", LIMITS)
@pytest.mark.parametrize("cls", [Mean, ReduceSum], ids=lambda cls: cls.kind)
def test_the_last_count_that_fits(cls: type[Any], isa: Isa) -> None:
    most = (LIMITS[isa] - 1) // LEVELS
    assert "sum" not in refused(cls, isa, most)
    assert refused(cls, isa, most + 1) == ["sum"]
