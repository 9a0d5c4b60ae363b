# SPDX-License-Identifier: Apache-2.0
"""Ranges of sigmoid and tanh: the calibrated range if calibration saw both answers, otherwise the whole range of the
function. Data without a hit do not tell how confident a hit will be."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule

from pillion.importers.torch.loop_nodes import has_loops
from pillion.importers.torch.observers import calls_of_observers, observers_of_outputs
from pillion.importers.torch.quantize.headroom import FEWEST, values_by_sample
from pillion.importers.torch.quantize.outlier_clipping import HistogramRange
from pillion.importers.torch.train.trained_ranges import FINER_THAN_DEFAULT


class FunctionRange(HistogramRange):
    """Observes a function's results. Has the function's usual scale and zero point until `is_calibrated` is set."""

    may_clip = False

    def __init__(self, *args: Any, usual: tuple[float, int], **options: Any) -> None:
        super().__init__(*args, **options)
        self.usual = usual
        self.is_calibrated = False

    @property
    def ends(self) -> tuple[float, float]:
        """The least and the largest value of the function."""
        scale, zero_point = self.usual
        return (-128 - zero_point) * scale, (128 - zero_point) * scale

    def shows_both_answers(self, *, is_output: bool) -> bool:
        """Whether values lie on both sides of the middle; values of outputs must also reach beyond a quarter of the
        range."""
        low, high = self.ends
        middle = (low + high) / 2
        least, most = float(self.min_val), float(self.max_val)
        reaches = max(most, -least) > high / 2
        return least < middle < most and (reaches or not is_output)

    def _calculate_qparams(self, low: Tensor, high: Tensor) -> Any:
        scale, zero_point = self.usual
        if self.is_calibrated:
            lowest, highest = self.ends
            calibrated = super()._calculate_qparams(low.clamp(min=lowest), high.clamp(max=highest))
            if float(calibrated[0]) < FINER_THAN_DEFAULT * scale:
                return calibrated
        return torch.full((1,), scale), torch.full((1,), zero_point, dtype=torch.int64)


def calibrate_functions(prepared: GraphModule) -> None:
    """Gives functions the ranges that calibration saw. Outputs need samples enough to tell how much headroom they
    want."""
    outputs = observers_of_outputs(prepared)
    runs_loops = has_loops(prepared.graph)
    for observer, calls in calls_of_observers(prepared).items():
        if isinstance(observer, FunctionRange):
            is_output = observer in outputs
            is_known = not runs_loops and (
                observer.kept is None or len(values_by_sample(observer, len(calls))) >= FEWEST
            )
            observer.is_calibrated = observer.shows_both_answers(is_output=is_output) and (
                is_known or not is_output
            )
