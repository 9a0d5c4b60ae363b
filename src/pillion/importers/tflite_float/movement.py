# SPDX-License-Identifier: Apache-2.0
"""Reads operators that only move data: as in int8 files, with each move as a PyTorch function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from pillion.codecs.tflite.geometry import axis_of
from pillion.codecs.tflite.read_operator import Reading as Int8Reading
from pillion.codecs.tflite.read_operator import ReadOperator
from pillion.codecs.tflite.rows import READERS
from pillion.importers.tflite import compare_select, movement, space_batch
from pillion.importers.tflite_float.readings import FloatCall, Reading, activation, float_call
from pillion.ops.movement import Concat, Flip, Pad, Reshape, Slice, Transpose
from pillion.schemas import tflite


def _slice(op: Slice, x: Tensor) -> Tensor:
    axes = zip(op.begin, op.step, op.y.shape, strict=True)
    return x[tuple(slice(begin, begin + (size - 1) * step + 1, step) for begin, step, size in axes)]


def _pad(op: Pad, x: Tensor) -> Tensor:
    sides = [n for pair in zip(op.before[::-1], op.after[::-1], strict=True) for n in pair]
    return F.pad(x, sides, value=float(op.value))


MOVES: dict[type[Any], Callable[..., Tensor]] = {
    Reshape: lambda op, x: x.reshape(op.y.shape),
    Transpose: lambda op, x: x.permute(op.order),
    Slice: _slice,
    Pad: _pad,
    Concat: lambda op, *xs: torch.cat(xs, op.axis),
    Flip: lambda op, x: torch.flip(x, op.axes),
}
"""The PyTorch function of each op that moves data."""


def moved(reading: Int8Reading) -> Reading:
    """Returns the reader of an operator that int8 files have, too."""

    def row(call: ReadOperator) -> FloatCall:
        ops = reading(call)
        for op in ops:
            op.check()
        read = {v.name for op in ops for v in op.operands}
        numbers = tuple(n for n, v in enumerate(call.inputs) if v is not None and v.name in read)

        def forward(*operands: Tensor) -> tuple[Tensor, ...]:
            known = {call.operand(n).name: x for n, x in zip(numbers, operands, strict=True)}
            for op in ops:
                known[op.name] = MOVES[type(op)](op, *(known[v.name] for v in op.operands))
            return tuple(known[y.name] for y in call.outputs)

        return float_call(call, forward, operands=numbers)

    return row


def concat(call: ReadOperator) -> FloatCall:
    """Reads a concatenation."""
    options, rank = call.options_as(tflite.ConcatenationOptions), call.result.type.rank
    axis, after = axis_of(call, options.axis, rank), activation(call, options.fused_activation)
    return float_call(call, lambda *xs: after(torch.cat(xs, axis)), operands=tuple(range(len(call.inputs))))


def gather(call: ReadOperator) -> FloatCall:
    """Reads slices by index."""
    options, x, numbers = call.options_as(tflite.GatherOptions), call.operand(0), call.operand(1)
    axis, shape = axis_of(call, options.axis, x.type.rank), call.result.shape
    if options.batch_dims:
        raise call.refuse("there are no batch axes", options.batch_dims)
    if numbers.is_constant and not 0 <= numbers.constant.min() <= numbers.constant.max() < x.shape[axis]:
        raise call.refuse(f"numbers of slices are from 0 to {x.shape[axis] - 1}", repr(numbers))

    def forward(x: Tensor, numbers: Tensor) -> Tensor:
        return torch.index_select(x, axis, numbers.reshape(-1)).reshape(shape)

    return float_call(call, forward, operands=(0, 1))


def fill(call: ReadOperator) -> FloatCall:
    """Reads a tensor of one number."""
    shape = call.result.shape
    if call.constant(1).type.elements != 1:
        raise call.refuse("there is one element", repr(call.operand(1)))
    return float_call(call, lambda x: x.reshape(()).expand(shape), operands=(1,))


ROWS: dict[str, Reading] = {
    "FILL": fill,
    "SPACE_TO_BATCH_ND": moved(space_batch.space_to_batch),
    "BATCH_TO_SPACE_ND": moved(space_batch.batch_to_space),
    "RESHAPE": moved(movement.reshape),
    "SQUEEZE": moved(movement.reshape),
    "EXPAND_DIMS": moved(movement.reshape),
    "TRANSPOSE": moved(READERS["TRANSPOSE"]),
    "CONCATENATION": concat,
    "PACK": moved(movement.pack),
    "UNPACK": moved(movement.unpack),
    "SPLIT": moved(movement.split),
    "SPLIT_V": moved(movement.split_v),
    "SLICE": moved(movement.slice),
    "STRIDED_SLICE": moved(movement.strided_slice),
    "REVERSE_V2": moved(movement.reverse),
    "PAD": moved(movement.pad),
    "PADV2": moved(movement.padv2),
    "GATHER": gather,
    "TILE": moved(compare_select.tile),
    "SPACE_TO_DEPTH": moved(space_batch.space_to_depth),
    "DEPTH_TO_SPACE": moved(space_batch.depth_to_space),
}
"""The readers of this file, by operator name."""
