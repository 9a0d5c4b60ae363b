# SPDX-License-Identifier: Apache-2.0
"""The Helium kernels of layers and softmax with 16-bit operands and results."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from pillion.emitters.c import subpixel
from pillion.emitters.c.accumulators import Int32Array, OutputChannels
from pillion.emitters.c.kernel import CallCost, Kernel, Params
from pillion.emitters.c.kernel_conditions import LAYER_16_4, is_within, multiple_of, short_circuit
from pillion.emitters.c.kernel_library import MVE
from pillion.emitters.c.layers16 import (
    IN_32_BITS,
    LEAST_RIGHT,
    MOST_RIGHT,
    channels_16,
    rounds_by,
    sums_have_32_bits,
    weight_rows,
)
from pillion.emitters.c.mve import pack, pack_3x3, winograd16
from pillion.emitters.c.mve.dot_products import (
    FEW_PIXELS,
    GATHERED,
    ONE_PIXEL,
    PIXELS,
    ROWS,
    VECTORS,
    DotProducts,
    vector_sizes,
)
from pillion.emitters.c.mve.pack import EVEN, ODD
from pillion.emitters.c.portable.layers16 import SOFTMAX, softmax_params
from pillion.ir.verdict import Verdict
from pillion.ops.conv import Conv2d
from pillion.ops.layer import Layer
from pillion.ops.linear import Linear
from pillion.ops.softmax import Softmax

INPUTS = 8
"""The 16-bit inputs of a vector."""
MANY_PIXELS = 32
"""The pixels from which weights of few inputs are unpacked, because sums of pairs cost more."""


def pack_channels(op: Layer, channels: OutputChannels) -> Int32Array:
    """Packs weights, biases and factors into the stream of pillion_mve_dot16 or pillion_mve_dot_s8_s16
    (kernels/mve/dot.h)."""
    unit = pack.vector_inputs(op)
    g = pack.group_channels(channels, (*EVEN, *ODD), unit, overlap=True)
    return pack.join_groups(g.multipliers, *pack.halves_of(g, pack.stored_form(op), unit))


OF_NIBBLES = short_circuit(LAYER_16_4, sums_have_32_bits, rounds_by(LEAST_RIGHT, MOST_RIGHT))
"""A layer has constant weights of 4 bits, and sums and ratios that its kernels take exactly."""
IN_NIBBLES = short_circuit(OF_NIBBLES, pack.nibbles_can_share)
"""A layer whose weights share bytes, two in each."""


def is_rectified(op: Layer) -> int:
    """Returns 1 if the sole bound of results is 0, which the loops apply."""
    return int((op.low, op.high) == (0, op.y.dtype.bounds[1]))


def dot_params(op: Layer) -> Params:
    """Returns the constants of dot products, and whether results below 0 become 0."""
    return {"signs": is_rectified(op), "constants": pack_channels(op, channels_16(op))}


def shared_dot_params(op: Layer) -> Params:
    """Returns the constants of dot products with two 4-bit weights in a byte, for pillion_mve_dot16_4."""
    g = pack.group_channels(channels_16(op), (*EVEN, *ODD), INPUTS, overlap=True)
    weights, sums = pack.bytes_of_pairs(g)
    constants = pack.join_groups(g.multipliers, *pack.dot_halves(sums, weights, INPUTS))
    return {"signs": is_rectified(op), "constants": constants}


def vector_params(op: Layer) -> Params:
    """Returns the constants of the fully connected kernel."""
    unit = pack.vector_inputs(op)
    g = pack.group_channels(channels_16(op), (*EVEN, *ODD), unit)
    return {"constants": pack.join_groups(g.bias, pack.chunks_of(g.weights, unit), g.multipliers)}


def split_params(op: Layer) -> Params:
    """Returns the constants of the fully connected kernel that splits inputs into bytes, for
    kernels/mve/linear_split_s16_mve.c. Sums wrap around at 32 bits."""
    g = pack.group_channels(channels_16(op), range(4))
    sums = (g.bias + 128 * g.weights.sum(axis=2, dtype=np.int64)) * pow(257, -1, 2**32)
    constants = pack.join_groups(sums.astype(np.int32), pack.chunks_of(g.weights), g.multipliers)
    return {"chunks": split_pieces(op), "constants": constants}


def split_pieces(op: Layer) -> int:
    """Returns the pieces of 16 inputs of a vector."""
    return -(-op.weights_per_output.shape[1] // 16)


def shared_vector_params(op: Layer, is_full: bool = False) -> Params:
    """Returns the constants of the fully connected kernel with two 4-bit weights in a byte. With `is_full`, weights
    may be -8."""
    g = pack.group_channels(channels_16(op), (*EVEN, *ODD), INPUTS)
    weights, sums = (
        pack.full_bytes_of_pairs(g, weight_rows(op).shape[1]) if is_full else pack.bytes_of_pairs(g)
    )
    return {"constants": pack.join_groups(sums, pack.chunks_of(weights, INPUTS), g.multipliers)}


def conv_3x3_params(op: Conv2d) -> Params:
    """Returns the parameters of a 3x3 convolution over planes: biases, factors and weights of two channels at a
    time."""
    g = pack.group_channels(channels_16(op), (0, 1), pack.vector_inputs(op))
    taps = np.moveaxis(pack_3x3.weights_by_planes(op, g.weights), 1, -2)
    return {
        **pack_3x3.plane_params(op),
        "signs": is_rectified(op),
        "constants": pack.join_groups(g.bias, g.multipliers, pack.stored_form(op)(taps)),
    }


def unpacking_pays(op: Conv2d) -> Verdict:
    """Checks whether unpacking weights of few inputs pays: some are -8 and cannot share a byte, or pixels are many."""
    pixels = math.prod(op.y.shape[:3])
    pays = pack.has_lowest(op).ok or pixels >= MANY_PIXELS
    return Verdict("weights", pays, f"some -8, or {MANY_PIXELS} pixels", f"{pixels} pixels")


def many_rows(op: Linear) -> Verdict:
    """Checks whether a layer has so many vectors of inputs that computing them together is faster."""
    return is_within("rows", op.rows, least=pack.FEW_PIXELS + 1)


PLANES = pack_3x3.plane_verdicts, multiple_of("out_channels", 2), pack_3x3.has_four_pixels


def plane_work(op: Conv2d) -> float:
    """Estimates the instructions of the 3x3 kernel, as `pack_3x3.FOURS_WORK` but for two channels."""
    piece = 12.6 if op.stride[1] == 1 else 13.6
    return pack_3x3.four_pixel_instructions(op, 2, (420.0, 100.0, 21.0, piece, 10.0, 6.8))


def unpacking_plane_work(op: Conv2d) -> float:
    """Estimates the instructions of the 3x3 kernel with 4-bit weights, which it unpacks for each block of rows."""
    return plane_work(op) + pack_3x3.unpacking_instructions(op, 2)


def few_inputs(op: Layer) -> Verdict:
    """Checks whether the inputs of a window fit a loop that is unrolled."""
    return is_within("inputs", op.weights_per_output.shape[1], most=8 * INPUTS)


def vector_work(op: Layer) -> float:
    """Estimates the instructions of the fully connected kernel."""
    sizes = vector_sizes(op)
    return sizes["rows"] * (110.0 + -(-sizes["out_features"] // 8) * (24.0 + 17.0 * sizes["chunks"]))


def split_work(op: Layer) -> float:
    """Estimates the instructions of the fully connected kernel that splits inputs into bytes."""
    sizes, pieces = vector_sizes(op), split_pieces(op)
    return sizes["rows"] * (122.0 + 6.0 * pieces + -(-sizes["out_features"] // 4) * (19.0 + 14.0 * pieces))


def softmax_work(op: Softmax) -> float:
    """Estimates the instructions of the softmax kernel."""
    count = op.x.shape[-1]
    return op.x.type.elements // count * (180.0 + 6.6 * count)


VECTOR = DotProducts("s16", IN_32_BITS, vector_params)
VECTOR_4 = DotProducts("s16_s4", IN_NIBBLES, shared_vector_params, file="linear_s16")
FULL_VECTOR_4 = replace(
    VECTOR_4, layer=OF_NIBBLES, constants=partial(shared_vector_params, is_full=True), variant="_full"
)
DOT = DotProducts("s16", IN_32_BITS, dot_params, files=("dot16",))
FEW_DOT = DotProducts(
    "s16", short_circuit(IN_32_BITS, few_inputs), dot_params, files=("dot16_few", "dot16"), variant="_few"
)
DOT_4 = DotProducts("s16_s4", IN_NIBBLES, shared_dot_params, files=("dot16_4",))
UNPACKED_4 = DotProducts(
    "s16_s4", OF_NIBBLES, dot_params, files=("dot16_unpacked", "dot16"), variant="_unpacked", unpacks=True
)
FEW_UNPACKED_4 = replace(
    UNPACKED_4,
    layer=short_circuit(OF_NIBBLES, few_inputs),
    files=("dot16_unpacked", "dot16_few", "dot16"),
    variant="_few_unpacked",
    file="conv2d_1x1_unpacked_s16_s4",
)
SPLIT = DotProducts("s16", IN_32_BITS, split_params, variant="_split")
SPLITS: dict[str, Any] = {"scratch_bytes": lambda op: 32 * split_pieces(op), "costs": {"overread_bytes": 30}}
PLANES_COST = CallCost(650.0, channel=24.0, reread=0.06)
IM2COL_KERNEL = DOT.kernel(GATHERED, work=pack.im2col_work)

KERNELS: tuple[Kernel, ...] = (
    VECTOR.kernel(ONE_PIXEL, work=vector_work),
    SPLIT.kernel(replace(ONE_PIXEL, **SPLITS), work=split_work),
    FEW_DOT.kernel(PIXELS),
    DOT.kernel(PIXELS),
    winograd16.KERNEL,
    MVE.kernel(
        Conv2d,
        MVE.routine("conv2d_3x3_s16", "planes"),
        conv_3x3_params,
        requires=(short_circuit(IN_32_BITS, *PLANES),),
        scratch_bytes=pack_3x3.scratch_bytes,
        call_cost=PLANES_COST,
        work=plane_work,
    ),
    FEW_DOT.kernel(GATHERED, work=pack.im2col_work),
    IM2COL_KERNEL,
    subpixel.kernel(
        MVE,
        "s16",
        IN_32_BITS,
        IM2COL_KERNEL,
        "conv2d_im2col_s16",
        "im2col",
        *DOT.files,
        name="transpose_conv2d_16",
    ),
    VECTOR_4.kernel(ONE_PIXEL),
    FULL_VECTOR_4.kernel(FEW_PIXELS, pack.has_lowest),
    FEW_UNPACKED_4.kernel(PIXELS, unpacking_pays),
    UNPACKED_4.kernel(PIXELS, pack.has_lowest),
    DOT_4.kernel(PIXELS),
    MVE.kernel(
        Conv2d,
        MVE.routine("conv2d_3x3_s16_s4", "conv2d_3x3_s16", "planes"),
        conv_3x3_params,
        requires=(short_circuit(OF_NIBBLES, *PLANES),),
        scratch_bytes=lambda op: pack_3x3.scratch_bytes(op) + pack_3x3.unpacked_bytes(op, 2),
        call_cost=PLANES_COST,
        work=unpacking_plane_work,
    ),
    DOT_4.kernel(GATHERED, work=pack.im2col_work),
    DOT_4.kernel(ROWS, pack.several_rows),
    VECTOR_4.kernel(VECTORS),
    FULL_VECTOR_4.kernel(ONE_PIXEL),
    UNPACKED_4.kernel(ROWS, many_rows),
    FULL_VECTOR_4.kernel(VECTORS),
    UNPACKED_4.kernel(GATHERED),
    FEW_DOT.kernel(ROWS, pack.several_rows),
    DOT.kernel(ROWS, pack.several_rows),
    VECTOR.kernel(VECTORS, work=vector_work),
    SPLIT.kernel(replace(VECTORS, **SPLITS), work=split_work),
    MVE.kernel(Softmax, "softmax_s16", softmax_params, work=softmax_work, **SOFTMAX),
)
