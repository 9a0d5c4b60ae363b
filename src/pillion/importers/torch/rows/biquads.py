# SPDX-License-Identifier: Apache-2.0
"""Row of cascades of biquads."""

from __future__ import annotations

from collections.abc import Sequence

from pillion.importers.torch.layout import Builder, LayoutValue, from_logical_order
from pillion.importers.torch.rows.quantization import rule_of_op
from pillion.importers.torch.rows.table import lowers
from pillion.modules.filters import BIQUADS
from pillion.ops import Biquads


@lowers(BIQUADS, quantized=rule_of_op(Biquads, operands=(0, 1)))
def biquads_of(b: Builder, x: LayoutValue, past: LayoutValue, coefficients: Sequence[float]) -> LayoutValue:
    """Lowers to the op, which has the same operands."""
    y = b.emit(Biquads, x=b.plain(x), past=b.plain(past), coefficients=tuple(coefficients))
    return from_logical_order(y)
