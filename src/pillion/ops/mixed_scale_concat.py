# SPDX-License-Identifier: Apache-2.0
"""Warns of concatenations whose operands differ widely in range, such as boxes in pixels and scores below one: the
shared scale leaves small values few steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pillion.errors import warn
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import DType, Value
from pillion.ops.formats import Dequantize, Requantize
from pillion.ops.lut import Lut
from pillion.ops.movement import Concat, Reshape, Slice, Transpose

FEW = 12
"""The warning threshold: steps, of 255, that a function's values occupy."""
MOVES = (Reshape, Transpose, Slice, Dequantize)

Makers = Mapping[Value, Op]


def warn_of_mixed_scales(graph: Graph) -> None:
    """Warns of results that hold a function's values in fewer than `FEW` steps."""
    makers = graph.producers
    for number, result in enumerate(graph.outputs):
        for op, steps in {
            op: n for op, n in _concat_step_counts(result, makers, graph.arithmetic) if n < FEW
        }.items():
            what = f"{op.function.value if isinstance(op, Lut) else op.kind} `{op.name}`"
            where = f" ({op.source})" if op.source else ""
            warn(
                f"output {number} joins numbers of very different size: {what}{where} has {steps} of 255 steps there."
                " Returned by itself, beside the others, it has all of them"
            )


def _concat_step_counts(result: Value, makers: Makers, arithmetic: Arithmetic) -> Iterator[tuple[Op, int]]:
    """Yields the functions and requantizes whose results are concatenated, with the number of steps that each
    occupies."""
    joined = _producer_before_moves(result, makers)
    for operand in joined.operands if isinstance(joined, Concat) else ():
        producer = _producer_before_moves(operand, makers)
        if isinstance(producer, Concat):
            yield from _concat_step_counts(operand, makers, arithmetic)
        elif isinstance(producer, Requantize):
            yield (
                _producer_before_moves(producer.x, makers) or producer,
                round(255 * producer.x.scale / producer.y.scale),
            )
        elif isinstance(producer, Lut) and producer.y.dtype is DType.INT8:
            entries = producer.entries(arithmetic)
            yield producer, int(entries.max()) - int(entries.min())


def _producer_before_moves(value: Value, makers: Makers) -> Op | None:
    """Returns the op that computed a tensor before it was moved."""
    producer = makers.get(value)
    while isinstance(producer, MOVES):
        producer = makers.get(producer.x)
    return producer
