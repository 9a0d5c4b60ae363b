# SPDX-License-Identifier: Apache-2.0
"""Constants of the Helium (MVE) kernels (kernels/mve) in the order of their loops, and what these loops need to be exact."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pillion.ir import numerics
from pillion.ir.types import Pair
from pillion.ir.verdict import Verdict

Int8Array = NDArray[np.int8]
Int32Array = NDArray[np.int32]
Params = dict[str, "int | float | NDArray[np.generic]"]

EVEN, ODD = [0, 2, 4, 6], [1, 3, 5, 7]
"""Channels of a group of eight: narrowing into bottom and top halves interleaves the two."""


@dataclass(frozen=True)
class Sums:
    """Output channels that are sums of products: y = clamp(requantize(bias + sum((x - in_zp) w)) + out_zp, low, high)."""

    weights: Int8Array
    """[channels, inputs of a sum]"""
    bias: Int32Array
    multipliers: Int32Array
    shifts: Int32Array
    in_zp: int
    out_zp: int
    low: int = -128
    high: int = 127


@dataclass(frozen=True)
class Geometry:
    """Shapes of a convolution over NHWC images."""

    images: int
    in_size: Pair
    in_c: int
    out_size: Pair
    out_c: int
    kernel: Pair
    stride: Pair = (1, 1)
    dilation: Pair = (1, 1)
    pad_top: int = 0
    pad_left: int = 0
    groups: int = 1


def chunks(bytes_: int) -> int:
    """Vectors of 16 bytes."""
    return -(-bytes_ // 16)


def as_words(array: Int8Array) -> Int32Array:
    return np.ascontiguousarray(array).reshape(-1).view(np.int32)


def fold_input_offset(sums: Sums) -> Sums:
    """The same sums of x itself: sum((x - zp) w) = sum(x w) - zp sum(w). A channel whose result is the same for every
    input (its scale is next to nothing) becomes a bias alone, with a shift that the fast rounding holds for."""
    w = sums.weights.astype(np.int64)
    bias = sums.bias.astype(np.int64) - sums.in_zp * w.sum(axis=1)
    least, most = np.minimum(-128 * w, 127 * w).sum(axis=1), np.maximum(-128 * w, 127 * w).sum(axis=1)
    ends = [numerics.requantize(bias + end, sums.multipliers, sums.shifts) for end in (least, most)]
    ends = [np.clip(end + sums.out_zp, -128, 127) - sums.out_zp for end in ends]
    same = (ends[0] == ends[1]) & (sums.shifts <= 0)
    return replace(
        sums,
        weights=np.where(same[:, None], np.int8(0), sums.weights),
        bias=numerics.wrap32(np.where(same, 4 * ends[0], bias)).astype(np.int32),
        multipliers=np.where(same, np.int32(2**30), sums.multipliers),
        shifts=np.where(same, np.int32(-1), sums.shifts),
        in_zp=0,
    )


def right_shifts(sums: Sums) -> Verdict:
    """The rounding shift with its fix for negative values is exact for 1 to 31 places."""
    shifts = fold_input_offset(sums).shifts
    least, most = int(shifts.min()), int(shifts.max())
    return Verdict("right_shift", -31 <= least and most <= -1, "1 to 31", f"{-most} to {-least}")


def group_starts(out_c: int) -> list[int]:
    """First channels of the groups of eight; the last group ends with the last channel."""
    return [min(c, max(out_c - 8, 0)) for c in range(0, out_c, 8)]


def pack_dot(sums: Sums) -> Int32Array:
    """The stream of pillion_mve_dot (kernels/mve/dot.h)."""
    folded = fold_input_offset(sums)
    out_c, inputs = folded.weights.shape
    missing = max(8 - out_c, 0)
    weights = np.pad(folded.weights, ((0, missing), (0, -inputs % 16)))
    bias, multipliers = np.pad(folded.bias, (0, missing)), np.pad(folded.multipliers, (0, missing))
    shifts = np.pad(folded.shifts, (0, missing), constant_values=-1)
    groups = [slice(c, c + 8) for c in group_starts(out_c)]
    return np.concatenate([_dot_group(weights[g], bias[g], multipliers[g], shifts[g]) for g in groups])


def _dot_group(
    weights: Int8Array, bias: Int32Array, multipliers: Int32Array, shifts: Int32Array
) -> Int32Array:
    parts: list[Int32Array] = [multipliers[EVEN], multipliers[ODD]]
    for half in (EVEN, ODD):
        parts += [bias[half], as_words(weights[half].reshape(4, -1, 16).swapaxes(0, 1))]
    return np.concatenate([*parts, *(as_words(shifts[half].astype(np.int8)) for half in (EVEN, ODD))])


def conv2d_1x1_verdicts(g: Geometry, sums: Sums) -> tuple[Verdict, ...]:
    """What pillion_conv2d_1x1_s8_mve needs. Padding on the right and at the bottom would lie outside the input too."""
    reach = [(out - 1) * step < size for out, step, size in zip(g.out_size, g.stride, g.in_size, strict=True)]
    inside = g.pad_top == g.pad_left == 0 and all(reach)
    return (
        Verdict("kernel", g.kernel == (1, 1), "1x1", "x".join(map(str, g.kernel))),
        Verdict("groups", g.groups == 1, "1", str(g.groups)),
        Verdict("padding", inside, "none", "none" if inside else "some"),
        right_shifts(sums),
    )


def conv2d_1x1_params(g: Geometry, sums: Sums) -> Params:
    image = g.in_size[0] * g.in_size[1]
    images, rows, pixels = g.images, *g.out_size
    if g.stride == (1, 1):
        images, rows, pixels = 1, 1, g.images * image
    return {
        "images": images,
        "image_bytes": image * g.in_c,
        "rows": rows,
        "row_bytes": g.stride[0] * g.in_size[1] * g.in_c,
        "pixels": pixels,
        "pixel_bytes": g.stride[1] * g.in_c,
        "out_c": g.out_c,
        "chunks": chunks(g.in_c),
        "out_zp": sums.out_zp,
        "low": sums.low,
        "high": sums.high,
        "constants": pack_dot(sums),
    }
