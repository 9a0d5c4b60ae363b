# SPDX-License-Identifier: Apache-2.0
"""The DSP kernels of layers with 16-bit operands and results."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from pillion.emitters.c import subpixel
from pillion.emitters.c.accumulators import Int8Array, Int32Array
from pillion.emitters.c.dsp import winograd16
from pillion.emitters.c.dsp.pack16 import (
    channel_stream,
    eights,
    fours,
    halfwords_of_four,
    in_16_bits,
    masked_halfwords_of_four,
    pairs_of_four,
    upper_word_factors,
)
from pillion.emitters.c.kernel import Kernel, Params, Routine
from pillion.emitters.c.kernel_conditions import (
    LAYER_16_4,
    Check,
    Condition,
    field_equals,
    fixed_point,
    is_within,
    short_circuit,
)
from pillion.emitters.c.kernel_library import DSP
from pillion.emitters.c.layers16 import (
    IN_32_BITS,
    LEAST_RIGHT,
    MOST_RIGHT,
    rounds_by,
    sums_have_32_bits,
    weight_rows,
)
from pillion.emitters.c.portable.layers16 import row_of_pixels
from pillion.ir import numerics
from pillion.ir.verdict import Verdict
from pillion.ops.conv import Conv2d
from pillion.ops.layer import Layer
from pillion.ops.linear import Linear

PIXELS = 5
"""The pixels that are computed together."""
MOST_ROWS = 3
"""The number of vectors up to which each is computed alone."""


def kernel_rows(op: Conv2d | Linear) -> int:
    """Returns the rows of a window."""
    return op.kernel[0] if isinstance(op, Conv2d) else 1


def row_words(op: Conv2d | Linear) -> int:
    """Returns the words of a row of a window."""
    return -(-weight_rows(op).shape[1] // (2 * kernel_rows(op)))


def window_words(op: Conv2d | Linear) -> int:
    """Returns the words of a window, whose rows are filled up to words."""
    return kernel_rows(op) * row_words(op)


def steps_of(op: Conv2d | Linear) -> int:
    """Returns the fours of inputs of a window."""
    return -(-window_words(op) // 2)


def filled_rows(op: Conv2d | Linear) -> Int8Array:
    """Returns the weights of each window, whose rows are filled up to words."""
    rows = weight_rows(op).reshape(len(op.bias.constant), kernel_rows(op), -1)
    return np.pad(rows, ((0, 0), (0, 0), (0, rows.shape[2] % 2))).reshape(len(rows), -1)


def has_whole_rows(op: Conv2d) -> bool:
    """Whether the taps of a kernel row lie next to each other."""
    return op.dilation[1] == 1 or op.kernel[1] == 1


def windows_of(op: Conv2d | Linear) -> Params:
    """Returns the parameters of the windows of a layer; for a fully connected layer, those of a row of pixels."""
    if isinstance(op, Conv2d):
        return {"whole_rows": int(has_whole_rows(op))}
    return row_of_pixels(op, "whole_rows")


def window_params(pack: Callable[[Int8Array], Int32Array], op: Conv2d | Linear) -> Params:
    """Returns the parameters of a layer over windows with packed weights."""
    stream = channel_stream(op, pack(filled_rows(op)))
    return {**windows_of(op), "steps": steps_of(op), "stream": stream}


def copied_windows(op: Conv2d | Linear) -> int:
    """Returns the windows that are copied, because they have gaps or reach beyond the image."""
    if isinstance(op, Linear):
        return 0
    inside = op.y.shape[0] * has_whole_rows(op)
    for axis in (0, 1):
        out, size, stride = op.y.shape[1 + axis], op.x.shape[1 + axis], op.stride[axis]
        reach = (op.kernel[axis] - 1) * op.dilation[axis]
        starts = (at * stride - op.padding[axis] for at in range(out))
        inside *= sum(0 <= start < size - reach for start in starts)
    return math.prod(op.y.shape[:3]) - inside


def scratch_of_windows(op: Conv2d | Linear, inputs: int = 4) -> int:
    """Returns the scratch bytes of the windows of five pixels, in steps of some inputs, and of copies of these where
    they may be needed."""
    words = window_words(op)
    return PIXELS * (2 * inputs * -(-2 * words // inputs) + 4 * words * (copied_windows(op) > 0))


def groups_of_pixels(op: Conv2d | Linear) -> tuple[int, int]:
    """Returns the number of groups of five pixels, and the number of fours among them, as in
    kernels/dsp/five_windows.h."""
    pixels = op.y.type.elements // len(op.bias.constant)
    groups = -(-pixels // PIXELS)
    missing = groups * PIXELS - pixels
    return groups, missing if missing <= groups else 0


def work(op: Conv2d | Linear, step: float = 15.0) -> float:
    """Estimates the instructions of a convolution: five or four pixels and one channel at a time, from windows that are laid
    out, or first copied row by row."""
    out_c, steps, words = len(op.bias.constant), steps_of(op), window_words(op)
    groups, fours = groups_of_pixels(op)
    rounds = -(-steps // 8)
    sums = groups * (28.0 + 3 * rounds + step * steps) - fours * (3.0 + rounds + 2.0 * steps)
    copy = 80.0 + 30.0 * kernel_rows(op) + 5.0 * words
    layout = (190.0 if is_of_pixels(op) else 265.0) + 7.0 * words
    return groups * layout + out_c * sums + copied_windows(op) * copy


def is_of_pixels(op: Conv2d | Linear) -> bool:
    """Whether windows are the pixels of an image, one after another."""
    return isinstance(op, Linear) or (
        op.kernel == (1, 1) and op.stride == (1, 1) and op.x.shape[:3] == op.y.shape[:3]
    )


def further_flash(op: Conv2d) -> int:
    """Returns the bytes by which weights of 16 bits are longer."""
    return 4 * steps_of(op) * op.out_channels


MOST_FLASH = 12288
"""The largest growth of a layer's weights in bytes."""


def is_worth_flash(op: Conv2d) -> Iterator[Verdict]:
    """Checks whether windows overlap, which uses a weight often, and whether few bytes are added."""
    taps = math.prod(op.kernel)
    yield Verdict("taps", taps > 1, "more than 1", str(taps))
    yield is_within("further flash", further_flash(op), most=MOST_FLASH, unit="bytes")


def vector_params(stream: Callable[[Layer], tuple[int, Int32Array]], op: Layer) -> Params:
    """Returns the parameters of a fully connected layer, or of a convolution of one pixel."""
    out_features, in_features = weight_rows(op).shape
    sizes = {"rows": op.rows if isinstance(op, Linear) else 1, "in_features": in_features}
    steps, packed = stream(op)
    return {**sizes, "out_features": out_features, "steps": steps, "stream": packed}


def vector_work(op: Layer, step: float = 31.5) -> float:
    """Estimates the instructions of a fully connected layer with weights of 4 bits: a vector and four outputs at a time."""
    out_features, in_features = weight_rows(op).shape
    steps, groups = -(-in_features // 8), -(-out_features // 4)
    return op.y.type.elements // out_features * (175.0 + 27.0 * steps + groups * (35.0 + step * steps))


def one_pixel(op: Conv2d) -> tuple[Verdict, ...]:
    """Checks whether a convolution computes one pixel from the whole image."""
    is_one = op.y.shape[:3] == (1, 1, 1) and op.kernel == op.x.shape[1:3] and op.groups == 1
    return (Verdict("pixels", is_one, "one, from the whole image", str(op.y.shape[:3])),)


def few_rows(op: Linear) -> Verdict:
    """Checks whether a layer has few vectors of inputs, which are computed one by one."""
    return is_within("rows", op.rows, most=MOST_ROWS)


def inputs_are_summed(op: Layer) -> Verdict:
    """Checks whether the sum of any inputs fits 32 bits."""
    return is_within("inputs", weight_rows(op).shape[1], most=2**16 - 1)


def nibble_params(op: Conv2d | Linear) -> Params:
    """Returns the parameters of a layer with weights of 4 bits, whose sums are 16 times as large."""
    filled = filled_rows(op)
    columns = 16 * np.asarray(op.bias.constant, np.int32), eights(filled), upper_word_factors(op) >> 4
    stream = np.column_stack(columns).astype(np.int32).reshape(-1)
    return {**windows_of(op), "steps": eight_steps(op), "stream": stream}


ROOM_BYTES, MOST_FIVES = 6144, 3
"""The target size of windows that are laid out together with unpacked weights, and the most fives of them, as in
kernels/dsp/conv2d_unpacked_s16_s4_dsp.c."""


def eight_steps(op: Conv2d | Linear) -> int:
    """Returns the eights of inputs of a window."""
    return -(-window_words(op) // 4)


def fives_together(op: Conv2d | Linear) -> int:
    """Returns the fives of pixels for which weights are unpacked once."""
    return min(max(ROOM_BYTES // (80 * eight_steps(op)), 1), MOST_FIVES)


def unpacked_params(op: Conv2d | Linear) -> Params:
    """Returns the parameters of a layer with weights of 4 bits that are unpacked."""
    words = eights(filled_rows(op)) ^ np.int32(-0x77777778)  # eight more in each half of a byte
    return {**windows_of(op), "steps": eight_steps(op), "stream": channel_stream(op, words)}


def scratch_of_unpacked(op: Conv2d | Linear) -> int:
    """Returns the scratch bytes of a layer with unpacked weights: weights of a channel, windows, and copies of five where these
    may be needed."""
    further = 16 * eight_steps(op) * (1 + PIXELS * (fives_together(op) - 1))
    return scratch_of_windows(op, 8) + further


def unpacked_work(op: Conv2d | Linear) -> float:
    """Estimates the instructions of a layer with weights of 4 bits that are unpacked."""
    out_c, steps, words = len(op.bias.constant), 2 * eight_steps(op), window_words(op)
    groups, fours = groups_of_pixels(op)
    unpacked = -(-(groups - fours) // fives_together(op)) + -(-fours // fives_together(op))
    rounds = -(-steps // 8)
    sums = groups * (36.0 + 3 * rounds + 13.0 * steps) - fours * (3.0 + rounds + 2.0 * steps)
    sums += unpacked * (77.0 + 7.8 * eight_steps(op))
    copy = 80.0 + 30.0 * kernel_rows(op) + 5.0 * words
    return groups * (265.0 + 7.0 * words) + out_c * sums + copied_windows(op) * copy


def sums_have_28_bits(op: Layer) -> Verdict:
    """Checks whether 16 times every sum fits 32 bits."""
    largest = int(op.largest_16_bit_sums.max(initial=0))
    return Verdict("sums", 16 * largest <= numerics.INT32_MAX, "below 2^27", f"up to {largest}")


def is_worth_scratch(op: Layer) -> Verdict:
    """Checks whether windows overlap, which uses a weight often, or sums are too large for other kernels."""
    taps = math.prod(op.kernel) if isinstance(op, Conv2d) else 1
    is_worth = taps > 1 or not sums_have_28_bits(op).ok
    return Verdict("taps", is_worth, "more than 1, or sums from 2^27 on", str(taps))


PARTS_HAVE_28_BITS: Check[Layer] = short_circuit(
    LAYER_16_4, sums_have_28_bits, rounds_by(LEAST_RIGHT, MOST_RIGHT)
)
"""A layer has constant weights of 4 bits, sums below 2^27, and any ratio of 16-bit kernels."""
OF_NIBBLES: Check[Layer] = short_circuit(LAYER_16_4, sums_have_32_bits, rounds_by(LEAST_RIGHT, MOST_RIGHT))
"""A layer has constant weights of 4 bits, sums up to 2^31, and any ratio of 16-bit kernels."""
IN_28_BITS: Check[Layer] = short_circuit(LAYER_16_4, sums_have_28_bits, rounds_by(LEAST_RIGHT, 28))
"""A layer has constant weights of 4 bits, sums below 2^27, and ratios of which a sixteenth is exact."""


WINDOWS: dict[str, Any] = {"scratch_bytes": scratch_of_windows, "overread_bytes": 2, "work": work}
EIGHTS: dict[str, Any] = {
    **WINDOWS,
    "scratch_bytes": partial(scratch_of_windows, inputs=8),
    "work": partial(work, step=17.0),
}
VECTOR: dict[str, Any] = {"scratch_bytes": lambda op: 8 * -(-weight_rows(op).shape[1] // 4)}
LINEAR = DSP.routine("linear_s16")
LINEAR_4 = replace(LINEAR, name="pillion_linear_s16_s4_dsp")
VECTOR_4: dict[str, Any] = {
    "scratch_bytes": lambda op: 16 * -(-weight_rows(op).shape[1] // 8),
    "work": vector_work,
}

LINEAR_LARGE = replace(LINEAR, name="pillion_linear_large_s16_s4_dsp")
LARGE: dict[str, Any] = {**VECTOR_4, "work": partial(vector_work, step=36.5)}
UNPACKED: dict[str, Any] = {**WINDOWS, "scratch_bytes": scratch_of_unpacked, "work": unpacked_work}

UNGROUPED = field_equals("groups", 1)


def layer_kernels(
    names: tuple[str, str],
    routine: str | Routine,
    params: Callable[[Any], Params],
    layer: Check[Any],
    of_conv: Condition[Conv2d],
    of_linear: Condition[Linear] = fixed_point,
    **more: Any,
) -> Iterator[Kernel]:
    """Yields the kernels of a routine for convolutions and for fully connected layers."""
    for op, name, condition in zip((Conv2d, Linear), names, (of_conv, of_linear), strict=True):
        requires = (short_circuit(layer, condition),)
        yield DSP.kernel(op, routine, params, requires=requires, name=name, **more)


CONV_KERNEL, ROWS_KERNEL = layer_kernels(
    ("conv2d_16", "linear_rows_16"),
    "conv2d_s16",
    partial(window_params, fours),
    IN_32_BITS,
    UNGROUPED,
    **WINDOWS,
)

KERNELS: tuple[Kernel, ...] = (
    *layer_kernels(
        ("conv2d_pixel_16", "linear_16"),
        LINEAR,
        partial(vector_params, pairs_of_four),
        short_circuit(IN_32_BITS, inputs_are_summed),
        one_pixel,
        short_circuit(fixed_point, few_rows),
        **VECTOR,
    ),
    winograd16.KERNEL,
    DSP.kernel(
        Conv2d,
        "conv2d_wide_s16",
        partial(window_params, in_16_bits),
        requires=(short_circuit(IN_32_BITS, UNGROUPED, is_worth_flash),),
        extra_flash=further_flash,
        has_private_constants=True,
        **{**WINDOWS, "work": partial(work, step=13.0)},
    ),
    CONV_KERNEL,
    ROWS_KERNEL,
    subpixel.kernel(DSP, "s16", IN_32_BITS, CONV_KERNEL, "conv2d_s16", name="transpose_conv2d_16"),
    *layer_kernels(
        ("conv2d_pixel_16_4", "linear_16_4"),
        LINEAR_4,
        partial(vector_params, halfwords_of_four),
        PARTS_HAVE_28_BITS,
        one_pixel,
        **VECTOR_4,
    ),
    *layer_kernels(
        ("conv2d_16_4", "linear_rows_16_4"), "conv2d_s16_s4", nibble_params, IN_28_BITS, UNGROUPED, **EIGHTS
    ),
    *layer_kernels(
        ("conv2d_pixel_large_16_4", "linear_large_16_4"),
        LINEAR_LARGE,
        partial(vector_params, masked_halfwords_of_four),
        OF_NIBBLES,
        one_pixel,
        **LARGE,
    ),
    *layer_kernels(
        ("conv2d_unpacked_16_4", "linear_rows_unpacked_16_4"),
        "conv2d_unpacked_s16_s4",
        unpacked_params,
        short_circuit(OF_NIBBLES, is_worth_scratch),
        UNGROUPED,
        **UNPACKED,
    ),
)
