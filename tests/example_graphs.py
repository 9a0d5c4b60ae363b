# SPDX-License-Identifier: Apache-2.0
"""The examples of ops as graphs: one each, or all of a kind side by side, so that one build runs them all."""

from __future__ import annotations

import dataclasses

import numpy as np

from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import Array, DType, Value
from pillion.ops.example_values import random_like


def renamed(op: Op, prefix: str) -> Op:
    """The same op with all its values under other names."""
    values = {v: dataclasses.replace(v, name=f"{prefix}_{v.name}") for v in (*op.operands, *op.results)}
    return op.substitute(values)


def side_by_side(ops: list[Op], name: str, arithmetic: Arithmetic = Arithmetic.CMSIS_NN) -> Graph:
    """One graph of ops that have nothing to do with one another."""
    apart = [renamed(op, f"e{i}") for i, op in enumerate(ops)]
    inputs = tuple(v for op in apart for v in op.activations)
    return Graph(name, inputs, tuple(apart), tuple(r for op in apart for r in op.results), arithmetic)


def boundary_like(value: Value) -> Array:
    """The ends of the range in turn: sums become as large as they can."""
    if value.dtype is DType.FLOAT32:
        edges = [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, 1e30, -1e30, np.inf, -np.inf, np.nan, 1e-40]
        return np.resize(np.array(edges, np.float32), value.shape)
    low, high = value.dtype.bounds
    return np.resize(np.array([low, high, high, low, 0], value.dtype.numpy), value.shape)


def samples_of(graph: Graph, count: int = 3) -> list[list[Array]]:
    """Random inputs, then the ends of the range."""
    random = [[random_like(v, seed) for v in graph.inputs] for seed in range(count)]
    return [*random, [boundary_like(v) for v in graph.inputs]]
