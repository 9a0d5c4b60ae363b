# SPDX-License-Identifier: Apache-2.0
"""Reads operators that write slices at known places, as gathers or selections."""

from __future__ import annotations

import math

import numpy as np

from pillion.codecs.tflite.exact import UNSIGNED_BY
from pillion.codecs.tflite.geometry import axis_of
from pillion.codecs.tflite.operands import INT8_OR_16, require_one_of
from pillion.codecs.tflite.read_operator import Reading, ReadOperator
from pillion.importers.tflite.op_chain import OpChain
from pillion.ir.op import Op
from pillion.ir.types import DType, constant_value
from pillion.ops.compare_select import Where
from pillion.schemas import tflite

MOVED = (*INT8_OR_16, DType.INT32, DType.BOOL)


def scatter_nd(call: ReadOperator) -> list[Op]:
    """Reads slices at known places among zeros: each place gathers a slice or the zeros behind them."""
    numbers, x, y = call.constant(0).constant.astype(np.int64), call.operand(1), call.result
    require_one_of(call, x, *MOVED)
    depth = numbers.shape[-1] if numbers.ndim else 0
    if not 0 < depth <= y.type.rank or tuple(call.integers(2)) != y.shape or y.type.quant != x.type.quant:
        raise call.refuse("the shape and the scale of the result", f"{call.inputs}, {y!r}")
    outer, inner, count = y.shape[:depth], y.shape[depth:], math.prod(numbers.shape[:-1])
    if (numbers < 0).any() or (numbers >= outer).any() or x.shape != (*numbers.shape[:-1], *inner):
        raise call.refuse(f"a slice {list(inner)} for each number, numbers inside of {list(outer)}", repr(x))
    targets = np.ravel_multi_index(tuple(numbers[..., i].ravel() for i in range(depth)), outer)
    if len(set(targets.tolist())) < count:
        raise call.refuse(
            "each place is named once", "a place that is named again, where slices are added up"
        )
    source = np.full(math.prod(outer), count, np.int32)
    source[targets] = np.arange(count)
    chain = OpChain(call)
    rows = chain.reshape(x, (count, *inner))
    zero = -UNSIGNED_BY if call.is_unsigned else 0
    empty = constant_value(
        call.fresh(f"{y.name}/empty"), np.full((1, *inner), zero, x.dtype.numpy), x.type.quant
    )
    both = chain.concat((rows, empty), 0, "rows")
    chain.reshape(chain.gather(both, chain.numbers(source), "placed"), y.shape, y)
    return chain.ops


def reverse_sequence(call: ReadOperator) -> list[Op]:
    """Reads sequences whose first elements, of known number, are reversed."""
    x, lengths = call.operand(0), call.integers(1)
    require_one_of(call, x, *MOVED)
    options, rank = call.options_as(tflite.ReverseSequenceOptions), x.type.rank
    time, batch = axis_of(call, options.seq_dim, rank), axis_of(call, options.batch_dim, rank)
    if (
        time == batch
        or len(lengths) != x.shape[batch]
        or not 1 <= min(lengths) <= max(lengths) <= x.shape[time]
    ):
        raise call.refuse(f"a length from 1 to {x.shape[time]} for each of {x.shape[batch]}", lengths)
    depth = max(time, batch) + 1
    outer, inner = x.shape[:depth], x.shape[depth:]
    indices = np.indices(outer)
    length = np.array(lengths)[indices[batch]]
    indices[time] = np.where(indices[time] < length, length - 1 - indices[time], indices[time])
    flat = np.ravel_multi_index(tuple(indices), outer).ravel().astype(np.int32)
    chain = OpChain(call)
    taken = chain.gather(chain.reshape(x, (flat.size, *inner)), chain.numbers(flat), "reversed")
    chain.reshape(taken, x.shape, call.result)
    return chain.ops


def update_slice(call: ReadOperator) -> list[Op]:
    """Reads a tensor with a part replaced at a known position, as a selection. LiteRT clamps the position to fit."""
    x, part, y = call.operand(0), call.operand(1), call.result
    begin = call.integers(2)
    require_one_of(call, x, *MOVED)
    fits = len(begin) == x.type.rank == part.type.rank
    if not fits or any(p > d for p, d in zip(part.shape, x.shape, strict=True)):
        raise call.refuse("a part no larger than the whole, and where it begins", f"{x!r}, {part!r}, {begin}")
    if not part.type.quant == x.type.quant == y.type.quant or part.dtype is not x.dtype:
        raise call.refuse("the part and the whole have one type and scale", f"{x!r}, {part!r}")
    sizes = list(zip(begin, x.shape, part.shape, strict=True))
    before = tuple(min(max(b, 0), d - p) for b, d, p in sizes)
    after = tuple(d - p - b for b, (_, d, p) in zip(before, sizes, strict=True))
    inside = np.zeros(x.shape, np.bool_)
    inside[tuple(slice(b, b + p) for b, p in zip(before, part.shape, strict=True))] = True
    where, chain = constant_value(call.fresh(f"{y.name}/inside"), inside), OpChain(call)
    chain.add(Where, y, y.shape, x, condition=where, a=chain.pad(part, before, after, "part"), b=x)
    return chain.ops


ROWS: dict[str, Reading] = {
    "SCATTER_ND": scatter_nd,
    "REVERSE_SEQUENCE": reverse_sequence,
    "DYNAMIC_UPDATE_SLICE": update_slice,
}
"""The readers of this file, by operator name."""
