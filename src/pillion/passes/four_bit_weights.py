# SPDX-License-Identifier: Apache-2.0
"""Rounds the weights of a layer or a table to 4 bits. Later inputs compensate the rounding errors of earlier ones
(`compensated_rounding`), and the bias compensates the mean error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from pillion.compensated_rounding import MOST_INPUTS, Reals, best_scales, compensated, nearest
from pillion.ir.op import Op, why_multipliers_explicit
from pillion.ir.types import Array, DType, PerChannel, constant_value
from pillion.ops.conv import Conv2d, padded_windows
from pillion.ops.embedding_bag import EmbeddingBag
from pillion.ops.indexing import Gather
from pillion.ops.layer import Layer

Table = Gather | EmbeddingBag
LARGEST = 7
LEVELS = -LARGEST, LARGEST
"""Weights are from -7 to 7: symmetric, as LiteRT's own, and every two fit a byte of the Helium kernels."""
FEWEST = 64
"""Fewer weights save nothing that counts."""
MOST_ROWS, MOST_VALUES = 16384, 1 << 24
"""Most windows of all samples, and most inputs of all windows."""
DAMPING = 0.01
RIDGES = 0.1, 1.0, 10.0
"""Ridge penalties, as multiples of the mean product, for weights that change to compensate earlier layers."""
STEPS, LEAST_SHARE = 5, 0.1
"""Steps of a search for the bias, and the least part of results that are taken to follow it."""
LARGEST_BIAS = 2.0**30
"""Half the range of an accumulator: nearly dead channels would otherwise have steps too fine for their bias."""
CLIPPED = np.linspace(1.0, 0.5, 21)
"""Shares of the largest weight that a channel's range may have."""


def may_have_4_bits(op: Op) -> TypeGuard[Layer]:
    """Whether a layer's weights may be rounded to 4 bits."""
    return (
        isinstance(op, Layer)
        and op.weights_of_4_bits
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
    rounded = nearest(real, scales, LEVELS).astype(np.int8)
    coarse = constant_value(table.name, rounded, PerChannel(tuple(scales.tolist()), 0), DType.INT4)
    if isinstance(op, EmbeddingBag):
        return replace(op, table=coarse)
    return EmbeddingBag(table=coarse, indices=op.indices, y=op.y, is_lookup=True, source=op.source)


class LayerInputs:
    """Windows of samples that a layer reads, and that it would read if no layer before had 4 bits."""

    def __init__(self, op: Layer, samples: int) -> None:
        self.op = op
        self.inputs = op.weights.type.elements // op.weights.shape[0]
        self.most = max(min(MOST_ROWS, MOST_VALUES // self.inputs) // samples, 1)
        """Windows of a sample that are looked at."""
        self.read: list[NDArray[np.int16]] = []
        self.wanted: list[NDArray[np.int16]] = []

    def add(self, x: Array, wanted: Array | None = None) -> None:
        """Adds an operand of the layer. `wanted` is the operand if no earlier layer had 4 bits."""
        self.read.append(self._windows(x))
        self.wanted.append(self.read[-1] if wanted is None else self._windows(wanted))

    @property
    def halves(self) -> list[tuple[Reals, Reals]]:
        """Read and wanted windows of each half of the samples; one half if there is a single sample."""
        return [
            (_joined(self.read[first::2]), _joined(self.wanted[first::2]))
            for first in range(min(2, len(self.read)))
        ]

    def _windows(self, x: Array) -> NDArray[np.int16]:
        """Returns some of the windows; operands of one shape get the same ones."""
        op, real = self.op, x.astype(np.float64) - self.op.x.zero_point
        if isinstance(op, Conv2d):
            windows, axes = padded_windows(real, op.kernel, op.stride, op.dilation, op.padding), 3
        else:
            windows, axes = real.reshape(-1, self.inputs), 1
        places = windows.shape[:axes]
        chosen = np.random.default_rng(0).permutation(prod(places))[: self.most]
        return windows[np.unravel_index(chosen, places)].reshape(-1, self.inputs).astype(np.int16)


def _joined(windows: Sequence[Array]) -> Reals:
    return np.concatenate(windows).astype(np.float64)


def with_4_bits(op: Layer, inputs: LayerInputs, fits: bool = True) -> Layer:
    """Returns the layer with 4-bit weights, rounded for these inputs. If `fits`, they also compensate the errors of
    earlier layers."""
    real, fine, bias = _real_constants(op)
    # Windows, and the errors of their results because earlier layers have 4 bits.
    halves = [(read, (wanted - read) @ real.T) for read, wanted in inputs.halves]
    read, missing = map(np.concatenate, zip(*halves, strict=True))
    wanted = read @ real.T + missing
    scales = _best_scales(real, np.square(read).sum(axis=0), fine)
    scales = np.maximum(scales, (np.abs(bias) / LARGEST_BIAS).astype(np.float32))
    rounded = _rounded(_fitted(real, halves) if fits else real, scales, read)
    low, high = ((bound - op.y.zero_point) * op.y.scale / op.x.scale for bound in (op.low, op.high))
    made = read @ (rounded * scales[:, None]).T
    return _with_constants(op, rounded, scales, _bias_for_mean(made, wanted + bias, bias, low, high))


def as_large_as_with_4_bits(op: Layer | Table) -> Layer | Table:
    """Returns a layer or a reader of a table with the nearest weights of 4 bits, whatever inputs are."""
    if isinstance(op, Table):
        return with_table_of_4_bits(op)
    real, fine, bias = _real_constants(op)
    scales = np.maximum(np.abs(real).max(axis=1), fine) / LARGEST
    scales = np.maximum(scales, np.abs(bias) / LARGEST_BIAS).astype(np.float32).astype(np.float64)
    return _with_constants(op, nearest(real, scales, LEVELS), scales, bias)


def _real_constants(op: Layer) -> tuple[Reals, Reals, Reals]:
    """Returns weights as [outputs, inputs] with their scales, and biases in steps of the operand, in real numbers."""
    levels = op.weights_per_output.astype(np.float64)
    fine = np.broadcast_to(op.weights.channel_scales, (len(levels),))
    return levels * fine[:, None], fine, op.bias.constant.astype(np.float64) * fine


def _with_constants(op: Layer, weights: Reals, scales: Reals, bias: Reals) -> Layer:
    """Returns the layer with weights of 4 bits in steps of the scales, and biases in steps of the operand."""
    steps = tuple((op.x.scale * scales).tolist())
    quant = PerChannel(steps, 0) if op.bias.type.quant is not None else None
    changes: dict[str, Any] = {
        "weights": constant_value(
            op.weights.name,
            weights.astype(np.int8).reshape(op.weights.shape),
            PerChannel(tuple(scales.tolist()), 0),
            DType.INT4,
        ),
        "bias": constant_value(op.bias.name, np.round(bias / scales).astype(np.int32), quant),
    }
    return replace(op, **changes)


def _bias_for_mean(sums: Reals, wanted: Reals, bias: Reals, low: float, high: float) -> Reals:
    """Returns the bias with which clamped sums have the mean of wanted results."""
    mean = np.clip(wanted, low, high).mean(axis=0)
    for _ in range(STEPS):
        results = sums + bias
        clamped = np.clip(results, low, high)
        share = (clamped == results).mean(axis=0)
        bias = bias + (mean - clamped.mean(axis=0)) / np.maximum(share, LEAST_SHARE)
    return bias


def _rounded(real: Reals, scales: Reals, read: Reals) -> Reals:
    if real.shape[1] > MOST_INPUTS:
        return nearest(real, scales, LEVELS)
    return compensated(real[None], scales[None], (read.T @ read)[None], LEVELS, DAMPING)[0]


def _best_scales(real: Reals, importance: Reals, fine: Reals) -> Reals:
    """Returns the scale of each channel with the least squared error, inputs weighed by their size."""
    largest = np.abs(real).max(axis=1)
    largest = np.where(largest > 0, largest, fine * LARGEST)
    tried = [np.float32(largest * share / LARGEST).astype(np.float64) for share in CLIPPED]
    return best_scales(real, tried, LEVELS, importance)


def _fitted(real: Reals, halves: Sequence[tuple[Reals, Reals]]) -> Reals:
    """Returns weights fitted to the wanted results. Weights of one half of the samples, judged by the other half,
    decide how far they leave `real`."""
    if real.shape[1] > MOST_INPUTS or len(halves) < 2:
        return real
    products = [read.T @ read for read, _ in halves]
    lacking = [missing.T @ read for read, missing in halves]
    lowest, chosen = 0.0, None  # errors less that of `real`
    for ridge in RIDGES:
        error = 0.0
        for half, other in ((0, -1), (-1, 0)):
            change = _ridge_change(products[half], lacking[half], ridge)
            error += float((change * (change @ products[other] - 2 * lacking[other])).sum())
        if error < lowest:
            lowest, chosen = error, ridge
    if chosen is None:
        return real
    return real + _ridge_change(np.sum(products, axis=0), np.sum(lacking, axis=0), chosen)


def _ridge_change(products: Reals, lacking: Reals, ridge: float) -> Reals:
    """Returns the change of the weights that compensates their missing results (ridge regression)."""
    damping = (ridge * np.diag(products).mean() + 1e-9) * np.eye(len(products))
    return np.asarray(np.linalg.solve(products + damping, lacking.T).T)
