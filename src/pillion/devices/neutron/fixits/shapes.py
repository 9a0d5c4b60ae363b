# SPDX-License-Identifier: Apache-2.0
"""Fix-its for the shapes of softmaxes, broadcast operands and moved tensors."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

from pillion.devices.neutron import limits as limits
from pillion.devices.retyped import Fixit, with_inferred_result, with_shape_and_quant
from pillion.ir.op import Op
from pillion.ir.types import Shape
from pillion.ops import Pad, Reshape, Slice, Softmax, Transpose


def suggest_fewer_softmax_channels(op: Softmax) -> Iterator[Fixit]:
    """Suggests the largest number of channels of a softmax."""
    channels = op.x.shape[-1]
    rows = op.x.type.elements // channels
    yield _softmax_shape_fixit(
        op, "channels", channels, limits.MAX_SOFTMAX_CHANNELS, (rows, limits.MAX_SOFTMAX_CHANNELS)
    )


def suggest_fewer_softmax_rows(op: Softmax) -> Iterator[Fixit]:
    """Suggests the largest number of rows of a softmax."""
    channels = op.x.shape[-1]
    most = min(limits.MAX_SOFTMAX_ROWS, limits.MAX_SOFTMAX_ELEMENTS // channels)
    yield _softmax_shape_fixit(op, "rows", op.x.type.elements // channels, most, (most, channels))


def _softmax_shape_fixit(op: Softmax, what: str, old: int, now: int, shape: Shape) -> Fixit:
    return f"{what} {old} → {now}", op.substitute({v: with_shape_and_quant(v, shape) for v in (op.x, op.y)})


def suggest_unit_steps(op: Slice) -> Iterator[Fixit]:
    """Suggests the step 1 for a slice."""
    yield "step 1", dataclasses.replace(op, step=(1,) * len(op.step))


def suggest_expanded_operand(op: Op) -> Iterator[Fixit]:
    """Suggests expanding the larger operand to the shape of the result."""
    shape = op.results[0].shape
    operand = max(op.operands, key=lambda v: v.type.elements)
    words = f"{operand.name} {list(operand.shape)} → {list(shape)}"
    yield words, op.substitute({operand: with_shape_and_quant(operand, shape)})


def suggest_fewer_axes(op: Op) -> Iterator[Fixit]:
    """Suggests fewer axes, one less at a time. The user chooses which axes to merge; the NPU only counts
    them."""
    rank = op.results[0].type.rank
    for fewer in range(rank - 1, 0, -1):
        words = f"axes {rank} → {fewer} (merge some)"
        match op:
            case Reshape():
                shape = (*op.y.shape[: fewer - 1], math.prod(op.y.shape[fewer - 1 :]))
                yield words, dataclasses.replace(op, y=with_shape_and_quant(op.y, shape))
            case Transpose():
                order = tuple(a for a in op.order if a < fewer)
                x = with_shape_and_quant(op.x, op.x.shape[:fewer])
                yield words, with_inferred_result(dataclasses.replace(op, x=x, order=order))
            case Pad():
                x = with_shape_and_quant(op.x, op.x.shape[:fewer])
                before, after = op.before[:fewer], op.after[:fewer]
                yield words, with_inferred_result(dataclasses.replace(op, x=x, before=before, after=after))
