# SPDX-License-Identifier: Apache-2.0
"""Random inputs that cover the complete range of a program's inputs, and beyond it where they saturate."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pillion.emitters.c.manifest import ManifestBuffer
from pillion.ir.graph import Graph
from pillion.ir.types import Array, DType, Value
from pillion.ops import Cast, EmbeddingBag, Gather, Quantize
from pillion.ops.movement import Movement

BEYOND = 1.1
"""The range of float inputs relative to int8's: a twentieth of the inputs saturates on either side."""

NEAR_TIE = 2.0**-10
"""A fraction of a step. For float inputs this close to a tie, ExecuTorch's kernels may round differently on
Helium, which rounds the product once, than elsewhere; both are right."""


def random_samples(graph: Graph, count: int, seed: int) -> list[list[Array]]:
    """Returns inputs for a graph; the same seed gives the same ones, and a larger count extends them."""
    rng = np.random.default_rng(seed)
    return [[_random_value(graph, value, rng) for value in graph.inputs] for _ in range(count)]


def samples_of_manifest(
    buffers: Sequence[ManifestBuffer | Value], count: int, seed: int
) -> list[list[Array]]:
    """Returns inputs for a C project from their types."""
    rng = np.random.default_rng(seed)
    return [[_random_of_type(b.shape, b.dtype, rng) for b in buffers] for _ in range(count)]


def _random_value(graph: Graph, value: Value, rng: np.random.Generator) -> Array:
    covered = _represented_range(graph, value)
    if value.dtype is DType.INT32 and (count := _indexed_slices(graph, value)):
        return rng.integers(0, count, value.shape).astype(np.int32)
    if covered is None:
        return _random_of_type(value.shape, value.dtype, rng)
    low, high, step = covered
    middle, half = (low + high) / 2, (high - low) / 2 * BEYOND
    drawn = rng.uniform(middle - half, middle + half, value.shape)
    is_near = np.abs(np.mod(drawn / step, 1) - 0.5) < NEAR_TIE
    return (drawn + is_near * step / 8).astype(np.float32)


def _indexed_slices(graph: Graph, value: Value) -> int:
    """Returns the number of slices that integers index, directly or after movement; 0 if they are no
    indices."""
    counts = []
    for op in graph.users.get(value, []):
        if isinstance(op, (Gather, EmbeddingBag)) and value is op.indices:
            counts.append(op.x.shape[op.axis] if isinstance(op, Gather) else op.table.shape[0])
        elif isinstance(op, (Movement, Cast)) or (isinstance(op, Gather) and op.y.dtype is DType.INT32):
            counts.append(_indexed_slices(graph, op.results[0]))
    return min(filter(None, counts), default=0)


def _represented_range(graph: Graph, value: Value) -> tuple[float, float, float] | None:
    """Returns the range of a float input that its quantization represents, and the step between integers."""
    for op in graph.users.get(value, []):
        if isinstance(op, Quantize):
            low, high = op.y.dtype.bounds
            return (low - op.y.zero_point) * op.y.scale, (high - op.y.zero_point) * op.y.scale, op.y.scale
    return None


def _random_of_type(shape: tuple[int, ...], dtype: DType, rng: np.random.Generator) -> Array:
    if dtype is DType.FLOAT32:
        return rng.standard_normal(shape).astype(np.float32)
    if dtype is DType.BOOL:
        return rng.integers(0, 2, shape).astype(np.bool_)
    low, high = dtype.bounds
    return rng.integers(low, high + 1, shape).astype(dtype.numpy)
