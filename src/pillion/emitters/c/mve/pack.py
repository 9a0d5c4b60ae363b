# SPDX-License-Identifier: Apache-2.0
"""Constants of the Helium (MVE) kernels (kernels/mve) in the order of their loops, and what these loops need to be exact."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pillion.emitters.c.accumulators import Channels, Int8Array, Int32Array, fold_input_offset
from pillion.ir.types import Pair
from pillion.ir.verdict import Verdict

Params = dict[str, "int | float | NDArray[np.generic]"]

EVEN, ODD = [0, 2, 4, 6], [1, 3, 5, 7]
"""Channels of a group of eight: narrowing into bottom and top halves interleaves the two."""


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
    """Counts the vectors of 16 bytes that hold so many bytes."""
    return -(-bytes_ // 16)


def as_words(array: Int8Array) -> Int32Array:
    """Sees bytes as 32-bit words, as they lie in memory."""
    return np.ascontiguousarray(array).reshape(-1).view(np.int32)


def right_shifts(channels: Channels) -> Verdict:
    """Judges whether the shifts go to the right by 1 to 31 places, for which the fast rounding is exact."""
    shifts = fold_input_offset(channels).shifts
    least, most = int(shifts.min()), int(shifts.max())
    return Verdict("right_shift", least >= -31 and most <= -1, "1 to 31", f"{-most} to {-least}")


def group_starts(out_c: int) -> list[int]:
    """Gives the first channels of the groups of eight; the last group ends with the last channel."""
    return [min(c, max(out_c - 8, 0)) for c in range(0, out_c, 8)]


def pack_dot(channels: Channels) -> Int32Array:
    """Packs weights, biases and multipliers into the stream that pillion_mve_dot (kernels/mve/dot.h) reads."""
    ready = fold_input_offset(channels)
    out_c, inputs = ready.weights.shape
    missing = max(8 - out_c, 0)
    weights = np.pad(ready.weights, ((0, missing), (0, -inputs % 16)))
    bias, multipliers = np.pad(ready.wrapped_bias, (0, missing)), np.pad(ready.multipliers, (0, missing))
    shifts = np.pad(ready.shifts, (0, missing), constant_values=-1)
    groups = [slice(c, c + 8) for c in group_starts(out_c)]
    return np.concatenate([_dot_group(weights[g], bias[g], multipliers[g], shifts[g]) for g in groups])


def _dot_group(
    weights: Int8Array, bias: Int32Array, multipliers: Int32Array, shifts: Int32Array
) -> Int32Array:
    halves = (EVEN, ODD)
    parts = [as_words((31 + shifts[half]).astype(np.int8)) for half in halves]
    parts += [multipliers[half] for half in halves]
    for half in halves:
        parts += [bias[half], as_words(weights[half].reshape(4, -1, 16).swapaxes(0, 1))]
    return np.concatenate(parts)


MOST_SHIFT_OF_FACTORS = 11
"""Up to this shift to the right, a factor larger by one rounds halves away from zero, and moves nothing else that is in int8."""


def signs_of_sums(channels: Channels, dot: bool = True) -> int:
    """Gives what is done for sums below zero, as `pillion_mve_signs` (kernels/mve/dot.h) has it; not all products have factors."""
    if channels.is_rectified:
        return 2
    return int(dot and -int(fold_input_offset(channels).shifts.min()) <= MOST_SHIFT_OF_FACTORS)


def pack_dot16(channels: Channels) -> Int32Array:
    """Packs weights, biases and multipliers into the stream that pillion_mve_dot16 reads."""
    ready = fold_input_offset(channels)
    out_c, inputs = ready.weights.shape
    order = np.arange(out_c).reshape(-1, 4)[:, [0, 2, 1, 3]].ravel()
    numbers = np.stack([ready.wrapped_bias, ready.multipliers, ready.shifts], axis=1)
    weights = np.pad(ready.weights, ((0, 0), (0, 16 - inputs))).view(np.int32)
    return np.hstack([numbers, weights])[order].ravel()


def pack_linear(channels: Channels) -> Int32Array:
    """Packs weights, biases and multipliers into the stream that pillion_linear_s8_mve reads."""
    return stream_of(fold_input_offset(channels))


def plain_sums(channels: Channels) -> Channels:
    """Gives channels whose sums alone are wanted, of the input as it lies in memory."""
    return replace(channels, bias=channels.folded_bias, in_zp=0)


def stream_of(ready: Channels) -> Int32Array:
    """Packs channels that sum the input as it lies in memory."""
    missing = -len(ready.wrapped_bias) % 8
    weights = np.pad(ready.weights, ((0, missing), (0, -ready.weights.shape[1] % 16)))
    bias, multipliers = np.pad(ready.wrapped_bias, (0, missing)), np.pad(ready.multipliers, (0, missing))
    shifts = np.pad(ready.shifts, (0, missing), constant_values=-1).astype(np.int8)
    parts = []
    for c in range(0, len(bias), 8):
        order = [c + i for i in (*EVEN, *ODD)]
        pieces = weights[order].reshape(8, -1, 16).swapaxes(0, 1)
        parts += [bias[order], as_words(pieces), multipliers[order], as_words(shifts[order])]
    return np.concatenate(parts)


def linear_verdicts(channels: Channels) -> tuple[Verdict, ...]:
    """Judges what pillion_linear_s8_mve needs to be exact."""
    return (right_shifts(channels),)


def linear_params(rows: int, channels: Channels) -> Params:
    """Gives the parameters of the fully connected kernel."""
    out_features, in_features = channels.weights.shape
    sizes = {
        "rows": rows,
        "in_features": in_features,
        "out_features": out_features,
        "chunks": chunks(in_features),
    }
    levels = {"out_zp": channels.out_zp, "low": channels.low, "high": channels.high}
    return {**sizes, **levels, "constants": pack_linear(channels)}


def conv2d_1x1_verdicts(g: Geometry, channels: Channels) -> tuple[Verdict, ...]:
    """Judges what pillion_conv2d_1x1_s8_mve needs to be exact. Padding on the right and at the bottom would lie outside the input
    too."""
    reach = [(out - 1) * step < size for out, step, size in zip(g.out_size, g.stride, g.in_size, strict=True)]
    inside = g.pad_top == g.pad_left == 0 and all(reach)
    return (
        Verdict("kernel", g.kernel == (1, 1), "1x1", "x".join(map(str, g.kernel))),
        Verdict("groups", g.groups == 1, "1", str(g.groups)),
        Verdict("padding", inside, "none", "none" if inside else "some"),
        right_shifts(channels),
    )


def conv2d_1x1_k16_verdicts(g: Geometry, channels: Channels) -> tuple[Verdict, ...]:
    """Judges what pillion_conv2d_1x1_k16_s8_mve needs to be exact."""
    return (
        *conv2d_1x1_verdicts(g, channels),
        Verdict("in_channels", g.in_c <= 16, "at most 16", str(g.in_c)),
        Verdict("out_channels", g.out_c % 4 == 0, "a multiple of 4", str(g.out_c)),
        Verdict("pixels", _runs(g)[2] >= 4, "at least 4 in a row", str(_runs(g)[2])),
    )


def few_inputs(pieces: int, window: int) -> Verdict:
    """Judges whether the inputs come in just so many pieces of 16 as an unrolled loop has."""
    return Verdict(
        "window", chunks(window) == pieces, f"{16 * pieces - 15} to {16 * pieces} inputs", str(window)
    )


def _runs(g: Geometry) -> tuple[int, int, int]:
    """Images, rows of an image and pixels of a row, where pixels follow each other in equal steps."""
    if g.stride == (1, 1):
        return 1, 1, g.images * g.in_size[0] * g.in_size[1]
    return g.images, *g.out_size


def conv2d_1x1_params(g: Geometry, channels: Channels) -> Params:
    """Gives the parameters of the kernel of 1x1 windows."""
    return _pointwise(g, channels, pack_dot)


def conv2d_1x1_k16_params(g: Geometry, channels: Channels) -> Params:
    """Gives the parameters of the kernel of 1x1 windows with at most 16 input channels."""
    return _pointwise(g, channels, pack_dot16)


def _pointwise(g: Geometry, channels: Channels, pack: Callable[[Channels], Int32Array]) -> Params:
    image = g.in_size[0] * g.in_size[1]
    images, rows, pixels = _runs(g)
    return {
        "images": images,
        "image_bytes": image * g.in_c,
        "rows": rows,
        "row_bytes": g.stride[0] * g.in_size[1] * g.in_c,
        "pixels": pixels,
        "pixel_bytes": g.stride[1] * g.in_c,
        "out_c": g.out_c,
        "chunks": chunks(g.in_c),
        "out_zp": channels.out_zp,
        "low": channels.low,
        "high": channels.high,
        "signs": signs_of_sums(channels, pack is pack_dot),
        "constants": pack(channels),
    }


BLOCK_BYTES = 4096
"""Bytes of a row's windows that are laid out at a time."""


def conv2d_im2col_verdicts(g: Geometry, channels: Channels) -> tuple[Verdict, ...]:
    """Judges what pillion_conv2d_im2col_s8_mve needs to be exact."""
    return (Verdict("groups", g.groups == 1, "1", str(g.groups)), right_shifts(channels))


def conv2d_im2col_k16_verdicts(g: Geometry, channels: Channels) -> tuple[Verdict, ...]:
    """Judges what pillion_conv2d_im2col_k16_s8_mve needs; a last block may not be of fewer than four pixels."""
    window, pixels = g.kernel[0] * g.kernel[1] * g.in_c, g.out_size[0] * g.out_size[1]
    return (
        *conv2d_im2col_verdicts(g, channels),
        Verdict("window", window <= 16, "at most 16 inputs", str(window)),
        Verdict("out_channels", g.out_c % 4 == 0, "a multiple of 4", str(g.out_c)),
        Verdict("pixels", pixels >= 4, "at least 4", str(pixels)),
    )


def conv2d_im2col_params(g: Geometry, channels: Channels) -> Params:
    """Gives the parameters of the kernel that gathers windows."""
    return {
        **_windows(g),
        **levels(channels),
        "signs": signs_of_sums(channels),
        "constants": pack_dot(channels),
    }


def conv2d_im2col_k16_params(g: Geometry, channels: Channels) -> Params:
    """Gives the parameters of the kernel that gathers windows of at most 16 elements."""
    signs = signs_of_sums(channels, dot=False)
    return {**_windows(g), **levels(channels), "signs": signs, "constants": pack_dot16(channels)}


def levels(channels: Channels) -> dict[str, int]:
    """Gives the parameters that all kernels of sums have: zero points and bounds."""
    return {
        "in_zp": channels.in_zp,
        "out_zp": channels.out_zp,
        "low": channels.low,
        "high": channels.high,
    }


def _windows(g: Geometry) -> dict[str, int]:
    kernel_h, kernel_w = g.kernel
    runs, run_bytes = (1, kernel_w * g.in_c) if g.dilation[1] == 1 else (kernel_w, g.in_c)
    ring_rows = (kernel_h - 1) * g.dilation[0] + 1
    columns = (g.out_size[1] - 1) * g.stride[1] + (kernel_w - 1) * g.dilation[1] + 1
    copied = max(min(columns - g.pad_left, g.in_size[1]), 0)
    patch_bytes = 16 * chunks((kernel_h * runs - 1) * run_bytes + 16 * chunks(run_bytes))
    return {
        "images": g.images,
        "in_h": g.in_size[0],
        "in_row_bytes": g.in_size[1] * g.in_c,
        "out_w": g.out_size[1],
        "out_c": g.out_c,
        "kernel_h": kernel_h,
        "stride_h": g.stride[0],
        "dilation_h": g.dilation[0],
        "pad_top": g.pad_top,
        "end_top": g.out_size[0] * g.stride[0] - g.pad_top,
        "ring_rows": ring_rows,
        "ring_row_bytes": columns * g.in_c,
        "ring_bytes": 16 * chunks(ring_rows * columns * g.in_c) + 16,
        "left_bytes": min(g.pad_left, columns) * g.in_c,
        "copy_bytes": copied * g.in_c,
        "column_bytes": g.stride[1] * g.in_c,
        "runs": runs,
        "run_step": g.dilation[1] * g.in_c,
        "run_bytes": run_bytes,
        "block": block_of(g, patch_bytes),
        "patch_bytes": patch_bytes,
        "chunks": chunks(kernel_h * kernel_w * g.in_c),
    }


def block_of(g: Geometry, patch_bytes: int) -> int:
    """Counts the windows that are laid out at a time: whole rows where they are short, else an even number, so that no pair of
    pixels is done twice; the last block of an image has at least four where there are as many."""
    pixels = g.out_size[0] * g.out_size[1]
    most, step = BLOCK_BYTES // patch_bytes, g.out_size[1] + g.out_size[1] % 2
    block = max(most // step * step, most // 2 * 2 if most < step else 0, 8)
    while block < pixels and 0 < pixels % block < 4:
        block += 2
    return min(block, pixels)


def conv2d_im2col_scratch(g: Geometry) -> int:
    """Gives the scratch of the kernels that gather windows: a ring of rows, then the gathered windows."""
    w = _windows(g)
    return w["ring_bytes"] + w["block"] * w["patch_bytes"]


IM2COL_WORK = (410.0, 15.0, 67.0, 27.5, 21.0, 7.9)
"""Instructions of the kernel that gathers windows, fitted to counts in the emulator: of all pixels, of each eight channels, of a pair of
pixels of these, of a piece of 16 inputs of these; of 16 bytes of a run for a row of outputs, of each of its pixels."""


def work_of_sums(g: Geometry, pairs: int, work: tuple[float, ...]) -> float:
    """What sums take: `work` is that of eight channels, of a pair of pixels of them, of a piece of 16 inputs of that."""
    eights, pair, piece = work
    pieces = chunks(g.kernel[0] * g.kernel[1] * g.in_c)
    return -(-g.out_c // 8) * (eights + pairs * (pair + pieces * piece))


def conv2d_im2col_work(g: Geometry) -> float:
    """Estimates the instructions of the kernel that gathers windows."""
    image, *sums, row, pixel = IM2COL_WORK
    out_h, out_w = g.out_size
    runs, run_bytes = (1, g.kernel[1] * g.in_c) if g.dilation[1] == 1 else (g.kernel[1], g.in_c)
    gathered = g.kernel[0] * runs * chunks(run_bytes) * out_h * (row + pixel * out_w)
    return g.images * (image + work_of_sums(g, -(-out_h * out_w // 2), tuple(sums)) + gathered)
