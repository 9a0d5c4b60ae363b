# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses

import numpy as np

from pillion.ir.graph import Graph, UniqueNames, rewrite
from pillion.ir.op import Op
from pillion.ir.types import PerChannel, Value, constant
from pillion.ops import Linear, Reshape, Transpose


def flatten_linear(graph: Graph) -> Graph:
    """Removes the transpose before reshape → linear: it permutes the columns of the weights instead of the
    activations."""
    names = UniqueNames(list(graph.values))
    return rewrite(graph, lambda g, op: _absorb_transpose(g, op, names))


def _absorb_transpose(graph: Graph, op: Op, names: UniqueNames) -> list[Op] | None:
    flat = graph.producers.get(op.x) if isinstance(op, Linear) else None
    move = graph.producers.get(flat.x) if isinstance(flat, Reshape) else None
    if not isinstance(op, Linear) or not isinstance(flat, Reshape) or not isinstance(move, Transpose):
        return None
    inner = _flattened_axes(flat)
    if inner is None or move.order[: len(move.order) - inner] != tuple(range(len(move.order) - inner)):
        return None
    direct = Value(names.fresh(f"{flat.y.name}_nhwc"), flat.y.type)
    weights = _permute_weight_columns(op.weights, move, inner, names)
    return [dataclasses.replace(flat, x=move.x, y=direct), dataclasses.replace(op, x=direct, weights=weights)]


def _flattened_axes(flat: Reshape) -> int | None:
    """Returns how many of the last axes the reshape joins into rows; None if it does something else."""
    features, count = flat.y.shape[-1], 1
    for taken, size in enumerate(reversed(flat.x.shape), 1):
        count *= size
        if count == features and flat.x.shape[: len(flat.x.shape) - taken] == flat.y.shape[:-1]:
            return taken
    return None


def _permute_weight_columns(weights: Value, move: Transpose, inner: int, names: UniqueNames) -> Value:
    """Permutes the columns of the weights into the order of the tensor before the transpose."""
    lead = len(move.order) - inner
    moved_sizes = [move.y.shape[lead + i] for i in range(inner)]
    back = [move.order.index(lead + i) - lead for i in range(inner)]
    columns = weights.constant.reshape(weights.shape[0], *moved_sizes).transpose(0, *(1 + a for a in back))
    data = np.ascontiguousarray(columns.reshape(weights.shape))
    quant = weights.type.quant
    assert not isinstance(quant, PerChannel) or quant.axis == 0
    return constant(names.fresh(f"{weights.name}_nhwc"), data, quant)
