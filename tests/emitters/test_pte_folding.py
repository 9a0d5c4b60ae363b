# SPDX-License-Identifier: Apache-2.0
"""Convolutions of few channels on Helium: adjacent pixels as channels of one pixel, where that takes fewer instructions."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from pillion.devices.cortex_m import Isa
from pillion.emitters.pte.column_folding import ColumnFolding, best_folding, instructions
from pillion.emitters.pte.node import KernelCall, NodeView, PteSettings
from pillion.emitters.pte.scratch import ScratchWindow
from pillion.emitters.pte.table import steps
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import PerTensor, constant_value
from pillion.ops import Conv2d
from pillion.ops.conv import padded_windows
from pillion.ops.example_values import make_op, value

RGB_32 = ScratchWindow(1, (32, 32), 3, (32, 32), 16, (3, 3), (1, 1), (1, 1))
RGB_96 = ScratchWindow(1, (96, 96), 3, (48, 48), 8, (3, 3), (2, 2))
MEASURED = {
    (RGB_32, 1): 600_268,
    (RGB_32, 2): 550_892,
    (RGB_32, 4): 616_312,
    (RGB_96, 1): 945_614,
    (RGB_96, 2): 780_398,
    (RGB_96, 4): 860_055,
}
"""Instructions of the real kernel on an emulated Cortex-M55, by window and results that are one."""


def sums(x: np.ndarray, weights: np.ndarray, window: ScratchWindow) -> np.ndarray:
    """The sums of a convolution that reads zeros beyond the image, as far as its result goes."""
    sides = zip(
        window.image,
        window.result,
        window.kernel,
        window.stride,
        window.padding,
        window.dilation,
        strict=True,
    )
    after = [max(0, (r - 1) * s + d * (k - 1) + 1 - i - p) for i, r, k, s, p, d in sides]
    seen = padded_windows(x, window.kernel, window.stride, window.dilation, (*window.padding, *after))
    seen = seen[:, : window.result[0], : window.result[1]]
    return np.einsum("nhwklc,oklc->nhwo", seen, weights)


@pytest.mark.parametrize("results", [1, 2, 4])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_a_folded_convolution_has_the_same_sums(results: int, stride: int) -> None:
    rng = np.random.default_rng(results + 10 * stride)
    for width, left, right in product((1, 2, 3, 5), range(4), range(3)):
        columns = 4 * stride * 3
        count = (columns + left + right - width) // stride + 1
        window = ScratchWindow(2, (5, columns), 3, (3, count), 4, (3, width), (2, stride), (1, left))
        folding = ColumnFolding(window, results)
        if not folding.is_possible:
            continue
        x = rng.integers(-128, 128, (2, 5, columns, 3)).astype(np.float64)
        weights = rng.integers(-127, 128, (4, 3, width, 3)).astype(np.float64)
        folded = folding.window
        found = sums(x.reshape(2, *folded.image, folded.in_channels), folding.weights(weights), folded)
        assert np.array_equal(found.reshape(2, 3, count, 4), sums(x, weights, window))


def test_the_estimate_equals_the_emulator() -> None:
    for (window, results), measured in MEASURED.items():
        folding = ColumnFolding(window, results)
        made = folding.window if folding.pixels > 1 else window
        assert instructions(made) == pytest.approx(measured, rel=0.03)


@pytest.mark.parametrize(("window", "results"), [(RGB_32, 2), (RGB_96, 2)])
def test_the_fewest_instructions_are_chosen(window: ScratchWindow, results: int) -> None:
    best = best_folding(window)
    assert best is not None
    assert best.results == results


@pytest.mark.parametrize(
    "window",
    [
        ScratchWindow(1, (48, 48), 32, (48, 48), 32, (3, 3), (1, 1), (1, 1)),  # many channels
        ScratchWindow(1, (49, 10), 1, (25, 5), 64, (10, 4), (2, 2), (4, 1)),  # many results
        ScratchWindow(1, (33, 33), 3, (33, 33), 8, (3, 3), (1, 1), (1, 1)),  # odd sides
        ScratchWindow(1, (1, 96), 3, (1, 96), 8, (1, 3), (1, 1), (0, 1)),  # a row has a kernel of its own
        ScratchWindow(1, (32, 32), 4, (32, 32), 8, (3, 3), (1, 1), (1, 1), groups=2),
        ScratchWindow(1, (32, 32), 3, (32, 32), 8, (3, 3), (1, 1), (2, 2), (2, 2)),
        ScratchWindow(1, (32, 32), 3, (32, 32), 8, (1, 1)),
    ],
)
def test_other_windows_are_not_folded(window: ScratchWindow) -> None:
    assert best_folding(window) is None


@pytest.mark.parametrize("isa", [Isa.MVE, Isa.DSP])
def test_only_helium_folds(isa: Isa) -> None:
    x = value("x", (1, 32, 32, 3), 0.1, 3)
    weights = constant_value("w", np.ones((16, 3, 3, 3), np.int8), PerTensor(0.01))
    bias = constant_value("b", np.arange(16, dtype=np.int32), PerTensor(1e-3))
    op = make_op(Conv2d, value("y", (), 0.2), x=x, weights=weights, bias=bias, padding=(1, 1, 1, 1))
    (call,) = steps(op, PteSettings(Arithmetic.CMSIS_NN, isa))
    assert isinstance(call, KernelCall)
    image, bias_view = call.args[0], call.args[2]
    assert isinstance(image, NodeView)
    assert isinstance(bias_view, NodeView)
    assert image.sizes == ((1, 6, 32, 16) if isa is Isa.MVE else (1, 3, 32, 32))
    assert bias_view.sizes == ((32,) if isa is Isa.MVE else (16,))
    assert call.out.elements == 32 * 32 * 16
