# SPDX-License-Identifier: Apache-2.0
"""The PyTorch operator `torch.ops.median.median3`, for models, and the row that lowers it to the op."""

from __future__ import annotations

import torch

from pillion.importers.torch.layout import Builder, LayoutValue
from pillion.importers.torch.rows.quantization import rule_of_op
from pillion.importers.torch.rows.table import lowers
from pillion_median.op import Median3


@torch.library.custom_op("median::median3", mutates_args=())
def median3(x: torch.Tensor) -> torch.Tensor:
    """Returns the median of each element and its two neighbours on the last axis; the ends are repeated."""
    padded = torch.cat([x[..., :1], x, x[..., -1:]], -1)
    return padded.unfold(-1, 3, 1).median(-1).values


@median3.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


@lowers(torch.ops.median.median3.default, quantized=rule_of_op(Median3))
def lower_median3(b: Builder, x: LayoutValue) -> LayoutValue:
    """Lowers a median filter in a layout whose last axis is the model's."""
    last = x.rank - 1
    order = (*(axis for axis in x.order if axis != last), last)
    return LayoutValue(b.emit(Median3, x=b.arrange(x, order)), order)
