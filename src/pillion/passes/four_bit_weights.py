# SPDX-License-Identifier: Apache-2.0
"""Rounds the weights of a layer or a table to 4 bits. The error of each input's weights is made good by those of later inputs, as far as
inputs of samples go together (GPTQ, Frantar et al. 2022), and that of means by the bias."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from pillion.ir.op import Op, why_multipliers_explicit
from pillion.ir.types import Array, DType, PerChannel, constant_value
from pillion.ops.conv import Conv2d, padded_windows
from pillion.ops.embedding_bag import EmbeddingBag
from pillion.ops.indexing import Gather
from pillion.ops.linear import Linear

Layer = Conv2d | Linear
Table = Gather | EmbeddingBag
Reals = NDArray[np.float64]
LARGEST = 7
"""Weights are from -7 to 7: symmetric, as LiteRT's own, and every two fit a byte of the Helium kernels."""
FEWEST = 64
"""Fewer weights save nothing that counts."""
MOST_INPUTS = 4096
"""Sums of more inputs are rounded without compensation: their matrix would take hundreds of megabytes."""
MOST_ROWS = 2048
"""Windows of a sample that are looked at."""
BLOCK = 128
"""Inputs whose errors are passed on together."""
DAMPING = 0.01
RIDGES = 0.1, 1.0, 10.0
"""Penalties, in parts of the mean product, of weights that leave their values to make good what layers before changed."""
LARGEST_BIAS = 2.0**30
"""Half of what an accumulator holds: nearly dead channels would have finer steps than their bias can be counted in."""
CLIPPED = np.linspace(1.0, 0.5, 21)
"""Shares of the largest weight that a channel's range may have."""


def may_have_4_bits(op: Op) -> TypeGuard[Layer]:
    """Whether a layer's weights may be rounded to 4 bits."""
    return (
        isinstance(op, Conv2d | Linear)
        and (op.x.dtype, op.y.dtype) in ((DType.INT8,) * 2, (DType.INT16,) * 2)
        and op.weights.dtype is DType.INT8
        and op.weights.is_constant
        and op.bias.is_constant
        and not why_multipliers_explicit(op)
        and getattr(op, "groups", 1) == 1
        and op.weights.type.elements >= FEWEST
    )


def has_table_for_4_bits(op: Op) -> TypeGuard[Table]:
    """Whether an op reads rows of a table that may be rounded to 4 bits, with a scale for each, and gets smaller so."""
    if not isinstance(op, Table) or (op.operands[0].dtype, op.y.dtype) != (DType.INT8,) * 2:
        return False
    table = op.operands[0]
    has_rows = not isinstance(op, Gather) or (op.axis, op.batch, table.type.rank) == (0, 0, 2)
    return (
        has_rows
        and table.is_constant
        and not why_multipliers_explicit(op)
        and table.type.elements >= FEWEST
        and bytes_saved(op) > 0
    )


def bytes_saved(op: Layer | Table) -> int:
    """Returns the bytes that 4 bits save; a table that had one scale gets a multiplier for each row."""
    weights = op.weights if isinstance(op, Layer) else op.operands[0]
    multipliers = 4 * weights.shape[0] if isinstance(op, Gather) else 0
    return weights.type.elements // 2 - multipliers


def with_table_of_4_bits(op: Table) -> EmbeddingBag:
    """Returns the lookup or bag with rows of 4 bits."""
    table = op.operands[0]
    fine = np.broadcast_to(table.channel_scales, (table.shape[0],))
    zero = table.zero_point if isinstance(op, Gather) else 0
    real = (table.constant.astype(np.float64) - zero) * fine[:, None]
    scales = _best_scales(real, np.ones(table.shape[1]), fine)
    rounded = _nearest(real, scales).astype(np.int8)
    coarse = constant_value(table.name, rounded, PerChannel(tuple(scales.tolist()), 0), DType.INT4)
    if isinstance(op, EmbeddingBag):
        return replace(op, table=coarse)
    return EmbeddingBag(table=coarse, indices=op.indices, y=op.y, is_lookup=True, source=op.source)


class SumsOfInputs:
    """Sums over samples of what a layer reads, and would read if no layer before had 4 bits: products, and means."""

    def __init__(self, op: Layer) -> None:
        self.op = op
        inputs = op.weights.type.elements // op.weights.shape[0]
        self.has_products = inputs <= MOST_INPUTS
        self.halves = np.zeros((2, inputs, inputs) if self.has_products else (2, 0, 0))
        self.wanted_halves = np.zeros_like(self.halves)
        """Of inputs as they would be with inputs as they are."""
        self.samples = 0
        self.sum, self.wanted, self.rows = np.zeros(inputs), np.zeros(inputs), 0

    def add(self, x: Array, wanted: Array | None = None) -> None:
        """Adds an operand of the layer; `wanted` is what it would be if no layer before had 4 bits."""
        rows = self._windows(x)
        exact = rows if wanted is None else self._windows(wanted)
        self.sum += rows.sum(axis=0)
        self.wanted += exact.sum(axis=0)
        self.rows += len(rows)
        if self.has_products:
            every = -(-len(rows) // MOST_ROWS)
            half = self.samples % 2
            self.halves[half] += rows[::every].T @ rows[::every]
            self.wanted_halves[half] += exact[::every].T @ rows[::every]
            self.samples += 1

    @property
    def products(self) -> Reals:
        """The products of inputs as they are, over all samples."""
        return np.asarray(self.halves.sum(axis=0))

    def _windows(self, x: Array) -> Reals:
        op, real = self.op, x.astype(np.float64) - self.op.x.zero_point
        if isinstance(op, Conv2d):
            real = padded_windows(real, op.kernel, op.stride, op.dilation, op.padding)
        return np.asarray(real.reshape(-1, len(self.sum)))


def with_4_bits(op: Layer, sums: SumsOfInputs, fits: bool = True) -> Layer:
    """Returns the layer with weights of 4 bits, rounded for these inputs; if it fits, for what layers before have lost."""
    levels = op.weights.constant.reshape(op.weights.shape[0], -1).astype(np.float64)
    fine = np.broadcast_to(op.weights.channel_scales, (len(levels),))
    real = levels * fine[:, None]
    importance = np.diag(sums.products) if sums.has_products else np.ones(levels.shape[1])
    least = np.abs(op.bias.constant.astype(np.float64)) * fine / LARGEST_BIAS
    scales = np.maximum(_best_scales(real, importance, fine), least.astype(np.float32))
    rounded = (
        _compensated(_fitted(real, sums) if fits else real, scales, sums.products)
        if sums.has_products
        else _nearest(real, scales)
    )
    shift = real @ sums.wanted - (rounded * scales[:, None]) @ sums.sum
    steps = op.x.scale * scales
    bias = op.bias.constant.astype(np.float64) * fine * op.x.scale + shift * op.x.scale / max(sums.rows, 1)
    quant = PerChannel(tuple(steps.tolist()), 0) if op.bias.type.quant is not None else None
    changes: dict[str, Any] = {
        "weights": constant_value(
            op.weights.name,
            rounded.astype(np.int8).reshape(op.weights.shape),
            PerChannel(tuple(scales.tolist()), 0),
            DType.INT4,
        ),
        "bias": constant_value(op.bias.name, np.round(bias / steps).astype(np.int32), quant),
    }
    return replace(op, **changes)


def _nearest(real: Reals, scales: Reals) -> Reals:
    return np.asarray(np.clip(np.round(real / scales[:, None]), -LARGEST, LARGEST))


def _best_scales(real: Reals, importance: Reals, fine: Reals) -> Reals:
    """Returns the scale of each channel with the least squared error, inputs weighed by their size."""
    largest = np.abs(real).max(axis=1)
    largest = np.where(largest > 0, largest, fine * LARGEST)
    tried = [np.float32(largest * share / LARGEST).astype(np.float64) for share in CLIPPED]
    errors = [np.square(_nearest(real, s) * s[:, None] - real) @ importance for s in tried]
    return np.stack(tried)[np.argmin(errors, axis=0), np.arange(len(real))]


def _fitted(real: Reals, sums: SumsOfInputs) -> Reals:
    """Returns weights whose results for the inputs as they are come near the wanted ones. How far they leave `real` is
    decided by what weights of one half of the samples give in the other."""
    lowest, chosen = 0.0, None  # errors less that of `real`
    for ridge in RIDGES:
        error = 0.0
        for products, wanted, others, wanted_others in zip(
            sums.halves, sums.wanted_halves, sums.halves[::-1], sums.wanted_halves[::-1], strict=True
        ):
            change = _ridge_change(real, products, wanted, ridge)
            missing = real @ (wanted_others - others)
            error += float((change * (change @ others - 2 * missing)).sum())
        if error < lowest:
            lowest, chosen = error, ridge
    if chosen is None:
        return real
    return real + _ridge_change(real, sums.products, sums.wanted_halves.sum(axis=0), chosen)


def _ridge_change(real: Reals, products: Reals, wanted: Reals, ridge: float) -> Reals:
    """Returns what weights change by to make good what their inputs lack (ridge regression)."""
    damping = (ridge * np.diag(products).mean() + 1e-9) * np.eye(len(products))
    return np.asarray(np.linalg.solve(products + damping, (wanted - products).T @ real.T).T)


def _compensated(real: Reals, scales: Reals, products: Reals) -> Reals:
    """Rounds input by input, the largest first; passes errors on to the inputs that are left."""
    products = products.copy()
    order = np.argsort(-np.diag(products), kind="stable")
    products[np.diag_indices_from(products)] += DAMPING * np.diag(products).mean() + 1e-9
    inverse = np.linalg.inv(products[np.ix_(order, order)])
    upper = np.linalg.cholesky(inverse).T
    left, rounded = real[:, order].copy(), np.zeros_like(real)
    for first in range(0, real.shape[1], BLOCK):
        last = min(first + BLOCK, real.shape[1])
        errors = np.zeros((len(real), last - first))
        for k in range(first, last):
            rounded[:, k] = np.clip(np.round(left[:, k] / scales), -LARGEST, LARGEST)
            error = (left[:, k] - rounded[:, k] * scales) / upper[k, k]
            left[:, k:last] -= error[:, None] * upper[k, k:last]
            errors[:, k - first] = error
        left[:, last:] -= errors @ upper[first:last, last:]
    back = np.empty_like(rounded)
    back[:, order] = rounded
    return back
