# SPDX-License-Identifier: Apache-2.0
"""Reads operators that permute blocks, borders and slices, as ops that only move data."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pillion.codecs.tflite.operands import with_axes
from pillion.codecs.tflite.read_operator import Reading, ReadOperator
from pillion.importers.tflite.op_chain import OpChain, as_constant
from pillion.ir.op import Op
from pillion.ir.types import DType, Shape, Value
from pillion.schemas import tflite


def _rearrange_blocks(
    chain: OpChain, x: Value, apart: Shape, order: Sequence[int], shape: Shape, y: Value | str
) -> Value:
    """Adds a reshape that splits axes, a transposition, and a reshape that joins them."""
    moved = chain.transpose(chain.reshape(x, apart, "parts"), order, "moved")
    return chain.reshape(moved, shape, y)


def space_to_depth(call: ReadOperator) -> list[Op]:
    """Reads blocks of pixels as channels."""
    n, h, w, c = with_axes(call, call.operand(0), 4).shape
    block = call.options_as(tflite.SpaceToDepthOptions).block_size
    if block < 1 or h % block or w % block:
        raise call.refuse("rows and columns are whole blocks", f"{[n, h, w, c]} in blocks of {block}")
    apart, shape = (n, h // block, block, w // block, block, c), (n, h // block, w // block, c * block**2)
    return _of_image(call, apart, shape)


def depth_to_space(call: ReadOperator) -> list[Op]:
    """Reads channels as blocks of pixels."""
    n, h, w, c = with_axes(call, call.operand(0), 4).shape
    block = call.options_as(tflite.DepthToSpaceOptions).block_size
    if block < 1 or c % block**2:
        raise call.refuse("channels are whole blocks", f"{[n, h, w, c]} in blocks of {block}")
    left = c // block**2
    return _of_image(call, (n, h, w, block, block, left), (n, h * block, w * block, left))


def _of_image(call: ReadOperator, apart: Shape, shape: Shape) -> list[Op]:
    chain = OpChain(call)
    _rearrange_blocks(chain, call.operand(0), apart, (0, 1, 3, 2, 4, 5), shape, call.result)
    return chain.ops


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
    chain = OpChain(call)
    x = chain.pad(x, before, after, "padded") if any(borders) else x
    pairs = [part for d, b in zip(shape[1:], block, strict=False) for part in (d // b, b)]
    count = len(block)
    order = (*(2 + 2 * i for i in range(count)), 0, *(1 + 2 * i for i in range(count)))
    apart = (shape[0], *pairs, *shape[1 + count :])
    result_shape = (shape[0] * math.prod(block), *pairs[::2], *shape[1 + count :])
    order = (*order, *range(1 + 2 * count, len(apart)))
    _rearrange_blocks(chain, x, apart, order, result_shape, call.result)
    return chain.ops


def batch_to_space(call: ReadOperator) -> list[Op]:
    """Reads images whose pixels are interleaved and cropped."""
    x, block, crops = _block_and_borders(call)
    count, images = len(block), x.shape[0] // math.prod(block)
    if x.shape[0] % math.prod(block):
        raise call.refuse("images are whole blocks", f"{list(x.shape)} in blocks of {block}")
    inner = x.shape[1 + count :]
    full_shape = (images, *(d * b for d, b in zip(x.shape[1:], block, strict=False)), *inner)
    begin = (0, *crops[::2], *(0,) * len(inner))
    crops_after = (0, *crops[1::2], *(0,) * len(inner))
    left = tuple(d - b - e for d, b, e in zip(full_shape, begin, crops_after, strict=True))
    if min(left) < 1:
        raise call.refuse("something is left of each axis", f"{list(full_shape)} without {crops}")
    apart = (*block, images, *x.shape[1:])
    order = [count, *(i for n in range(count) for i in (count + 1 + n, n))]
    order += range(2 * count + 1, len(apart))
    y, chain = call.result, OpChain(call)
    joined = _rearrange_blocks(chain, x, apart, order, full_shape, "joined" if any(crops) else y)
    if any(crops):
        chain.slice(joined, begin, left, y)
    return chain.ops


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
    chain = OpChain(call)
    for axis in axes:
        size, (before, after) = x.shape[axis], pairs[2 * axis : 2 * axis + 2]
        if max(before, after) > size - own:
            raise call.refuse(f"axis {axis} has {size - own} slices to mirror", f"{before} and {after}")
        numbers = [
            *range(before - 1 + own, own - 1, -1),
            *range(size),
            *range(size - 1 - own, size - 1 - own - after, -1),
        ]
        y = call.result if axis == axes[-1] else "taken"
        x = chain.gather(x, chain.numbers(numbers), y, axis)
    if not axes:
        chain.reshape(x, x.shape, call.result)
    return chain.ops


def gather_nd(call: ReadOperator) -> list[Op]:
    """Reads slices by index tuples; known tuples become single indices."""
    x, numbers, y = call.operand(0), call.operand(1), call.result
    depth = numbers.shape[-1] if numbers.type.rank else 0
    if not 0 < depth <= x.type.rank or numbers.dtype is not DType.INT32:
        raise call.refuse(f"up to {x.type.rank} numbers of int32 for each slice", repr(numbers))
    outer, inner = x.shape[:depth], x.shape[depth:]
    chain = OpChain(call)
    flat = chain.reshape(x, (math.prod(outer), *inner))
    if numbers.is_constant:
        indices = numbers.constant.astype(np.int64)
        if (indices < 0).any() or (indices >= outer).any():
            raise call.refuse(f"numbers are inside of {list(outer)}", repr(numbers))
        flat_indices = np.ravel_multi_index(tuple(indices[..., i] for i in range(depth)), outer)
        chain.gather(flat, chain.numbers(flat_indices), y)
        return chain.ops
    if depth > 1:
        raise call.refuse(
            "computed numbers are one for each slice", repr(numbers), "tf.gather along one axis"
        )
    chain.gather(flat, chain.reshape(numbers, numbers.shape[:-1]), y)
    return chain.ops


def zeros_like(call: ReadOperator) -> list[Op]:
    """Reads a tensor of zeros as a constant."""
    if call.result.type.quant is not None:
        raise call.refuse("zeros are whole numbers or booleans", repr(call.result))
    return as_constant(call, np.zeros(call.operand(0).shape, call.result.dtype.numpy))


def rank_of(call: ReadOperator) -> list[Op]:
    """Reads the number of axes as a constant."""
    return as_constant(call, np.array(call.operand(0).type.rank, np.int32))


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
