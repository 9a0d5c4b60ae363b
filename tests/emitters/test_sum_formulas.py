# SPDX-License-Identifier: Apache-2.0
"""The cheap formulas of sums: found for the scales that occur, and right for every pair of int8 numbers."""

from __future__ import annotations

import numpy as np
import pytest

from pillion.devices.cortex_m import Isa
from pillion.emitters.c.families.sum_formulas import SHIFTED, sum_formula
from pillion.emitters.c.kernel_choice import choose_kernels
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ops import Add, Sub
from pillion.ops.elementwise import AddOrSub
from pillion.ops.example_values import make_op, value

LEVELS = np.arange(-128, 128, dtype=np.int64)
SCALES = [(0.051, 0.044, 0.081), (0.1, 0.1, 0.1), (0.25, 1.0, 1.0), (0.3, 0.07, 0.31)]
"""Of the operands and the result; the third ties."""


def total(cls: type[AddOrSub], scales: tuple[float, float, float], low: int) -> AddOrSub:
    a, b = value("a", (64,), scales[0], 3), value("b", (64,), scales[1], -9)
    op = make_op(cls, value("y", (), scales[2], 5), a=a, b=b, low=low)
    assert isinstance(op, AddOrSub)
    return op


@pytest.mark.parametrize("low", [-128, 5])
@pytest.mark.parametrize("scales", SCALES, ids=str)
@pytest.mark.parametrize("cls", [Add, Sub], ids=lambda cls: cls.kind)
def test_a_formula_is_found_and_right(
    cls: type[AddOrSub], scales: tuple[float, float, float], low: int
) -> None:
    op = total(cls, scales, low)
    found = sum_formula(op, Arithmetic.CMSIS_NN, SHIFTED)
    assert found is not None
    sums = found.a * LEVELS[:, None] + found.b * LEVELS[None, :] + found.c
    assert abs(sums).max() < 2**31
    every = LEVELS.astype(np.int8)
    wanted = op.reference(Arithmetic.CMSIS_NN, every[:, None], every[None, :])
    assert np.array_equal(np.clip(sums >> found.shift, low, 127), wanted)


@pytest.mark.parametrize(("isa", "kernel"), [(Isa.DSP, "sum_dsp"), (Isa.MVE, "add_mve")])
@pytest.mark.parametrize("scales", SCALES, ids=str)
def test_sums_have_the_fast_kernel(scales: tuple[float, float, float], isa: Isa, kernel: str) -> None:
    op = total(Add, scales, -128)
    (choice,) = choose_kernels(Graph("g", op.activations, (op,), op.results), isa)
    assert choice.kernel.name == kernel
