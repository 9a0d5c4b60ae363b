# SPDX-License-Identifier: Apache-2.0
"""Reads operators that permute blocks, borders and slices, as ops that only move data."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pillion.codecs.tflite.read_operator import Reading, ReadOperator
from pillion.importers.tflite.movement import reshaped
from pillion.importers.tflite.output_shapes import with_shape
from pillion.ir.op import Op
from pillion.ir.types import DType, PerTensor, Shape, Value, constant
from pillion.ops.indexing import Gather
from pillion.ops.movement import Pad, Reshape, Slice, Transpose
from pillion.schemas import tflite


def _blocks(call: ReadOperator, x: Value, apart: Shape, order: Sequence[int], y: Value) -> list[Op]:
    """Returns a reshape that splits axes, a transposition, and a reshape to the result."""
    parts = call.intermediate("parts", apart, x)
    moved = call.intermediate("moved", tuple(apart[i] for i in order), x)
    return [
        Reshape(x=x, y=parts, source=call.source),
        Transpose(x=parts, y=moved, order=tuple(order), source=call.source),
        Reshape(x=moved, y=y, source=call.source),
    ]


def space_to_depth(call: ReadOperator) -> list[Op]:
    """Reads blocks of pixels as channels."""
    x, block = call.operand(0), call.options_as(tflite.SpaceToDepthOptions).block_size
    n, h, w, c = x.shape
    apart = (n, h // block, block, w // block, block, c)
    return _blocks(call, x, apart, (0, 1, 3, 2, 4, 5), call.result)


def depth_to_space(call: ReadOperator) -> list[Op]:
    """Reads channels as blocks of pixels."""
    x, block = call.operand(0), call.options_as(tflite.DepthToSpaceOptions).block_size
    n, h, w, c = x.shape
    apart = (n, h, w, block, block, c // block**2)
    return _blocks(call, x, apart, (0, 1, 3, 2, 4, 5), call.result)


def _block_and_borders(call: ReadOperator) -> tuple[Value, list[int], list[int]]:
    x, block, borders = call.operand(0), call.integers(1), call.integers(2)
    fits = 0 < len(block) < x.type.rank and len(borders) == 2 * len(block)
    if not fits or min(block) < 1 or min(borders) < 0:
        raise call.refuse(
            "a block and two borders for each axis behind that of the batch", f"{block}, {borders}"
        )
    return x, block, borders


def space_to_batch(call: ReadOperator) -> list[Op]:
    """Reads pixels, padded and distributed over more images."""
    x, block, borders = _block_and_borders(call)
    inner = x.type.rank - 1 - len(block)
    before, after = (0, *borders[::2], *(0,) * inner), (0, *borders[1::2], *(0,) * inner)
    shape = tuple(b + d + a for b, d, a in zip(before, x.shape, after, strict=True))
    if any(d % b for d, b in zip(shape[1:], block, strict=False)):
        raise call.refuse("axes are whole blocks", f"{list(shape)} in blocks of {block}")
    ops: list[Op] = []
    if any(borders):
        padded = call.intermediate("padded", shape, x)
        fill = x.zero_point if isinstance(x.type.quant, PerTensor) else 0
        ops.append(Pad(x=x, y=padded, before=before, after=after, value=fill, source=call.source))
        x = padded
    pairs = [part for d, b in zip(shape[1:], block, strict=False) for part in (d // b, b)]
    count = len(block)
    order = (*(2 + 2 * i for i in range(count)), 0, *(1 + 2 * i for i in range(count)))
    apart = (shape[0], *pairs, *shape[1 + count :])
    y = with_shape(call, call.result, (shape[0] * math.prod(block), *pairs[::2], *shape[1 + count :]))
    return [*ops, *_blocks(call, x, apart, (*order, *range(1 + 2 * count, len(apart))), y)]


def batch_to_space(call: ReadOperator) -> list[Op]:
    """Reads images whose pixels are interleaved and cropped."""
    x, block, crops = _block_and_borders(call)
    count, images = len(block), x.shape[0] // math.prod(block)
    if x.shape[0] % math.prod(block):
        raise call.refuse("images are whole blocks", f"{list(x.shape)} in blocks of {block}")
    inner = x.shape[1 + count :]
    whole = (images, *(d * b for d, b in zip(x.shape[1:], block, strict=False)), *inner)
    begin = (0, *crops[::2], *(0,) * len(inner))
    ends = (0, *crops[1::2], *(0,) * len(inner))
    left = tuple(d - b - e for d, b, e in zip(whole, begin, ends, strict=True))
    if min(left) < 1:
        raise call.refuse("something is left of each axis", f"{list(whole)} without {crops}")
    apart = (*block, images, *x.shape[1:])
    order = [count, *(i for n in range(count) for i in (count + 1 + n, n))]
    order += range(2 * count + 1, len(apart))
    y = with_shape(call, call.result, left)
    if not any(crops):
        return _blocks(call, x, apart, order, y)
    joined = call.intermediate("joined", whole, x)
    cut = Slice(x=joined, y=y, begin=begin, step=(1,) * len(whole), source=call.source)
    return [*_blocks(call, x, apart, order, joined), cut]


def mirror_pad(call: ReadOperator) -> list[Op]:
    """Reads mirrored borders as slices by index, with the outermost slice repeated (SYMMETRIC) or not
    (REFLECT)."""
    x, pairs = call.operand(0), call.integers(1)
    mode = call.options_as(tflite.MirrorPadOptions).mode
    own = 1 - mode
    if len(pairs) != 2 * x.type.rank or mode not in (0, 1) or min(pairs, default=0) < 0:
        raise call.refuse(
            f"paddings are {x.type.rank} pairs, the mode is REFLECT or SYMMETRIC", f"{pairs}, {mode}"
        )
    axes = [axis for axis in range(x.type.rank) if any(pairs[2 * axis : 2 * axis + 2])]
    ops: list[Op] = []
    for axis in axes:
        size, (before, after) = x.shape[axis], pairs[2 * axis : 2 * axis + 2]
        if max(before, after) > size - own:
            raise call.refuse(f"axis {axis} has {size - own} slices to mirror", f"{before} and {after}")
        numbers = [
            *range(before - 1 + own, own - 1, -1),
            *range(size),
            *range(size - 1 - own, size - 1 - own - after, -1),
        ]
        ops.append(_taken(call, x, numbers, axis, call.result if axis == axes[-1] else None))
        x = ops[-1].results[0]
    return ops or [Reshape(x=x, y=with_shape(call, call.result, x.shape), source=call.source)]


def _taken(call: ReadOperator, x: Value, numbers: Sequence[int], axis: int, y: Value | None) -> Op:
    """Returns slices at known indices."""
    shape = tuple(len(numbers) if i == axis else d for i, d in enumerate(x.shape))
    made = y or call.intermediate("taken", shape, x)
    indices = constant(call.fresh(f"{call.result.name}/numbers"), np.array(numbers, np.int32))
    return Gather(x=x, indices=indices, y=made, axis=axis, source=call.source)


def gather_nd(call: ReadOperator) -> list[Op]:
    """Reads slices by index tuples; known tuples become single indices."""
    x, numbers, y = call.operand(0), call.operand(1), call.result
    depth = numbers.shape[-1] if numbers.type.rank else 0
    if not 0 < depth <= x.type.rank or numbers.dtype is not DType.INT32:
        raise call.refuse(f"up to {x.type.rank} numbers of int32 for each slice", repr(numbers))
    outer, inner = x.shape[:depth], x.shape[depth:]
    before, flat = reshaped(call, x, (math.prod(outer), *inner))
    if numbers.is_constant:
        held = numbers.constant.astype(np.int64)
        if (held < 0).any() or (held >= outer).any():
            raise call.refuse(f"numbers are inside of {list(outer)}", repr(numbers))
        one = np.ravel_multi_index(tuple(held[..., i] for i in range(depth)), outer)
        indices = constant(call.fresh(f"{y.name}/numbers"), np.asarray(one, np.int32))
        return [*before, Gather(x=flat, indices=indices, y=y, axis=0, source=call.source)]
    if depth > 1:
        raise call.refuse(
            "computed numbers are one for each slice", repr(numbers), "tf.gather along one axis"
        )
    more, indices = reshaped(call, numbers, numbers.shape[:-1])
    return [*before, *more, Gather(x=flat, indices=indices, y=y, axis=0, source=call.source)]


def zeros_like(call: ReadOperator) -> list[Op]:
    """Reads a tensor of zeros as a constant."""
    y = call.result
    if y.type.quant is not None:
        raise call.refuse("zeros are whole numbers or booleans", repr(y))
    call.bind(y, constant(y.name, np.zeros(y.shape, y.dtype.numpy)))
    return []


def rank_of(call: ReadOperator) -> list[Op]:
    """Reads the number of axes as a constant."""
    y = call.result
    call.bind(y, constant(y.name, np.array(call.operand(0).type.rank, np.int32)))
    return []


ROWS: dict[str, Reading] = {
    "SPACE_TO_DEPTH": space_to_depth,
    "DEPTH_TO_SPACE": depth_to_space,
    "SPACE_TO_BATCH_ND": space_to_batch,
    "BATCH_TO_SPACE_ND": batch_to_space,
    "MIRROR_PAD": mirror_pad,
    "GATHER_ND": gather_nd,
    "ZEROS_LIKE": zeros_like,
    "RANK": rank_of,
}
"""The readers of this file, by operator name."""
