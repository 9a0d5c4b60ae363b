# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses

import numpy as np

from pillion.ir.graph import Graph, UniqueNames, rewrite
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import Array, DType, PerTensor, TensorType, Value, constant
from pillion.ops import Add, Function, Lut, Magnitude, Mul, Requantize, Scan

LEAST = -128
"""The integer that stands for 0 in a tensor without negative values."""
STEPS = 255
"""Steps between the smallest and the largest int8 value."""
EVERY_INT8 = np.arange(-128, 128)
NAMED = (Function.SQRT, Function.LOG)
"""Functions that other runtimes know by name."""


def compose_magnitudes(graph: Graph) -> Graph:
    """Expands functions of a sum of two squares into two products, a sum and a table, for formats and
    runtimes without such an op.

    Every intermediate result is rounded to 8 bits, so the result is coarser than that of the op."""
    names = UniqueNames(list(graph.values))

    def rule(_: Graph, op: Op) -> list[Op] | None:
        if isinstance(op, Scan):
            return [dataclasses.replace(op, body=compose_magnitudes(op.body))]
        return _decompose_magnitude(op, names) if isinstance(op, Magnitude) else None

    return rewrite(graph, rule) if _has_any(graph) else graph


def _has_any(graph: Graph) -> bool:
    return any(isinstance(op, Magnitude) or (isinstance(op, Scan) and _has_any(op.body)) for op in graph.ops)


def _decompose_magnitude(op: Magnitude, names: UniqueNames) -> list[Op]:
    """Returns the ops that replace one magnitude."""
    squares = [
        _make_bounded_op(
            Mul, op, names, f"{name}_squared", x.scale**2 * _max_zero_point_distance(x) ** 2, a=x, b=x
        )
        for name, x in (("a", op.a), ("b", op.b))
    ]
    first, second = (square.results[0] for square in squares)
    most = STEPS * (first.scale + second.scale)
    total = _make_bounded_op(Add, op, names, "sum", most, a=first, b=second)
    x = total.results[0]
    expected = op.from_square_sums(
        np.round((EVERY_INT8 - LEAST) * x.scale / op.step).astype(np.int64)
    ).astype(np.int8)
    if _is_near(expected, Requantize(x=x, y=op.y).reference(Arithmetic.CMSIS_NN, EVERY_INT8)):
        return [*squares, Add(a=first, b=second, y=op.y, source=op.source)]
    named = (Lut(x=x, table=None, y=op.y, function=function, source=op.source) for function in NAMED)
    table = constant(names.fresh(f"{op.name}_table"), expected)
    by_name = next((candidate for candidate in named if _is_near(expected, candidate.double_entries())), None)
    return [*squares, total, by_name or Lut(x=x, table=table, y=op.y, source=op.source)]


def _is_near(a: Array, b: Array) -> bool:
    """Whether two functions agree up to rounding."""
    return int(np.abs(a.astype(int) - b).max()) <= 1


def _max_zero_point_distance(x: Value) -> int:
    """Returns the largest distance of an integer of the tensor from its zero point."""
    return max(127 - x.zero_point, x.zero_point + 128)


def _make_bounded_op(
    cls: type[Op], op: Magnitude, names: UniqueNames, what: str, most: float, **fields: Value
) -> Op:
    """Makes an op whose result lies between 0 and `most`."""
    type = TensorType(op.y.shape, DType.INT8, PerTensor(most / STEPS, LEAST))
    bounded: Op = cls(y=Value(names.fresh(f"{op.name}_{what}"), type), source=op.source, **fields)  # type: ignore[call-arg]  # of the class
    return bounded
