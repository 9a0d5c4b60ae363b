# SPDX-License-Identifier: Apache-2.0
"""Rows of ops that only move data. Permutations move none: they only change the layout. The boundaries of loops have
no rows: `import_loops.py` imports them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from pillion.importers.torch.layout import Builder, LayoutValue
from pillion.importers.torch.loop_nodes import CARRIED, ELEMENT, LAST, STACKED
from pillion.importers.torch.rows.byte_functions import in_one_type
from pillion.importers.torch.rows.quantization import RULES, QuantizationRule, rule_of_op
from pillion.importers.torch.rows.table import aten, lowers, unsupported_call_error
from pillion.importers.torch.views import reshape_logical
from pillion.ir.op import Quantization
from pillion.ops import Concat, Flip, Pad, Reshape, Scan, Slice, Transpose

_OF_LOOPS = QuantizationRule(Scan.kind, Quantization.SHARED)
RULES.update(dict.fromkeys((ELEMENT, CARRIED, STACKED), _OF_LOOPS))
RULES[LAST] = replace(_OF_LOOPS, operands=(0, 1))


@lowers(aten.cat.default, quantized=rule_of_op(Concat, numbers=True))
def cat(b: Builder, tensors: Sequence[LayoutValue], dim: int = 0) -> LayoutValue:
    """Lowers a concatenation in the layout of the largest operand."""
    tensors = in_one_type(b, tensors)
    lead = max(tensors, key=lambda t: t.value.type.elements)
    values = tuple(b.arrange(t, lead.order) for t in tensors)
    if len(values) == 1:
        return lead
    return LayoutValue(b.emit(Concat, xs=values, axis=lead.axis(dim)), lead.order)


@lowers(aten.slice.Tensor, quantized=rule_of_op(Slice, numbers=True))
def slice_tensor(
    b: Builder, x: LayoutValue, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> LayoutValue:
    """Lowers a slice along one axis; a slice of all elements is no op."""
    size = x.shape[dim]
    begin, stop, _ = slice(start, end).indices(size)
    count = max(0, -(-(stop - begin) // step))
    if (begin, count, step) == (0, size, 1):
        return x
    if count == 0:
        raise unsupported_call_error(
            "an empty slice is not supported",
            "slice: at least one element",
            f"{start}:{end}:{step} of {size}",
            "leave out what is made of it",
        )
    axis = x.axis(dim)
    shape = tuple(count if i == axis else d for i, d in enumerate(x.value.shape))
    begins = tuple(begin if i == axis else 0 for i in range(x.rank))
    steps = tuple(step if i == axis else 1 for i in range(x.rank))
    return x.with_value(b.emit(Slice, x=x.value, shape=shape, begin=begins, step=steps))


def constant_pad_nd(b: Builder, x: LayoutValue, pad: Sequence[int], value: float = 0) -> LayoutValue:
    """Lowers padding listed from the last logical axis backwards; negative numbers crop."""
    before, after = [0] * x.rank, [0] * x.rank
    for i in range(len(pad) // 2):
        logical = x.rank - 1 - i
        first, last = pad[2 * i], pad[2 * i + 1]
        x = slice_tensor(b, x, logical, max(-first, 0), x.shape[logical] - max(-last, 0))
        before[x.axis(logical)], after[x.axis(logical)] = max(first, 0), max(last, 0)
    if not any((*before, *after)):
        return x
    return x.with_value(b.emit(Pad, x=x.value, before=tuple(before), after=tuple(after), value=float(value)))


@lowers(aten.pad.default, quantized=rule_of_op(Pad))
def pad(
    b: Builder, x: LayoutValue, pad: Sequence[int], mode: str = "constant", value: float | None = None
) -> LayoutValue:
    """Lowers padding with a constant."""
    assert mode == "constant", "other modes are decomposed (`decompositions.padding`)"
    return constant_pad_nd(b, x, pad, value or 0)


@lowers(aten.flip.default, quantized=rule_of_op(Flip, numbers=True))
def flip(b: Builder, x: LayoutValue, dims: Sequence[int]) -> LayoutValue:
    """Reverses some logical axes."""
    axes = tuple(sorted(x.axis(dim) for dim in dims))
    return x.with_value(b.emit(Flip, x=x.value, axes=axes)) if axes else x


@lowers(aten.permute.default, quantized=rule_of_op(Transpose, numbers=True))
def permute(b: Builder, x: LayoutValue, dims: Sequence[int]) -> LayoutValue:
    """Permutes logical axes without moving data."""
    return x.permuted(dims)


@lowers(aten.reshape.default, quantized=rule_of_op(Reshape, numbers=True))
def reshape(b: Builder, x: LayoutValue, size: Sequence[int]) -> LayoutValue:
    """Reshapes in logical order; one size may be -1."""
    known = math.prod(s for s in size if s != -1)
    return reshape_logical(
        b, x, tuple(s if s != -1 else x.value.type.elements // max(known, 1) for s in size)
    )
