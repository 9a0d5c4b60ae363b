# SPDX-License-Identifier: Apache-2.0
"""Convolutions of few channels on Helium, as convolutions of fewer and wider pixels. The kernel gathers windows pixel
by pixel; in an RGB image that is a call for three bytes."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from pillion.emitters.pte.scratch import ScratchWindow
from pillion.ir.types import Array

RESULTS_TOGETHER = (1, 2, 4)
"""Candidates for the number of results that one folded window computes."""
MOST_WEIGHTS = 4096
"""The most bytes of folded weights: zeros fill the places of pixels that a result does not read."""


@dataclass(frozen=True)
class ColumnFolding:
    """Adjacent pixels of a row as the channels of one pixel, and adjacent results as channels of one result. The
    bytes of image and result stay where they are."""

    unfolded: ScratchWindow
    results: int
    """The number of adjacent results that become one."""

    @property
    def pixels(self) -> int:
        """The number of adjacent pixels that become one."""
        return self.results * self.unfolded.stride[1]

    @property
    def columns_before(self) -> int:
        """The number of pixels of the first folded window before the first pixel that a result reads."""
        return -self.unfolded.padding[1] % self.pixels

    @property
    def is_possible(self) -> bool:
        """Whether no pixel or result is left over, and the folded weights are few."""
        one, window = self.unfolded, self.window
        return (
            self.pixels > 1
            and one.image[0] > 1
            and not one.is_pointwise
            and one.image[1] % self.pixels == 0
            and one.result[1] % self.results == 0
            and one.groups == 1
            and one.dilation[1] == 1
            and math.prod(window.kernel) * window.in_channels * window.out_channels <= MOST_WEIGHTS
        )

    @property
    def window(self) -> ScratchWindow:
        """The geometry after folding."""
        one, pixels = self.unfolded, self.pixels
        columns = self.columns_before + (self.results - 1) * one.stride[1] + one.kernel[1]
        return replace(
            one,
            image=(one.image[0], one.image[1] // pixels),
            in_channels=one.in_channels * pixels,
            result=(one.result[0], one.result[1] // self.results),
            out_channels=one.out_channels * self.results,
            kernel=(one.kernel[0], -(-columns // pixels)),
            stride=(one.stride[0], 1),
            padding=(one.padding[0], -(-one.padding[1] // pixels)),
        )

    def weights(self, weights: Array) -> Array:
        """Returns the weights of all results of a folded window, with zeros at the pixels that a result does
        not read."""
        one, window = self.unfolded, self.window
        columns = window.kernel[1] * self.pixels
        folded = np.zeros(
            (self.results, one.out_channels, one.kernel[0], columns, one.in_channels), weights.dtype
        )
        for number, own in enumerate(folded):
            first = self.columns_before + number * one.stride[1]
            own[:, :, first : first + one.kernel[1]] = weights
        return folded.reshape(window.out_channels, *window.kernel, window.in_channels)


def best_folding(window: ScratchWindow) -> ColumnFolding | None:
    """Returns the folding with which Helium takes the fewest instructions; None if it takes fewer without."""
    foldings = [ColumnFolding(window, results) for results in RESULTS_TOGETHER]
    foldings = [folding for folding in foldings if folding.is_possible]
    best = min(foldings, key=lambda folding: instructions(folding.window), default=None)
    return best if best and instructions(best.window) < instructions(window) else None


def instructions(window: ScratchWindow) -> float:
    """Returns about the instructions of Helium's general kernel for few channels, as measured: gathering takes some
    for each row of the window and each of its pixels, a result for itself and for each 16 products."""
    height, width = window.kernel
    gathering = 65 + 27 * height + 14 * height * width
    result = 14 + 2.8 * -(-height * width * window.in_channels // 16)
    return math.prod(window.result) * (gathering + window.out_channels * result)
