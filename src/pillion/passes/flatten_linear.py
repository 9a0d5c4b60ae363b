# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses

import numpy as np

from pillion.ir.rewriting import Replacement, RewriteSweep, rewrite_pass
from pillion.ir.types import Array, PerChannel, constant_value
from pillion.ops import Linear, Reshape, Transpose


@rewrite_pass(Linear)
def flatten_linear(op: Linear, at: RewriteSweep) -> Replacement:
    """Removes the transpose before reshape → linear: it permutes the columns of the weights instead of the
    activations."""
    flat = at.graph.producers.get(op.x)
    move = at.graph.producers.get(flat.x) if isinstance(flat, Reshape) else None
    if not isinstance(flat, Reshape) or not isinstance(move, Transpose):
        return None
    inner = _flattened_axes(flat)
    if inner is None or move.order[: len(move.order) - inner] != tuple(range(len(move.order) - inner)):
        return None
    direct = flat.y.like(at.names.fresh(f"{flat.y.name}_nhwc"))
    quant = op.weights.type.quant
    assert not isinstance(quant, PerChannel) or quant.axis == 0
    columns = _permuted_columns(op.weights.constant, move, inner)
    weights = constant_value(at.names.fresh(f"{op.weights.name}_nhwc"), columns, quant, op.weights.dtype)
    return [dataclasses.replace(flat, x=move.x, y=direct), dataclasses.replace(op, x=direct, weights=weights)]


def _flattened_axes(flat: Reshape) -> int | None:
    """Returns how many of the last axes the reshape joins into rows; None if it does something else."""
    features, count = flat.y.shape[-1], 1
    for taken, size in enumerate(reversed(flat.x.shape), 1):
        count *= size
        if count == features and flat.x.shape[: len(flat.x.shape) - taken] == flat.y.shape[:-1]:
            return taken
    return None


def _permuted_columns(weights: Array, move: Transpose, inner: int) -> Array:
    """Returns the weights with their columns in the order of the tensor before the transpose."""
    lead = len(move.order) - inner
    back = [1 + move.order.index(lead + i) - lead for i in range(inner)]
    columns = weights.reshape(len(weights), *move.y.shape[lead:]).transpose(0, *back)
    return np.ascontiguousarray(columns.reshape(weights.shape))
