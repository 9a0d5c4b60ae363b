# SPDX-License-Identifier: Apache-2.0
"""Row of logarithms of mel spectra."""

from __future__ import annotations

import math
from typing import Any

from pillion.importers.torch.layout import Builder, LayoutValue, from_logical_order
from pillion.importers.torch.log_mel import log_mel
from pillion.importers.torch.rows.quantization import rule_of_op
from pillion.importers.torch.rows.table import lowers
from pillion.ops import LogMel


@lowers(log_mel, quantized=rule_of_op(LogMel))
def log_mel_of(
    b: Builder, x: LayoutValue, window: LayoutValue, filters: LayoutValue, hop: int, *numbers: Any
) -> LayoutValue:
    """Lowers to an op that reads signals as rows of one channel."""
    slope, intercept, offset, floor = map(float, numbers)
    *lead, samples = x.shape
    signals = b.reshape(b.plain(x), (math.prod(lead), samples, 1))
    y = b.emit(
        LogMel,
        x=signals,
        window=window.value,
        filters=filters.value,
        hop=hop,
        slope=slope,
        intercept=intercept,
        offset=offset,
        floor=floor,
    )
    return from_logical_order(b.reshape(y, (*lead, *y.shape[1:])))
