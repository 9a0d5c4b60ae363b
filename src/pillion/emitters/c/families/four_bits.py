# SPDX-License-Identifier: Apache-2.0
"""The kernels of layers with weights of 4 bits."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from pillion.emitters.c import single_rounding
from pillion.emitters.c.accumulators import channels_of
from pillion.emitters.c.channel_scaling import scale_channels
from pillion.emitters.c.dsp import conv as dsp
from pillion.emitters.c.dsp import conv_cost, linear_4
from pillion.emitters.c.dsp.pack import dot_verdicts
from pillion.emitters.c.kernel import CallCost, Kernel, Params, Routine
from pillion.emitters.c.kernel_conditions import (
    LAYER_4,
    LAYER_16_4,
    Condition,
    field_equals,
    fixed_point,
    in_arithmetic,
    is_within,
    multiple_of,
    short_circuit,
)
from pillion.emitters.c.kernel_library import DSP, MVE, PORTABLE
from pillion.emitters.c.mve import conv as mve
from pillion.emitters.c.mve import pack, pack_3x3
from pillion.emitters.c.portable.conv import plain_1x1
from pillion.emitters.c.portable.layers16 import linear_in_double, rounding_params, row_of_pixels
from pillion.ir.nibbles import pack_rows
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import Array
from pillion.ir.verdict import Verdict
from pillion.ops.conv import Conv2d
from pillion.ops.linear import Linear

Layer = Conv2d | Linear


def weights_of(op: Layer) -> Array:
    """Returns the weights of a layer as [outputs, inputs of a sum]."""
    return op.weights.constant if isinstance(op, Linear) else op.weights_per_output


def packed(op: Layer) -> Params:
    """Returns packed weights, in which each output begins with a byte, and the bias as parameters."""
    return {"weights": pack_rows(weights_of(op)), "bias": op.bias.constant.astype(np.int32)}


def packed_16(op: Layer) -> Params:
    """Returns the same of a layer with 16-bit operands, and what makes its sums results."""
    return {"weights": pack_rows(weights_of(op)), **rounding_params(op)}


def scratch_bytes(op: Layer) -> int:
    """Returns the scratch bytes of the portable kernels: the weights of an output."""
    return weights_of(op).shape[1]


def sum_fits(op: Layer) -> Verdict:
    """Checks whether 16 times every sum fits 32 bits."""
    return is_within("sum", int(scale_channels(channels_of(op)).reach.max()), most=2**27 - 1)


def dot_is_exact(op: Layer) -> tuple[Verdict, ...]:
    """Checks the conditions of kernels/dsp/dot_4_dsp.c."""
    return *dot_verdicts(channels_of(op)), sum_fits(op)


DSP_DOT = short_circuit(LAYER_4, dot_is_exact)
DSP_LINEAR = short_circuit(DSP_DOT, linear_4.sums_are_exact)
MVE_FULL = short_circuit(LAYER_4, pack.check_right_shifts)
MVE_SHARED = short_circuit(MVE_FULL, pack.nibbles_can_share)
MVE_LEFT = short_circuit(LAYER_4, pack.check_left_shifts)
MVE_FULL_DOT = short_circuit(LAYER_4, pack.check_factors)
MVE_DOT = short_circuit(MVE_FULL_DOT, pack.nibbles_can_share)
FOURS: Condition[Any] = multiple_of("in_channels", 4)
UNGROUPED: Condition[Any] = field_equals("groups", 1)


def dsp_kernel(
    routine: str,
    params: Callable[[Conv2d], Params],
    *requires: Condition[Conv2d],
    also: tuple[str, ...] = (),
    **more: Any,
) -> Kernel:
    """Returns the DSP kernel of a convolution, which shares its file with the one of int8 weights."""
    files = (f"{routine}_s8", *also, "dot", "dot_4", "clamp")
    requires = (UNGROUPED, DSP_DOT, *requires)
    return DSP.kernel(
        Conv2d, f"{routine}_s4", params, requires=requires, name=f"{routine}_4", also=files, **more
    )


def mve_kernel(
    routine: Routine, verdicts: Any, sizes: Any, name: str, op: type[Layer] = Conv2d, **more: Any
) -> Kernel:
    """Returns the Helium kernel of dot products for a class of layers."""

    def params(op: Layer) -> Params:
        channels = channels_of(op)
        constants = pack.pack_dot_4(channels)
        return {**sizes(op), "signs": pack.negative_sum_mode(channels), "constants": constants}

    requires = (short_circuit(MVE_DOT, verdicts),)
    return MVE.kernel(op, routine, params, requires=requires, name=name, **more)


def unpacked_dot_params(sizes: Callable[[Any], dict[str, int]], op: Layer) -> Params:
    """Returns the parameters of the Helium kernels that unpack weights with -8."""
    channels = channels_of(op)
    signs = pack.negative_sum_mode(channels)
    return {**sizes(op), "signs": signs, "constants": pack.pack_dot(channels, pack.pairs_of_vectors)}


def unpacked_pointwise(
    routine: Routine,
    verdicts: Any,
    name: str,
    op: type[Layer] = Conv2d,
    exact: Any = MVE_FULL_DOT,
    **more: Any,
) -> Kernel:
    """Returns the Helium kernel of 1x1 windows, or of vectors, that unpacks weights with -8."""
    sizes = pack.rows_sizes if op is Linear else pack.pointwise_sizes
    return MVE.kernel(
        op,
        routine,
        partial(unpacked_dot_params, sizes),
        requires=(short_circuit(exact, verdicts),),
        name=name,
        scratch_bytes=pack.room_bytes,
        **mve.POINTWISE,
        **more,
    )


def has_pieces(pieces: int, op: Layer) -> Verdict:
    """Checks whether windows have so many pieces of 16 inputs."""
    return pack.check_input_chunks(pieces, weights_of(op).shape[1])


def few_inputs(
    pieces: int, routine: str, shared: str, condition: Any, sizes: Any, name: str = "", **more: Any
) -> Kernel:
    """Returns a Helium kernel of windows with so many pieces of inputs, whose loop is unrolled."""
    few = MVE.routine(f"{routine}_few_s4", shared, "dot_4bit", "dot_few_4bit", "dot_group")
    key = f"_k{16 * pieces}"
    verdicts = short_circuit(condition, partial(has_pieces, pieces))
    named = replace(few, name=f"pillion_{routine}{key}_s4_mve")
    return mve_kernel(named, verdicts, sizes, f"{name or routine}{key}_4", **more)


def few_unpacked_inputs(pieces: int, condition: Any, name: str, **more: Any) -> Kernel:
    """Returns the same of weights with -8, for windows of one pixel, or for vectors."""
    routine = MVE.routine(
        "conv2d_1x1_few_unpacked_s4", "pointwise", "dot_unpacked", "dot", "dot_few", "dot_group"
    )
    key = f"_k{16 * pieces}_unpacked"
    return unpacked_pointwise(
        replace(routine, name=f"pillion_conv2d_1x1{key}_s4_mve"),
        short_circuit(condition, partial(has_pieces, pieces)),
        f"{name}{key}_4",
        **more,
    )


def linear_mve_params(op: Layer, is_full: bool) -> Params:
    """Returns the parameters of the fully connected Helium kernels, for a layer, or for a convolution whose pixels are rows."""
    channels = channels_of(op)
    rows = op.rows if isinstance(op, Linear) else math.prod(op.y.shape[:3])
    sizes = pack.linear_params(rows, channels)
    return {**sizes, "constants": pack.pack_linear_4(channels.with_folded_zero_point, is_full)}


def linear_tflite_mve_params(op: Linear, is_full: bool) -> Params:
    """Returns the parameters of the fully connected Helium kernels with single rounding."""
    constants = pack.pack_linear_4(pack.unscaled_channel_params(channels_of(op)), is_full)
    return {**mve.tflite_sizes(op), "constants": constants}


def linear_mve_kernel(
    op: type[Layer], condition: Any, name: str, is_full: bool = False, **more: Any
) -> Kernel:
    """Returns a fully connected Helium kernel, which may be that of weights with -8."""
    routine = MVE.routine("linear_s4")
    return MVE.kernel(
        op,
        replace(routine, name="pillion_linear_full_s4_mve") if is_full else routine,
        lambda op: linear_mve_params(op, is_full),
        requires=(short_circuit(MVE_FULL if is_full else MVE_SHARED, condition),),
        name=name,
        overread_bytes=pack.OVERREAD_BYTES,
        **more,
    )


def linear_tflite_mve_kernel(name: str, is_full: bool = False) -> Kernel:
    """Returns the same with single rounding."""
    requires = (
        single_rounding.EXACT_4 if is_full else short_circuit(single_rounding.EXACT_4, pack.nibbles_can_share)
    )
    return MVE.kernel(
        Linear,
        replace(MVE.routine("linear_s4"), name=f"pillion_{name.removesuffix('_4')}_s4_mve"),
        lambda op: linear_tflite_mve_params(op, is_full),
        requires=(requires,),
        name=name,
        scratch_bytes=mve.scratch_of_sums,
        overread_bytes=pack.OVERREAD_BYTES,
    )


def dot_16_params(op: Conv2d, sizes: dict[str, int]) -> Params:
    """Returns the parameters of the Helium kernels of windows of at most 16 inputs."""
    channels = channels_of(op)
    signs = pack.negative_sum_mode(channels, False)
    return {**sizes, "signs": signs, "constants": pack.pack_dot16_4(channels)}


def rows_pay_as_pixels(op: Linear) -> Verdict:
    """Checks whether three rows at a time are faster than one."""
    return is_within("rows", op.rows, least=3)


def full_linear_work(op: Linear) -> float:
    """Estimates the instructions of the fully connected kernel of weights with -8, which sums vectors and takes sums apart."""
    chunks, groups = pack.vector_count(op.in_features), -(-op.out_features // 8)
    return mve.linear_work(op) + op.rows * (7 + 3 * chunks + 9 * groups)


def unpacked_rows_work(op: Linear) -> float:
    """Estimates the instructions of vectors as pixels with weights that are unpacked first, those of some outputs together."""
    groups, loops = -(-op.out_features // 8), 1 + (op.rows % 2 and op.rows > pack.FEW_PIXELS)
    parts = -(-groups * pack.group_bytes(op) // pack.room_bytes(op))
    unpacked = groups * (71 + 30 * pack.vector_count(op.in_features))
    return mve.rows_work(op) - 43 + 98 * parts * loops + unpacked


def unpacked_im2col_scratch_bytes(op: Conv2d) -> int:
    """Returns the scratch bytes of windows that are gathered, and of constants that are unpacked."""
    return pack.im2col_scratch_bytes(op) + pack.room_bytes(op)


LINEAR_MVE: dict[str, Any] = {"work": mve.linear_work, "has_private_constants": True}
ROWS_4: dict[str, Any] = {"op": Linear, **mve.ROWS}
UNPACKED_ROWS: dict[str, Any] = {
    "op": Linear,
    "work": unpacked_rows_work,
    "extra_flash": mve.flash_of_rows,
}
DOT_4 = "dot_4bit", "dot_group"
UNPACKED, LEFT_UNPACKED = ("dot_unpacked", *mve.DOT), ("dot_unpacked", *mve.DOT_LEFT)
LINEAR_DSP = DSP.routine("linear_s4", "clamp")

KERNELS: tuple[Kernel, ...] = (
    DSP.kernel(
        Conv2d,
        LINEAR_DSP,
        lambda op: linear_4.linear_4_params(op, math.prod(op.y.shape[:3])),
        requires=(UNGROUPED, dsp.one_or_two_pixels, DSP_LINEAR),
        name="conv2d_whole_4",
        scratch_bytes=linear_4.scratch_linear_4,
    ),
    dsp_kernel(
        "conv2d_1x1",
        lambda op: {**dsp.dot_params(op), "pixels": math.prod(op.y.shape[:3])},
        *(plain_1x1, FOURS),
        also=("dot_1",),
        scratch_bytes=dsp.scratch_1x1,
    ),
    dsp_kernel(
        "conv2d_ring",
        lambda op: {**dsp.dot_params(op), "ring_rows": dsp.ring_rows(op)},
        *(FOURS, dsp.ring_saves_work),
        scratch_bytes=dsp.scratch_ring,
        work=conv_cost.ring_work,
    ),
    dsp_kernel(
        "conv2d",
        dsp.dot_params,
        FOURS,
        scratch_bytes=dsp.scratch_conv,
        work=conv_cost.gathering_work,
    ),
    dsp_kernel("conv2d_thin", dsp.thin_params, scratch_bytes=dsp.scratch_thin, work=conv_cost.thin_work),
    DSP.kernel(
        Linear,
        "conv2d_1x1_s4",
        lambda op: {**dsp.dot_params(op), "pixels": op.rows, "in_c": op.in_features},
        requires=(fixed_point, rows_pay_as_pixels, multiple_of("in_features", 4), DSP_DOT),
        name="linear_pixels_4",
        also=("conv2d_1x1_s8", "dot", "dot_1", "dot_4", "clamp"),
        scratch_bytes=dsp.scratch_1x1,
    ),
    DSP.kernel(
        Linear,
        LINEAR_DSP,
        lambda op: linear_4.linear_4_params(op, op.rows),
        requires=(fixed_point, DSP_LINEAR),
        name="linear_4",
        scratch_bytes=linear_4.scratch_linear_4,
    ),
    linear_mve_kernel(Conv2d, mve.one_pixel, "conv2d_pixel_4"),
    MVE.kernel(
        Conv2d,
        MVE.routine("conv2d_1x1_k16_s4", "pointwise", "dot_16_4bit"),
        lambda op: dot_16_params(op, pack.pointwise_sizes(op)),
        requires=(short_circuit(LAYER_4, pack.pointwise_16_verdicts),),
        name="conv2d_1x1_k16_4",
        **{**mve.POINTWISE, "call_cost": CallCost(160.0)},
    ),
    *(
        few_inputs(
            pieces,
            "conv2d_1x1",
            "pointwise",
            pack.pixels_are_windows,
            pack.pointwise_sizes,
            **mve.POINTWISE,
        )
        for pieces in (2, 3, 4)
    ),
    mve_kernel(
        MVE.routine("conv2d_1x1_s4", "pointwise", *DOT_4),
        pack.pixels_are_windows,
        pack.pointwise_sizes,
        "conv2d_1x1_4",
        **mve.POINTWISE,
    ),
    MVE.kernel(
        Conv2d,
        MVE.routine("conv2d_3x3_fours_s4", "conv2d_3x3_fours_s8", "planes"),
        pack_3x3.four_pixel_params,
        requires=(short_circuit(LAYER_4, pack_3x3.four_pixel_verdicts),),
        name="conv2d_3x3_fours_4",
        scratch_bytes=lambda op: pack_3x3.scratch_bytes(op) + pack_3x3.unpacked_bytes(op, 4),
        call_cost=CallCost(650.0, channel=24.0, reread=0.06),
        work=lambda op: pack_3x3.four_pixel_instructions(op) + pack_3x3.unpacking_instructions(op, 4),
    ),
    MVE.kernel(
        Conv2d,
        MVE.routine("conv2d_3x3_s4", "conv2d_3x3_s8", "planes", "dot_group"),
        pack_3x3.params,
        requires=(short_circuit(LAYER_4, pack_3x3.verdicts),),
        name="conv2d_3x3_4",
        scratch_bytes=lambda op: (
            pack_3x3.scratch_bytes(op) + pack.NUMBER_BYTES[1] + pack_3x3.unpacked_bytes(op, 8)
        ),
        call_cost=CallCost(550.0, reread=0.125),
        work=lambda op: pack_3x3.work(op) + pack_3x3.unpacking_instructions(op, 8),
    ),
    MVE.kernel(
        Conv2d,
        MVE.routine("conv2d_im2col_k16_s4", "im2col", "dot_16_4bit"),
        lambda op: dot_16_params(op, pack.im2col_sizes(op)),
        requires=(short_circuit(LAYER_4, pack.im2col_16_verdicts),),
        name="conv2d_im2col_k16_4",
        **mve.IM2COL,
    ),
    *(
        few_inputs(
            pieces,
            "conv2d_im2col",
            "im2col",
            pack.is_ungrouped,
            pack.im2col_sizes,
            work=pack.im2col_work,
            **mve.IM2COL,
        )
        for pieces in (2, 3, 4)
    ),
    mve_kernel(
        MVE.routine("conv2d_im2col_s4", "im2col", *DOT_4),
        pack.is_ungrouped,
        pack.im2col_sizes,
        "conv2d_im2col_4",
        work=pack.im2col_work,
        **mve.IM2COL,
    ),
    MVE.kernel(
        Linear,
        MVE.routine("conv2d_1x1_k16_s4", "pointwise", "dot_16_4bit"),
        lambda op: dot_16_params(op, pack.rows_sizes(op)),
        requires=(
            short_circuit(
                LAYER_4,
                fixed_point,
                pack.few_features,
                multiple_of("out_features", 4),
                pack.check_optional_fix,
            ),
        ),
        name="linear_rows_k16_4",
        **mve.ROWS_16,
    ),
    *(
        few_inputs(pieces, "conv2d_1x1", "pointwise", fixed_point, pack.rows_sizes, "linear_rows", **ROWS_4)
        for pieces in (2, 3, 4)
    ),
    mve_kernel(
        MVE.routine("conv2d_1x1_s4", "pointwise", *DOT_4),
        fixed_point,
        pack.rows_sizes,
        "linear_rows_4",
        **ROWS_4,
    ),
    linear_mve_kernel(Linear, fixed_point, "linear_4", **LINEAR_MVE),
    linear_mve_kernel(Conv2d, mve.one_pixel, "conv2d_pixel_full_4", True),
    linear_mve_kernel(Conv2d, pack.are_few_vectors, "conv2d_few_pixels_full_4", True),
    linear_mve_kernel(Linear, fixed_point, "linear_full_4", True, **{**LINEAR_MVE, "work": full_linear_work}),
    *(few_unpacked_inputs(pieces, pack.pixels_are_windows, "conv2d_1x1") for pieces in (2, 3, 4)),
    *(few_unpacked_inputs(pieces, fixed_point, "linear_rows", **UNPACKED_ROWS) for pieces in (2, 3, 4)),
    unpacked_pointwise(
        MVE.routine("conv2d_1x1_unpacked_s4", "pointwise", *UNPACKED),
        pack.pixels_are_windows,
        "conv2d_1x1_unpacked_4",
    ),
    unpacked_pointwise(
        MVE.routine("conv2d_1x1_unpacked_s4", "pointwise", *UNPACKED),
        fixed_point,
        "linear_rows_unpacked_4",
        **UNPACKED_ROWS,
    ),
    *(
        unpacked_pointwise(
            MVE.routine("conv2d_1x1_left_s4", "pointwise", *LEFT_UNPACKED),
            condition,
            name,
            op,
            MVE_LEFT,
        )
        for op, condition, name in (
            (Conv2d, pack.pixels_are_windows, "conv2d_1x1_left_4"),
            (Linear, fixed_point, "linear_rows_left_4"),
        )
    ),
    MVE.kernel(
        Conv2d,
        MVE.routine("conv2d_im2col_unpacked_s4", "im2col", *UNPACKED),
        partial(unpacked_dot_params, pack.im2col_sizes),
        requires=(short_circuit(MVE_FULL_DOT, pack.is_ungrouped),),
        name="conv2d_im2col_unpacked_4",
        scratch_bytes=unpacked_im2col_scratch_bytes,
        call_cost=mve.IM2COL["call_cost"],
    ),
    MVE.kernel(
        Conv2d,
        MVE.routine("conv2d_im2col_left_s4", "im2col", *LEFT_UNPACKED),
        partial(unpacked_dot_params, pack.im2col_sizes),
        requires=(short_circuit(MVE_LEFT, pack.is_ungrouped),),
        name="conv2d_im2col_left_4",
        scratch_bytes=unpacked_im2col_scratch_bytes,
        call_cost=mve.IM2COL["call_cost"],
    ),
    DSP.kernel(
        Linear,
        replace(LINEAR_DSP, name="pillion_linear_tflite_s4_dsp"),
        linear_4.tflite_4_params,
        requires=(short_circuit(single_rounding.EXACT_4, linear_4.sums_alone_are_exact),),
        name="linear_tflite_4",
        scratch_bytes=linear_4.scratch_tflite_4,
    ),
    linear_tflite_mve_kernel("linear_tflite_4"),
    linear_tflite_mve_kernel("linear_tflite_full_4", True),
    PORTABLE.kernel(
        Conv2d, "conv2d_s4", packed, requires=(LAYER_4,), name="conv2d_4", scratch_bytes=scratch_bytes
    ),
    PORTABLE.kernel(
        Linear,
        "conv2d_s4",
        lambda op: {**row_of_pixels(op), **packed(op)},
        requires=(LAYER_4, fixed_point),
        name="linear_4",
        scratch_bytes=scratch_bytes,
    ),
    PORTABLE.kernel(
        Conv2d,
        "conv2d_s16_s4",
        packed_16,
        requires=(LAYER_16_4,),
        name="conv2d_16_4",
        scratch_bytes=scratch_bytes,
    ),
    PORTABLE.kernel(
        Linear,
        "conv2d_s16_s4",
        lambda op: {**row_of_pixels(op), **packed_16(op)},
        requires=(LAYER_16_4, fixed_point),
        name="linear_16_4",
        scratch_bytes=scratch_bytes,
    ),
    PORTABLE.kernel(
        Linear,
        "linear_tflite_s16_s4",
        lambda op: {**linear_in_double(op), "weights": pack_rows(weights_of(op))},
        requires=(LAYER_16_4, in_arithmetic(Arithmetic.TFLITE)),
        name="linear_tflite_16_4",
        scratch_bytes=scratch_bytes,
    ),
    PORTABLE.kernel(
        Linear,
        "linear_tflite_s4",
        lambda op: {**packed(op), "scale": op.ratios.copy()},
        requires=(LAYER_4, in_arithmetic(Arithmetic.TFLITE)),
        name="linear_tflite_4",
        scratch_bytes=scratch_bytes,
    ),
)
