# SPDX-License-Identifier: Apache-2.0
"""Constants of the DSP kernels: who reads words finds words, and one behind the last weight too."""

from __future__ import annotations

import numpy as np
import pytest

from pillion.devices.cortex_m import Isa
from pillion.emitters.c.kernel_choice import choose_kernels
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import PerTensor, constant_value
from pillion.ops import DepthwiseConv2d
from pillion.ops.example_values import make_op, value


@pytest.mark.parametrize("kernel", [(3, 3), (5, 5), (2, 3)], ids=str)
@pytest.mark.parametrize("channels", range(1, 21))
def test_depthwise_weights_end_with_a_word_of_zeros(channels: int, kernel: tuple[int, int]) -> None:
    """The last channels are read four at a time."""
    x = value("x", (1, 7, 8, channels), 0.1, 3)
    weights = constant_value("w", np.ones((1, *kernel, channels), np.int8), PerTensor(0.01))
    bias = constant_value("b", np.zeros(channels, np.int32), PerTensor(1e-3))
    op = make_op(DepthwiseConv2d, value("y", (), 0.2), x=x, weights=weights, bias=bias)
    (choice,) = choose_kernels(Graph("g", op.activations, (op,), op.results), Isa.DSP)
    assert choice.kernel.name.endswith("_dsp")
    for call in choice.kernel.calls(op, Arithmetic.CMSIS_NN):
        packed = np.asarray(call.params["weights"]).view(np.int8)
        assert packed.size % 4 == 0
        zeros = packed.size - channels * kernel[0] * kernel[1]
        assert not packed[-(4 if kernel == (2, 3) else zeros) :].any()  # rows of three taps have zeros, too
        assert packed.size > channels * kernel[0] * kernel[1]
