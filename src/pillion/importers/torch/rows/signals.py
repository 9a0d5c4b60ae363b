# SPDX-License-Identifier: Apache-2.0
"""Rows of signals: spectra, logarithms of mel spectra, cascades of biquads, and statistics of windows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pillion.importers.torch.layout import Builder, LayoutValue, from_logical_order
from pillion.importers.torch.log_mel import log_mel, spectra
from pillion.importers.torch.rows.quantization import rule_of_op
from pillion.importers.torch.rows.table import lowers
from pillion.ir.types import Value
from pillion.modules.filters import BIQUADS
from pillion.modules.window_statistics import WINDOW_STATISTIC
from pillion.ops import Biquads, LogMel, Statistic, Stft, WindowStatistic


def _signals(b: Builder, x: LayoutValue) -> Value:
    """Returns signals as rows of one channel."""
    *lead, samples = x.shape
    return b.reshape(b.plain(x), (math.prod(lead), samples, 1))


@lowers(log_mel, quantized=rule_of_op(LogMel))
def log_mel_of(
    b: Builder, x: LayoutValue, window: LayoutValue, filters: LayoutValue, *numbers: Any
) -> LayoutValue:
    """Lowers to an op that reads signals as rows of one channel."""
    hop, power, *line = numbers
    slope, intercept, offset, floor = map(float, line)
    y = b.emit(
        LogMel,
        x=_signals(b, x),
        window=window.value,
        filters=filters.value,
        hop=hop,
        power=power,
        slope=slope,
        intercept=intercept,
        offset=offset,
        floor=floor,
    )
    return from_logical_order(b.reshape(y, (*x.shape[:-1], *y.shape[1:])))


@lowers(spectra, quantized=rule_of_op(Stft))
def stft_of(
    b: Builder, x: LayoutValue, window: LayoutValue, hop: int, points: int, power: int
) -> LayoutValue:
    """Lowers to an op that reads signals as rows of one channel."""
    y = b.emit(Stft, x=_signals(b, x), window=window.value, hop=hop, points=points, power=power)
    return from_logical_order(b.reshape(y, (*x.shape[:-1], *y.shape[1:])))


@lowers(BIQUADS, quantized=rule_of_op(Biquads, operands=(0, 1)))
def biquads_of(b: Builder, x: LayoutValue, past: LayoutValue, coefficients: Sequence[float]) -> LayoutValue:
    """Lowers to the op, which has the same operands."""
    y = b.emit(Biquads, x=b.plain(x), past=b.plain(past), coefficients=tuple(coefficients))
    return from_logical_order(y)


@lowers(WINDOW_STATISTIC, quantized=rule_of_op(WindowStatistic))
def window_statistic_of(b: Builder, x: LayoutValue, statistic: str) -> LayoutValue:
    """Lowers to the op, which has the same operand."""
    return from_logical_order(b.emit(WindowStatistic, x=b.plain(x), statistic=Statistic(statistic)))
