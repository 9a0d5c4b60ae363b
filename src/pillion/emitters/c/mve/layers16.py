# SPDX-License-Identifier: Apache-2.0
"""The Helium kernels of layers and softmax with 16-bit operands and results."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from pillion.emitters.c.accumulators import Int32Array, OutputChannels
from pillion.emitters.c.kernel import CallCost, Kernel, Params
from pillion.emitters.c.kernel_conditions import LAYER_16_4, fixed_point, is_within, short_circuit
from pillion.emitters.c.kernel_library import MVE
from pillion.emitters.c.layers16 import (
    IN_32_BITS,
    LEAST_RIGHT,
    MOST_RIGHT,
    Layer,
    channels_16,
    rounds_by,
    sums_have_32_bits,
    weight_rows,
)
from pillion.emitters.c.mve import pack, pack_3x3
from pillion.emitters.c.mve.conv import one_pixel
from pillion.emitters.c.mve.pack import EVEN, ODD, OVERREAD_BYTES
from pillion.emitters.c.portable.layers16 import SOFTMAX, softmax_params
from pillion.ir.types import DType
from pillion.ir.verdict import Verdict
from pillion.ops.conv import Conv2d
from pillion.ops.linear import Linear
from pillion.ops.softmax import Softmax

INPUTS = 8
"""The 16-bit inputs of a vector."""
MANY_PIXELS = 32
"""The pixels from which weights of one vector of inputs are unpacked, because sums of pairs cost more."""
DOT, DOT_4, UNPACKED = ("dot16",), ("dot16_4",), ("dot16_unpacked", "dot16")


def pack_dot(op: Layer) -> Int32Array:
    """Packs weights, biases and factors into the stream of pillion_mve_dot16 or pillion_mve_dot_s8_s16
    (kernels/mve/dot.h)."""
    return pack_channels(op, channels_16(op))


def pack_channels(op: Layer, channels: OutputChannels) -> Int32Array:
    """Packs the channels of a layer into the same stream."""
    unit = pack.vector_inputs(op)
    g = pack.group_channels(channels, (*EVEN, *ODD), unit, overlap=True)
    return pack.join_groups(g.multipliers, *pack.halves_of(g, pack.stored_form(op), unit))


OF_NIBBLES = short_circuit(LAYER_16_4, sums_have_32_bits, rounds_by(LEAST_RIGHT, MOST_RIGHT))
"""A layer has constant weights of 4 bits, and sums and ratios that its kernels take exactly."""
IN_NIBBLES = short_circuit(OF_NIBBLES, pack.nibbles_can_share)
"""Two of its weights share a byte, too."""


def is_rectified(op: Layer) -> int:
    """Returns 1 if the sole bound of results is 0, which the loops apply."""
    return int((op.low, op.high) == (0, op.y.dtype.bounds[1]))


def pack_dot_4(op: Layer) -> Int32Array:
    """Packs the same with weights of 4 bits into the stream of pillion_mve_dot16_4."""
    g = pack.group_channels(channels_16(op), (*EVEN, *ODD), INPUTS, overlap=True)
    weights, sums = pack.bytes_of_pairs(g)
    return pack.join_groups(g.multipliers, *pack.dot_halves(sums, weights, INPUTS))


def dot_params(op: Layer) -> Params:
    """Returns the constants of dot products, and whether results below 0 become 0."""
    constants = pack_dot_4(op) if op.weights.dtype is DType.INT4 else pack_dot(op)
    return {"signs": is_rectified(op), "constants": constants}


def unpacked_dot_params(op: Layer) -> Params:
    """Returns the same with weights of 4 bits that are unpacked."""
    return {"signs": is_rectified(op), "constants": pack_dot(op)}


def pack_linear(op: Layer, is_full: bool = False) -> Int32Array:
    """Packs the same for one vector of inputs, with weights of which some are -8 if that `is_full`."""
    unit = pack.vector_inputs(op)
    g = pack.group_channels(channels_16(op), (*EVEN, *ODD), unit)
    if op.weights.dtype is not DType.INT4:
        return pack.join_groups(g.bias, pack.chunks_of(g.weights, unit), g.multipliers)
    weights, sums = (
        pack.full_bytes_of_pairs(g, weight_rows(op).shape[1]) if is_full else pack.bytes_of_pairs(g)
    )
    return pack.join_groups(sums, pack.chunks_of(weights, unit), g.multipliers)


def pointwise_params(op: Conv2d) -> Params:
    """Returns the parameters of a convolution whose windows are pixels."""
    return {**pack.pointwise_sizes(op), **dot_params(op)}


def im2col_params(op: Conv2d) -> Params:
    """Returns the parameters of a convolution by gathered windows."""
    return {**pack.im2col_sizes(op), **dot_params(op)}


def conv_3x3_params(op: Conv2d) -> Params:
    """Returns the parameters of a 3x3 convolution over planes: of each two channels biases, factors and weights."""
    g = pack.group_channels(channels_16(op), (0, 1), pack.vector_inputs(op))
    taps = np.moveaxis(pack_3x3.weights_by_planes(op, g.weights), 1, -2)
    return {
        **pack_3x3.plane_params(op),
        "signs": is_rectified(op),
        "constants": pack.join_groups(g.bias, g.multipliers, pack.stored_form(op)(taps)),
    }


def linear_params(op: Layer) -> Params:
    """Returns the parameters of a fully connected layer, or of a convolution of one pixel."""
    out_features, in_features = channels_16(op).weights.shape
    sizes = {"in_features": in_features, "out_features": out_features}
    rows = op.rows if isinstance(op, Linear) else 1
    return {
        "rows": rows,
        **sizes,
        "chunks": -(-in_features // pack.vector_inputs(op)),
        "constants": pack_linear(op),
    }


def full_linear_params(op: Layer) -> Params:
    """Returns the same with weights of which some are -8; pixels are rows."""
    rows = op.rows if isinstance(op, Linear) else math.prod(op.y.shape[:3])
    return {**linear_params(op), "rows": rows, "constants": pack_linear(op, True)}


def rows_params(op: Linear) -> Params:
    """Returns the parameters of such a layer."""
    return {**pack.rows_sizes(op), **dot_params(op)}


def unpacked_rows_params(op: Linear) -> Params:
    """Returns the same with weights of 4 bits that are unpacked."""
    return {**rows_params(op), **unpacked_dot_params(op)}


def unpacking_pays(op: Conv2d) -> Verdict:
    """Checks whether weights share no bytes as they are, or sums are so short that taking them apart costs more than unpacking."""
    pixels, inputs = math.prod(op.y.shape[:3]), op.in_channels
    pays = pack.has_lowest(op).ok or (inputs <= INPUTS and pixels >= MANY_PIXELS)
    return Verdict(
        "weights",
        pays,
        f"some -8, or {MANY_PIXELS} pixels of at most {INPUTS} inputs",
        f"{pixels} of {inputs}",
    )


def many_rows(op: Linear) -> Verdict:
    """Checks whether a layer has more vectors of inputs than are faster one by one."""
    return is_within("rows", op.rows, least=pack.FEW_PIXELS + 1)


def pairs_of_channels(op: Conv2d) -> Verdict:
    """Checks whether output channels come in the pairs that are computed together."""
    return Verdict("out_channels", op.out_channels % 2 == 0, "a multiple of 2", str(op.out_channels))


PLANES = pack_3x3.plane_verdicts, pairs_of_channels, pack_3x3.has_four_pixels


def plane_work(op: Conv2d) -> float:
    """Estimates the instructions of the 3x3 kernel, as `pack_3x3.FOURS_WORK` but for two channels."""
    piece = 12.6 if op.stride[1] == 1 else 13.6
    return pack_3x3.four_pixel_instructions(op, 2, (420.0, 100.0, 21.0, piece, 10.0, 6.8))


def unpacking_plane_work(op: Conv2d) -> float:
    """Estimates the same with weights of 4 bits, which are unpacked for each block of rows."""
    return plane_work(op) + pack_3x3.unpacking_instructions(op, 2)


def softmax_work(op: Softmax) -> float:
    """Estimates the instructions of the softmax kernel."""
    count = op.x.shape[-1]
    return op.x.type.elements // count * (180.0 + 6.6 * count)


LINEAR = MVE.routine("linear_s16")
LINEAR_4 = replace(LINEAR, name="pillion_linear_s16_s4_mve")
POINTWISE: dict[str, Any] = {"overread_bytes": OVERREAD_BYTES, "call_cost": CallCost(200.0, channel=4.5)}
IM2COL: dict[str, Any] = {
    "scratch_bytes": pack.im2col_scratch_bytes,
    "call_cost": CallCost(150.0, reread=0.45),
}
ROWS = MVE.routine("conv2d_1x1_s16", "pointwise", *DOT)
ROWS_4 = MVE.routine("conv2d_1x1_s16_s4", "pointwise", *DOT_4)
ROWS_UNPACKED = MVE.routine("conv2d_1x1_unpacked_s16_s4", "pointwise", *UNPACKED)


def full_linear_kernel(op: type[Any], condition: Any, name: str) -> Kernel:
    """Returns a fully connected kernel of weights with -8."""
    return MVE.kernel(
        op,
        replace(LINEAR, name="pillion_linear_full_s16_s4_mve"),
        full_linear_params,
        requires=(short_circuit(OF_NIBBLES, condition),),
        name=name,
        overread_bytes=OVERREAD_BYTES,
    )


KERNELS: tuple[Kernel, ...] = (
    MVE.kernel(
        Conv2d,
        LINEAR,
        linear_params,
        requires=(short_circuit(IN_32_BITS, one_pixel),),
        name="conv2d_pixel_16",
        overread_bytes=OVERREAD_BYTES,
    ),
    MVE.kernel(
        Conv2d,
        ROWS,
        pointwise_params,
        requires=(short_circuit(IN_32_BITS, pack.pixels_are_windows),),
        name="conv2d_1x1_16",
        **POINTWISE,
    ),
    MVE.kernel(
        Conv2d,
        MVE.routine("conv2d_3x3_s16", "planes"),
        conv_3x3_params,
        requires=(short_circuit(IN_32_BITS, *PLANES),),
        name="conv2d_3x3_16",
        scratch_bytes=pack_3x3.scratch_bytes,
        call_cost=CallCost(650.0, channel=24.0, reread=0.06),
        work=plane_work,
    ),
    MVE.kernel(
        Conv2d,
        MVE.routine("conv2d_im2col_s16", "im2col", *DOT),
        im2col_params,
        requires=(short_circuit(IN_32_BITS, pack.is_ungrouped),),
        name="conv2d_im2col_16",
        work=pack.im2col_work,
        **IM2COL,
    ),
    MVE.kernel(
        Conv2d,
        LINEAR_4,
        linear_params,
        requires=(short_circuit(IN_NIBBLES, one_pixel),),
        name="conv2d_pixel_16_4",
        overread_bytes=OVERREAD_BYTES,
    ),
    full_linear_kernel(
        Conv2d, short_circuit(pack.are_few_vectors, pack.has_lowest), "conv2d_few_pixels_full_16_4"
    ),
    MVE.kernel(
        Conv2d,
        ROWS_UNPACKED,
        lambda op: {**pack.pointwise_sizes(op), **unpacked_dot_params(op)},
        requires=(short_circuit(OF_NIBBLES, pack.pixels_are_windows, unpacking_pays),),
        name="conv2d_1x1_unpacked_16_4",
        scratch_bytes=pack.room_bytes,
        **POINTWISE,
    ),
    MVE.kernel(
        Conv2d,
        ROWS_4,
        pointwise_params,
        requires=(short_circuit(IN_NIBBLES, pack.pixels_are_windows),),
        name="conv2d_1x1_16_4",
        **POINTWISE,
    ),
    MVE.kernel(
        Conv2d,
        MVE.routine("conv2d_3x3_s16_s4", "conv2d_3x3_s16", "planes"),
        conv_3x3_params,
        requires=(short_circuit(OF_NIBBLES, *PLANES),),
        name="conv2d_3x3_16_4",
        scratch_bytes=lambda op: pack_3x3.scratch_bytes(op) + pack_3x3.unpacked_bytes(op, 2),
        call_cost=CallCost(650.0, channel=24.0, reread=0.06),
        work=unpacking_plane_work,
    ),
    MVE.kernel(
        Conv2d,
        MVE.routine("conv2d_im2col_s16_s4", "im2col", *DOT_4),
        im2col_params,
        requires=(short_circuit(IN_NIBBLES, pack.is_ungrouped),),
        name="conv2d_im2col_16_4",
        work=pack.im2col_work,
        **IM2COL,
    ),
    MVE.kernel(
        Linear,
        ROWS_4,
        rows_params,
        requires=(short_circuit(fixed_point, IN_NIBBLES, pack.several_rows),),
        name="linear_rows_16_4",
        **POINTWISE,
    ),
    MVE.kernel(
        Linear,
        LINEAR_4,
        linear_params,
        requires=(short_circuit(fixed_point, IN_NIBBLES),),
        name="linear_16_4",
        overread_bytes=OVERREAD_BYTES,
    ),
    full_linear_kernel(Conv2d, one_pixel, "conv2d_pixel_full_16_4"),
    MVE.kernel(
        Linear,
        ROWS_UNPACKED,
        unpacked_rows_params,
        requires=(short_circuit(fixed_point, OF_NIBBLES, many_rows),),
        name="linear_rows_unpacked_16_4",
        scratch_bytes=pack.room_bytes,
        **POINTWISE,
    ),
    full_linear_kernel(Linear, fixed_point, "linear_full_16_4"),
    MVE.kernel(
        Conv2d,
        MVE.routine("conv2d_im2col_unpacked_s16_s4", "im2col", *UNPACKED),
        lambda op: {**pack.im2col_sizes(op), **unpacked_dot_params(op)},
        requires=(short_circuit(OF_NIBBLES, pack.is_ungrouped),),
        name="conv2d_im2col_unpacked_16_4",
        scratch_bytes=lambda op: pack.im2col_scratch_bytes(op) + pack.room_bytes(op),
        call_cost=IM2COL["call_cost"],
    ),
    MVE.kernel(
        Linear,
        ROWS,
        rows_params,
        requires=(short_circuit(fixed_point, IN_32_BITS, pack.several_rows),),
        name="linear_rows_16",
        **POINTWISE,
    ),
    MVE.kernel(
        Linear,
        LINEAR,
        linear_params,
        requires=(short_circuit(fixed_point, IN_32_BITS),),
        name="linear_16",
        overread_bytes=OVERREAD_BYTES,
    ),
    MVE.kernel(Softmax, "softmax_s16", softmax_params, work=softmax_work, **SOFTMAX),
)
