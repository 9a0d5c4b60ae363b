# SPDX-License-Identifier: Apache-2.0
"""Convolutions of images of one row: Helium's kernel for them splits the padding in halves of its own, so that other splits are
turned by a quarter and take the general kernel."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from pillion.devices.cortex_m import Isa
from pillion.emitters.pte.node import KernelCall, NodeView, PteSettings
from pillion.emitters.pte.table import steps
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import PerTensor, constant_value
from pillion.ops import Conv2d
from pillion.ops.example_values import make_op, value

SPLITS = list(product(range(3), repeat=2))


def call_of(left: int, right: int, channels: int) -> KernelCall:
    x = value("x", (1, 1, 11, channels), 0.1, 3)
    weights = constant_value("w", np.ones((4, 1, 3, channels), np.int8), PerTensor(0.01))
    bias = constant_value("b", np.zeros(4, np.int32), PerTensor(1e-3))
    op = make_op(Conv2d, value("y", (), 0.2), x=x, weights=weights, bias=bias, padding=(0, left, 0, right))
    (call,) = steps(op, PteSettings(Arithmetic.CMSIS_NN, Isa.MVE))
    assert isinstance(call, KernelCall)
    return call


@pytest.mark.parametrize(("left", "right"), SPLITS)
@pytest.mark.parametrize("channels", [3, 4, 8])
def test_the_row_kernel_is_given_only_its_own_split(left: int, right: int, channels: int) -> None:
    """It takes rows of whole words; half of the padding, rounded down, goes to the left."""
    call = call_of(left, right, channels)
    image = call.args[0]
    assert isinstance(image, NodeView)
    stays = channels % 4 != 0 or left == (left + right) // 2
    assert image.sizes == ((1, channels, 1, 11) if stays else (1, channels, 11, 1))
    assert call.args[4] == ((0, left) if stays else (left, 0))
