# SPDX-License-Identifier: Apache-2.0
"""Rows of norms that use the statistics of their input."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pillion.importers.torch.layout import Builder, LayoutValue, Order
from pillion.importers.torch.rewrite.norm_calls import normalize_axes, normalize_groups
from pillion.importers.torch.rows.quantization import rule_of_op
from pillion.importers.torch.rows.table import lowers
from pillion.ir.types import constant_value
from pillion.ops import Normalize


@lowers(normalize_axes, quantized=rule_of_op(Normalize))
def norm(
    b: Builder,
    x: LayoutValue,
    weight: LayoutValue | None,
    bias: LayoutValue | None,
    dims: Sequence[int],
    centred: bool,
    eps: float,
) -> LayoutValue:
    """Lowers a norm over some axes, which become the innermost; they are merged if the weights cover several axes."""
    inner = [axis for axis in x.order if axis in dims]
    order: Order = (*(axis for axis in x.order if axis not in dims), *inner)
    lain, axis = b.arrange(x, order), x.rank - len(inner)
    sizes, places = [x.shape[d] for d in sorted(dims)], [sorted(dims).index(a) for a in inner]
    affine = _flatten_weights(b, weight, bias, sizes, places)
    shape = lain.shape
    if any(value.type.elements > 1 for value in affine.values()) and len(inner) > 1:
        lain = b.reshape(lain, (*shape[:axis], math.prod(shape[axis:])))
    y = b.emit(Normalize, x=lain, axis=axis, centred=centred, eps=float(eps), **affine)
    return LayoutValue(b.reshape(y, shape), order)


@lowers(normalize_groups, quantized=rule_of_op(Normalize))
def group_norm(
    b: Builder, x: LayoutValue, weight: LayoutValue | None, bias: LayoutValue | None, groups: int, eps: float
) -> LayoutValue:
    """Lowers a norm over groups of channels, in a channels-last layout."""
    order: Order = (0, *range(2, x.rank), 1)
    affine = _flatten_weights(b, weight, bias, [x.shape[1]], [0])
    y = b.emit(Normalize, x=b.arrange(x, order), axis=1, groups=groups, eps=float(eps), **affine)
    return LayoutValue(y, order)


def _flatten_weights(
    b: Builder, weight: Any, bias: Any, sizes: Sequence[int], order: Sequence[int]
) -> dict[str, Any]:
    """Flattens weights and bias, where a norm has them, in memory order; a single number stays one."""
    held: dict[str, Any] = {}
    for name, weights in (("weights", weight), ("bias", bias)):
        if weights is not None:
            data = weights.value.constant
            data = data.reshape(sizes).transpose(order) if data.size > 1 else data
            held[name] = b.constant(
                constant_value(weights.value.name, np.ascontiguousarray(data).reshape(-1))
            )
    return held
