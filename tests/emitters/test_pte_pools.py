# SPDX-License-Identifier: Apache-2.0
"""Max pools in `.pte`: the sizes of the result follow from the arguments alone, since the operator works them out for itself."""

from __future__ import annotations

import dataclasses
from itertools import product

import pytest

from pillion.devices.cortex_m import Isa
from pillion.emitters.pte.node import KernelCall, NodeView, PteSettings
from pillion.emitters.pte.table import steps
from pillion.ir.numerics import Arithmetic
from pillion.ops import MaxPool2d
from pillion.ops.example_values import make_op, value

PADDINGS = sorted(set(product((0, 1, 2), repeat=4)))


@pytest.mark.parametrize("stride", [(1, 1), (2, 1), (2, 3)], ids=str)
@pytest.mark.parametrize("padding", PADDINGS, ids=str)
def test_the_result_has_the_sizes_that_the_arguments_give(
    padding: tuple[int, int, int, int], stride: tuple[int, int]
) -> None:
    x = value("x", (1, 6, 7, 3), 0.1, 5)
    op = make_op(
        MaxPool2d, dataclasses.replace(x, name="y"), x=x, kernel=(3, 3), stride=stride, padding=padding
    )
    *before, pool = steps(op, PteSettings(Arithmetic.CMSIS_NN, Isa.MVE))
    assert isinstance(pool, KernelCall)
    image, kernel, strides, pads = pool.args[:4]
    assert isinstance(image, NodeView)
    sides = zip(image.sizes[2:], kernel, strides, pads, strict=True)  # type: ignore[arg-type]  # pairs of numbers
    assert pool.out.sizes[2:] == tuple((size + 2 * p - k) // s + 1 for size, k, s, p in sides)
    assert len(before) <= 1
