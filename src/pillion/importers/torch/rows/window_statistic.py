# SPDX-License-Identifier: Apache-2.0
"""Row of statistics of windows."""

from __future__ import annotations

from pillion.importers.torch.layout import Builder, LayoutValue, from_logical_order
from pillion.importers.torch.rows.quantization import rule_of_op
from pillion.importers.torch.rows.table import lowers
from pillion.modules.window_statistics import WINDOW_STATISTIC
from pillion.ops import Statistic, WindowStatistic


@lowers(WINDOW_STATISTIC, quantized=rule_of_op(WindowStatistic))
def window_statistic_of(b: Builder, x: LayoutValue, statistic: str) -> LayoutValue:
    """Lowers to the op, which has the same operand."""
    return from_logical_order(b.emit(WindowStatistic, x=b.plain(x), statistic=Statistic(statistic)))
