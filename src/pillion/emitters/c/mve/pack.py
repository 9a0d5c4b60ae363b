# SPDX-License-Identifier: Apache-2.0
"""Constants of the Helium convolution kernels (kernels/mve) in the order of their loops, and the conditions under
which these loops are exact."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from pillion.emitters.c.accumulators import Int8Array, Int32Array, OutputChannels, channels_of
from pillion.emitters.c.kernel_conditions import is_within
from pillion.ir.types import DType, Pair
from pillion.ir.verdict import Verdict
from pillion.ops.conv import Convolution
from pillion.ops.layer import Layer
from pillion.ops.linear import Linear

Packed = Int8Array | NDArray[np.int16] | Int32Array
Weight = TypeVar("Weight", np.int8, np.int16)
Params = dict[str, "int | float | NDArray[np.generic]"]
Stored = Callable[[Int8Array], Int8Array]
"""Returns the form of grouped weights in flash."""

OVERREAD_BYTES = 15
"""Loads are 16 bytes wide; bytes behind an operand meet weights of zero or are not used."""
EVEN, ODD = [0, 2, 4, 6], [1, 3, 5, 7]
"""Channels of a group of eight. Narrowing into bottom and top halves interleaves even and odd ones."""
FOUR_LANES = [0, 2, 1, 3]
"""The order of four channels, for the same reason."""


def kernel_has_sizes(op: Convolution, field: str, wanted: str, *allowed: Pair) -> Verdict:
    """Checks whether a kernel computes this pair of sizes."""
    sizes = getattr(op, field)
    return Verdict(field, sizes in allowed, wanted, "x".join(map(str, sizes)))


def is_ungrouped(op: Convolution) -> Verdict:
    """Checks whether every output channel reads all input channels, or the only one."""
    groups = getattr(op, "groups", 1)
    return Verdict("groups", groups == 1, "1", str(groups))


def vector_count(bytes_: int) -> int:
    """Returns the number of 16-byte vectors that hold `bytes_` bytes."""
    return -(-bytes_ // 16)


def vector_inputs(op: Layer) -> int:
    """Returns the inputs of a layer that a vector holds."""
    return 16 // op.x.dtype.size_bytes


def as_words(array: Packed) -> Int32Array:
    """Views bytes as 32-bit words in memory order."""
    return np.ascontiguousarray(array).reshape(-1).view(np.int32)


def check_right_shifts(op: Layer) -> Verdict:
    """Checks whether all shifts are right shifts of 1 to 31, for which the fast rounding is exact."""
    return _shifts_from(op, 1)


def check_factors(op: Layer) -> Verdict:
    """Checks whether all shifts are right shifts of 1 to 31, or of 0 to 31 if negative sums need no sign fix, for
    loops that shift by factors."""
    return _shifts_from(op, int(negative_sum_mode(channels_of(op)) == 0))


def check_optional_fix(op: Layer) -> Verdict:
    """Checks whether all shifts are right shifts of 1 to 31, or of 0 to 31 if negative sums need no sign fix, for
    loops without a sign fix for rectified results."""
    return _shifts_from(op, int(negative_sum_mode(channels_of(op), dot=False) == 0))


def check_left_shifts(op: Layer) -> Verdict:
    """Checks whether loops that shift sums left need no sign fix for channels with right shifts."""
    channels = channels_of(op)
    most = int(-channels.with_folded_zero_point.shifts.min())
    exact = negative_sum_mode(channels) != 0
    return Verdict("right_shift", exact, f"at most {MOST_SHIFT_OF_FACTORS}, or rectified results", str(most))


def _shifts_from(op: Layer, least: int) -> Verdict:
    shifts = channels_of(op).with_folded_zero_point.shifts
    found = int(-shifts.max()), int(-shifts.min())
    fits = least <= found[0] and found[1] <= 31
    return Verdict("right_shift", fits, f"{least} to 31", f"{found[0]} to {found[1]}")


@dataclass(frozen=True)
class GroupedChannels:
    """Channels with folded zero points in groups, as [groups, lanes] in the order in which a kernel reads them."""

    weights: Int8Array
    """[groups, lanes, inputs]"""
    bias: Int32Array
    multipliers: Int32Array
    shifts: Int32Array


def group_channels(
    ready: OutputChannels, lanes: Sequence[int], unit: int = 16, overlap: bool = False
) -> GroupedChannels:
    """Groups channels by the lanes that compute them, with channels of zeros at the end, and inputs padded to a
    multiple of `unit`. With `overlap`, the last group ends with the last channel if there are enough."""
    count, inputs = ready.weights.shape
    starts = np.arange(0, count, len(lanes))
    starts = np.minimum(starts, max(count - len(lanes), 0)) if overlap else starts
    order, behind = starts[:, None] + lanes, (0, max(int(starts[-1]) + len(lanes) - count, 0))
    return GroupedChannels(
        np.pad(ready.weights, (behind, (0, -inputs % unit)))[order],
        np.pad(ready.wrapped_bias, behind)[order],
        np.pad(ready.multipliers, behind)[order],
        np.pad(ready.shifts, behind, constant_values=-1)[order],
    )


def chunks_of(weights: NDArray[Weight], unit: int = 16) -> NDArray[Weight]:
    """Returns weights [groups, rows, inputs] as [groups, chunks, rows, unit]."""
    return weights.reshape(*weights.shape[:2], -1, unit).swapaxes(1, 2)


def join_groups(*parts: Packed) -> Int32Array:
    """Joins the parts of each group into one stream of 32-bit words."""
    return np.hstack([as_words(part).reshape(len(part), -1) for part in parts]).reshape(-1)


def pack_dot(channels: OutputChannels, stored: Stored = lambda weights: weights) -> Int32Array:
    """Packs weights, biases and multipliers into the stream of pillion_mve_dot (kernels/mve/dot.h)."""
    g = group_channels(channels.with_folded_zero_point, (*EVEN, *ODD), overlap=True)
    return join_groups((31 + g.shifts).astype(np.int8), g.multipliers, *halves_of(g, stored))


def halves_of(g: GroupedChannels, stored: Stored, unit: int = 16) -> Iterator[Packed]:
    """Yields biases and weights of the even channels of each group, then of the odd channels."""
    for half in (slice(0, 4), slice(4, 8)):
        yield g.bias[:, half]
        yield stored(chunks_of(g.weights[:, half], unit))


MOST_SHIFT_OF_FACTORS = 11
"""Up to this right shift, a multiplier larger by one rounds halves away from zero and changes no other int8
result."""


def negative_sum_mode(channels: OutputChannels, dot: bool = True) -> int:
    """Returns the treatment of negative sums as `pillion_mve_signs` (kernels/mve/dot.h); only `dot` products have
    adjusted multipliers."""
    if channels.is_rectified:
        return 2
    return int(dot and -int(channels.with_folded_zero_point.shifts.min()) <= MOST_SHIFT_OF_FACTORS)


def signed_constants(pack: Callable[[OutputChannels], Int32Array], op: Layer, dot: bool = True) -> Params:
    """Returns the packed channels of a layer, and the treatment of negative sums."""
    channels = channels_of(op)
    return {"signs": negative_sum_mode(channels, dot), "constants": pack(channels)}


def pack_dot16(channels: OutputChannels) -> Int32Array:
    """Packs weights, biases and multipliers into the stream of pillion_mve_dot16."""
    g = group_channels(channels.with_folded_zero_point, FOUR_LANES)
    numbers = np.stack([g.bias, g.multipliers, g.shifts], axis=2)
    return np.concatenate([numbers, g.weights.view(np.int32)], axis=2).ravel()


def pack_dot16_4(channels: OutputChannels) -> Int32Array:
    """Packs weights of 4 bits, biases and multipliers into the stream of pillion_mve_dot_16_4bit."""
    pairs = pack_dot16(channels).reshape(-1, 2, 7)
    low, high = pairs[:, 0, 3:].copy().view(np.int8), pairs[:, 1, 3:].copy().view(np.int8)
    return join_groups(high << 4 | low & 15, pairs[:, :, :3])


def unscaled_channel_params(channels: OutputChannels) -> OutputChannels:
    """Returns channels whose sums are not rescaled by the kernel, with folded zero points."""
    return replace(channels, bias=channels.folded_bias, in_zp=0)


def pack_linear(ready: OutputChannels) -> Int32Array:
    """Packs channels with folded zero points in groups of eight."""
    g = group_channels(ready, (*EVEN, *ODD))
    return join_groups(g.bias, chunks_of(g.weights), g.multipliers, g.shifts.astype(np.int8))


def nibbles_can_share(op: Layer) -> Verdict:
    """Checks whether no weight is -8, so that two weights A and B share a byte as A + 16 * B."""
    return is_within("weights", int(op.weights.constant.min()), least=-7)


def has_lowest(op: Layer) -> Verdict:
    """Checks whether some weights are -8, so that two weights cannot share a byte as they are."""
    return is_within("weights", int(op.weights.constant.min()), most=-8)


def bytes_of_pairs(g: GroupedChannels) -> tuple[Int8Array, Int32Array]:
    """Returns weights of 4 bits and initial sums. Two lanes A and B share a byte as A + 16 * B; their sums begin with
    A + 16 * B and with B."""
    sums = g.bias.astype(np.int64)
    sums[:, ::2] += 16 * sums[:, 1::2]
    return (g.weights[:, ::2] + 16 * g.weights[:, 1::2]).astype(np.int8), sums.astype(np.int32)


def full_bytes_of_pairs(g: GroupedChannels, inputs: int) -> tuple[Int8Array, Int32Array]:
    """Returns shared weights and initial sums of layers with weights of -8: A + 8 + 16 * B, and zeros behind the
    inputs."""
    weights, sums = bytes_of_pairs(g)
    weights[:, :, :inputs] += 8
    return weights, sums


def dot_halves(sums: Int32Array, weights: Int8Array, unit: int = 16) -> tuple[Packed, ...]:
    """Returns the sums and weights of the even channels of groups, then of the odd channels."""
    halves = ((sums[:, 4 * h : 4 * h + 4], chunks_of(weights[:, 2 * h : 2 * h + 2], unit)) for h in (0, 1))
    return tuple(part for half in halves for part in half)


def pairs_of_vectors(weights: Int8Array) -> Int8Array:
    """Packs two vectors of 16 weights of 4 bits into one, as kernels/mve/unpack.h reads them."""
    flat = weights.reshape(len(weights), -1)
    vectors = np.pad(flat, ((0, 0), (0, -flat.shape[1] % 32))).reshape(len(flat), -1, 2, 16)
    return vectors[:, :, 0] & 15 | vectors[:, :, 1] << 4


def stored_form(op: Layer) -> Stored:
    """Returns the form of weights in flash: bytes, or two vectors of 4-bit weights in one."""
    return pairs_of_vectors if op.weights.dtype is DType.INT4 else lambda weights: weights


def pack_dot_4(channels: OutputChannels) -> Int32Array:
    """Packs channels into the stream of pillion_mve_dot_4bit."""
    g = group_channels(channels.with_folded_zero_point, (*EVEN, *ODD), overlap=True)
    weights, sums = bytes_of_pairs(g)
    return join_groups((31 + g.shifts).astype(np.int8), g.multipliers, *dot_halves(sums, weights))


def pack_linear_4(ready: OutputChannels, is_full: bool = False) -> Int32Array:
    """Packs the channels of a fully connected layer with folded zero points. With `is_full`, weights may be -8."""
    g = group_channels(ready, (*EVEN, *ODD))
    weights, sums = full_bytes_of_pairs(g, ready.weights.shape[1]) if is_full else bytes_of_pairs(g)
    return join_groups(sums, chunks_of(weights), g.multipliers, g.shifts.astype(np.int8))


def pixels_are_windows(op: Convolution) -> tuple[Verdict, ...]:
    """Checks whether every window is a pixel of the image; it may not reach beyond it on any side."""
    reach = [
        (out - 1) * step < size
        for out, step, size in zip(op.y.shape[1:3], op.stride, op.x.shape[1:3], strict=True)
    ]
    inside = op.padding[0] == op.padding[1] == 0 and all(reach)
    return (
        kernel_has_sizes(op, "kernel", "1x1", (1, 1)),
        is_ungrouped(op),
        Verdict("padding", inside, "none", "none" if inside else "some"),
    )


def words_of(op: Layer, field: str) -> Verdict:
    """Checks whether the results of a pixel or vector are whole words; `field` counts them."""
    unit, count = 4 // op.y.dtype.size_bytes, getattr(op, field)
    return Verdict(field, count % unit == 0, f"a multiple of {unit}", str(count))


def few_channels(op: Convolution) -> tuple[Verdict, ...]:
    """Checks whether pixels have at most 16 inputs, their results are whole words, and at least four lie in a row."""
    pixels = _merged_pixel_rows(op)[2]
    return (
        Verdict("in_channels", op.in_channels <= 16, "at most 16", str(op.in_channels)),
        words_of(op, "out_channels"),
        Verdict("pixels", pixels >= 4, "at least 4 in a row", str(pixels)),
    )


def _merged_pixel_rows(op: Convolution) -> tuple[int, int, int]:
    """Returns images, rows of an image and pixels of a row, after merging rows and images with equal pixel steps."""
    if op.stride == (1, 1):
        return 1, 1, op.x.shape[0] * op.x.shape[1] * op.x.shape[2]
    return op.x.shape[0], op.y.shape[1], op.y.shape[2]


def pixel_bytes(op: Convolution) -> int:
    """Returns the bytes of a pixel of the image."""
    return op.in_channels * op.x.dtype.size_bytes


def pointwise_sizes(op: Convolution) -> dict[str, int]:
    """Returns the sizes of a convolution by windows of one pixel."""
    images, rows, pixels = _merged_pixel_rows(op)
    pixel = pixel_bytes(op)
    return {
        "images": images,
        "image_bytes": op.x.shape[1] * op.x.shape[2] * pixel,
        "rows": rows,
        "row_bytes": op.stride[0] * op.x.shape[2] * pixel,
        "pixels": pixels,
        "pixel_bytes": op.stride[1] * pixel,
        "chunks": vector_count(pixel),
    }


def rows_sizes(op: Linear) -> dict[str, int]:
    """Returns the sizes of a fully connected layer of several vectors, as a convolution of pixels."""
    sizes = {"images": 1, "image_bytes": 0, "rows": 1, "row_bytes": 0, "pixels": op.rows}
    width = op.in_features * op.x.dtype.size_bytes
    return {**sizes, "pixel_bytes": width, "out_c": op.out_features, "chunks": vector_count(width)}


def several_rows(op: Linear) -> Verdict:
    """Checks whether a layer has several vectors of inputs, which share loads of weights."""
    return Verdict("rows", op.rows > 1, "at least 2", str(op.rows))


def few_features(op: Linear) -> tuple[Verdict, ...]:
    """Checks whether vectors have at most 16 inputs, words of results, and neighbours with which they are computed."""
    return (
        is_within("in_features", op.in_features, most=16),
        is_within("rows", op.rows, least=4),
        words_of(op, "out_features"),
    )


FEW_PIXELS = 7
"""The pixels up to which fully connected kernels are faster than weights that are unpacked first."""


def are_few_vectors(op: Convolution) -> tuple[Verdict, ...]:
    """Checks whether windows of one pixel are a few vectors that follow each other."""
    return (
        *pixels_are_windows(op),
        kernel_has_sizes(op, "stride", "1x1", (1, 1)),
        is_within("pixels", math.prod(op.y.shape[:3]), most=FEW_PIXELS),
    )


ROOM_BYTES = 1024
"""The target size of the constants that are unpacked together, as in kernels/mve/unpack.h."""
NUMBER_BYTES = {1: 72, 2: 64}
"""Bytes of the constants of eight channels besides weights, by bytes per input."""


def group_bytes(op: Layer) -> int:
    """Returns the bytes of the unpacked constants of eight channels."""
    size, inputs = op.x.dtype.size_bytes, op.weights_per_output.shape[1]
    return NUMBER_BYTES[size] + 128 // size * vector_count(inputs * size)


def room_bytes(op: Layer) -> int:
    """Returns the scratch bytes of unpacked constants: groups of eight channels."""
    group = group_bytes(op)
    return group * min(max(ROOM_BYTES // group, 1), -(-len(op.weights_per_output) // 8))


BLOCK_BYTES = 4096
"""The target size of the windows that are gathered together."""


def small_windows(op: Convolution) -> tuple[Verdict, ...]:
    """Checks whether windows have at most 16 inputs and their results are whole words; each block needs at least four
    pixels."""
    window, pixels = op.kernel[0] * op.kernel[1] * op.in_channels, op.y.shape[1] * op.y.shape[2]
    return (
        Verdict("window", window <= 16, "at most 16 inputs", str(window)),
        words_of(op, "out_channels"),
        Verdict("pixels", pixels >= 4, "at least 4", str(pixels)),
    )


def im2col_sizes(op: Convolution) -> dict[str, int]:
    """Returns the sizes of a convolution by gathered windows."""
    kernel_h, kernel_w = op.kernel
    pixel = pixel_bytes(op)
    runs, run_bytes = (1, kernel_w * pixel) if op.dilation[1] == 1 else (kernel_w, pixel)
    ring_rows = (kernel_h - 1) * op.dilation[0] + 1
    columns = (op.y.shape[2] - 1) * op.stride[1] + (kernel_w - 1) * op.dilation[1] + 1
    copied = max(min(columns - op.padding[1], op.x.shape[2]), 0)
    patch_bytes = 16 * vector_count((kernel_h * runs - 1) * run_bytes + 16 * vector_count(run_bytes))
    return {
        "in_row_bytes": op.x.shape[2] * pixel,
        "end_top": op.y.shape[1] * op.stride[0] - op.padding[0],
        "ring_rows": ring_rows,
        "ring_row_bytes": columns * pixel,
        "ring_bytes": 16 * vector_count(ring_rows * columns * pixel) + 16,
        "left_bytes": min(op.padding[1], columns) * pixel,
        "copy_bytes": copied * pixel,
        "column_bytes": op.stride[1] * pixel,
        "runs": runs,
        "run_step": op.dilation[1] * pixel,
        "run_bytes": run_bytes,
        "block": windows_per_block(op, patch_bytes),
        "patch_bytes": patch_bytes,
        "chunks": vector_count(kernel_h * kernel_w * pixel),
    }


def windows_per_block(op: Convolution, patch_bytes: int) -> int:
    """Returns the number of windows to gather together: complete rows if they are short, otherwise an even number,
    because pixels are computed in pairs. The last block has at least four if the image has."""
    pixels = op.y.shape[1] * op.y.shape[2]
    most, step = BLOCK_BYTES // patch_bytes, op.y.shape[2] + op.y.shape[2] % 2
    block = max(most // step * step, most // 2 * 2 if most < step else 0, 8)
    while block < pixels and 0 < pixels % block < 4:
        block += 2
    return min(block, pixels)


def im2col_scratch_bytes(op: Convolution) -> int:
    """Returns the scratch bytes of the kernels that gather windows: a ring of rows, then the gathered windows."""
    w = im2col_sizes(op)
    return w["ring_bytes"] + w["block"] * w["patch_bytes"]


IM2COL_WORK = (170.0, 5.0, 45.0, 28.0, 108.0, 28.0, 5.7)
"""Instructions of the kernel that gathers windows, fitted to counts in the emulator, per image, per eight channels,
per pair of pixels and eight channels, per 16 inputs of such a pair, per row of the image, per 16 bytes of a run for an
output row, and per pixel of that row."""


def work_of_sums(op: Convolution, pairs: int, work: tuple[float, ...]) -> float:
    """Estimates the instructions of sums. `work` has the instructions per eight channels, per pair of pixels and
    eight channels, and per 16 inputs of such a pair."""
    eights, pair, piece = work
    pieces = vector_count(op.kernel[0] * op.kernel[1] * pixel_bytes(op))
    return -(-op.out_channels // 8) * (eights + pairs * (pair + pieces * piece))


def im2col_work(op: Convolution) -> float:
    """Estimates the instructions of the kernel that gathers windows."""
    image, *sums, image_row, row, pixel = IM2COL_WORK
    out_h, out_w = op.y.shape[1:3]
    runs, run_bytes = (
        (1, op.kernel[1] * pixel_bytes(op)) if op.dilation[1] == 1 else (op.kernel[1], pixel_bytes(op))
    )
    gathered = op.kernel[0] * runs * vector_count(run_bytes) * out_h * (row + pixel * out_w)
    gathered += image_row * ((out_h - 1) * op.stride[0] + (op.kernel[0] - 1) * op.dilation[0] + 1)
    return op.x.shape[0] * (image + work_of_sums(op, -(-out_h * out_w // 2), tuple(sums)) + gathered)
