# SPDX-License-Identifier: Apache-2.0
"""The kernels of layers with weights of 4 bits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from pillion.emitters.c import single_rounding
from pillion.emitters.c.accumulators import channels_of
from pillion.emitters.c.channel_scaling import scale_channels
from pillion.emitters.c.dsp import conv as dsp
from pillion.emitters.c.dsp import linear_4
from pillion.emitters.c.dsp.linear_4 import OF_NIBBLES
from pillion.emitters.c.dsp.pack import dot_verdicts
from pillion.emitters.c.kernel import CallCost, Kernel, Params
from pillion.emitters.c.kernel_conditions import (
    LAYER_4,
    LAYER_16_4,
    Condition,
    fixed_point,
    in_arithmetic,
    is_within,
    multiple_of,
    short_circuit,
)
from pillion.emitters.c.kernel_library import DSP, MVE, PORTABLE
from pillion.emitters.c.mve import conv as mve
from pillion.emitters.c.mve import pack, pack_3x3
from pillion.emitters.c.mve.dot_products import (
    FEW_PIXELS,
    GATHERED,
    ONE_PIXEL,
    PIXELS,
    ROWS,
    VECTORS,
    DotProducts,
)
from pillion.emitters.c.portable.layers16 import linear_in_double, rounding_params, row_of_pixels
from pillion.ir.nibbles import pack_rows
from pillion.ir.numerics import Arithmetic
from pillion.ir.verdict import Verdict
from pillion.ops.conv import Conv2d
from pillion.ops.layer import Layer
from pillion.ops.linear import Linear


def packed(op: Layer) -> Params:
    """Returns the bias and the packed weights; the weights of each output begin with a byte."""
    return {"weights": pack_rows(op.weights_per_output), "bias": op.bias.constant.astype(np.int32)}


def packed_16(op: Layer) -> Params:
    """Returns packed weights and the constants that rescale sums, for a layer with 16-bit operands."""
    return {"weights": pack_rows(op.weights_per_output), **rounding_params(op)}


def portable_kernel(
    op: type[Layer], routine: str, params: Callable[[Any], Params], *requires: Condition[Any]
) -> Kernel:
    """Returns a portable kernel, which unpacks the weights of one output at a time to scratch memory."""
    return PORTABLE.kernel(
        op, routine, params, requires=requires, scratch_bytes=lambda op: op.weights_per_output.shape[1]
    )


def sum_fits(op: Layer) -> Verdict:
    """Checks whether 16 times every sum fits 32 bits."""
    return is_within("sum", int(scale_channels(channels_of(op)).reach.max()), most=2**27 - 1)


def dot_is_exact(op: Layer) -> tuple[Verdict, ...]:
    """Checks the conditions of kernels/dsp/dot_4_dsp.c."""
    return *dot_verdicts(channels_of(op)), sum_fits(op)


DSP_DOT = short_circuit(LAYER_4, dot_is_exact)
DSP_LINEAR = short_circuit(DSP_DOT, linear_4.sums_are_exact)


def vector_params(op: Layer, is_full: bool = False) -> Params:
    """Returns the constants of the fully connected Helium kernels, for weights with -8 if that `is_full`."""
    return {"constants": pack.pack_linear_4(channels_of(op).with_folded_zero_point, is_full)}


def linear_tflite_mve_params(op: Linear, is_full: bool) -> Params:
    """Returns the parameters of the fully connected Helium kernels with single rounding."""
    constants = pack.pack_linear_4(pack.unscaled_channel_params(channels_of(op)), is_full)
    return {**mve.tflite_sizes(op), "constants": constants}


def linear_tflite_mve_kernel(name: str, is_full: bool = False) -> Kernel:
    """Returns a fully connected Helium kernel with single rounding."""
    requires = (
        single_rounding.EXACT_4 if is_full else short_circuit(single_rounding.EXACT_4, pack.nibbles_can_share)
    )
    return MVE.kernel(
        Linear,
        replace(MVE.routine("linear_s4"), name=f"pillion_{name.removesuffix('_4')}_s4_mve"),
        lambda op: linear_tflite_mve_params(op, is_full),
        requires=(requires,),
        scratch_bytes=mve.scratch_of_sums,
        overread_bytes=pack.OVERREAD_BYTES,
    )


def rows_pay_as_pixels(op: Linear) -> Verdict:
    """Checks whether three rows at a time are faster than one."""
    return is_within("rows", op.rows, least=3)


def full_linear_work(op: Linear) -> float:
    """Estimates the instructions of the fully connected kernel for weights of -8, which also sums the inputs of
    vectors."""
    chunks, groups = pack.vector_count(op.in_features), -(-op.out_features // 8)
    return mve.linear_work(op) + op.rows * (7 + 3 * chunks + 9 * groups)


def unpacked_rows_work(op: Linear) -> float:
    """Estimates the instructions of vectors as pixels with weights that are unpacked first, for some outputs at a
    time."""
    groups, loops = -(-op.out_features // 8), 1 + (op.rows % 2 and op.rows > pack.FEW_PIXELS)
    parts = -(-groups * pack.group_bytes(op) // pack.room_bytes(op))
    unpacked = groups * (71 + 30 * pack.vector_count(op.in_features))
    return mve.rows_work(op) - 43 + 98 * parts * loops + unpacked


VECTOR_SHARED = DotProducts(
    "s4", LAYER_4, vector_params, short_circuit(pack.check_right_shifts, pack.nibbles_can_share)
)
VECTOR_FULL = DotProducts(
    "s4",
    LAYER_4,
    partial(vector_params, is_full=True),
    pack.check_right_shifts,
    variant="_full",
    file="linear_s4",
)
FEW_INPUTS = DotProducts(
    "s4",
    LAYER_4,
    partial(pack.signed_constants, pack.pack_dot16_4, dot=False),
    pack.check_optional_fix,
    ("dot_16_4bit",),
    variant="_k16",
)
SHARED = DotProducts(
    "s4",
    LAYER_4,
    partial(pack.signed_constants, pack.pack_dot_4),
    short_circuit(pack.check_factors, pack.nibbles_can_share),
    ("dot_4bit", "dot_group"),
    ("dot_4bit", "dot_few_4bit", "dot_group"),
)
UNPACKED = DotProducts(
    "s4",
    LAYER_4,
    partial(pack.signed_constants, partial(pack.pack_dot, stored=pack.pairs_of_vectors)),
    pack.check_factors,
    ("dot_unpacked", *mve.DOT.files),
    ("dot_unpacked", *mve.DOT.unrolled_files),
    variant="_unpacked",
    unpacks=True,
)
LEFT_UNPACKED = replace(
    UNPACKED, exact=pack.check_left_shifts, files=("dot_unpacked", *mve.DOT_LEFT.files), variant="_left"
)
UNPACKED_ROWS: dict[str, Any] = {"work": unpacked_rows_work, "extra_flash": mve.flash_of_rows}
LINEAR_DSP = DSP.routine("linear_s4", "clamp")

KERNELS: tuple[Kernel, ...] = (
    DSP.kernel(
        Conv2d,
        LINEAR_DSP,
        OF_NIBBLES.params,
        requires=(dsp.UNGROUPED, dsp.one_or_two_pixels, DSP_LINEAR),
        name="conv2d_whole_4",
        scratch_bytes=OF_NIBBLES.scratch_bytes,
    ),
    dsp.POINTWISE.kernel("s4", DSP_DOT, "conv2d_1x1_s8", "dot_4", work=None),
    dsp.RING.kernel("s4", DSP_DOT, "conv2d_ring_s8", "dot_4"),
    dsp.GATHERED.kernel("s4", DSP_DOT, "conv2d_s8", "dot_4"),
    dsp.THIN.kernel("s4", DSP_DOT, "conv2d_thin_s8", "dot_4"),
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
        OF_NIBBLES.params,
        requires=(fixed_point, DSP_LINEAR),
        scratch_bytes=OF_NIBBLES.scratch_bytes,
    ),
    VECTOR_SHARED.kernel(ONE_PIXEL),
    FEW_INPUTS.kernel(PIXELS, PIXELS.has_few_inputs, call_cost=CallCost(160.0)),
    *SHARED.unrolled(PIXELS),
    SHARED.kernel(PIXELS),
    MVE.kernel(
        Conv2d,
        MVE.routine("conv2d_3x3_fours_s4", "conv2d_3x3_fours_s8", "planes"),
        pack_3x3.four_pixel_params,
        requires=(short_circuit(LAYER_4, pack_3x3.four_pixel_verdicts),),
        scratch_bytes=lambda op: pack_3x3.scratch_bytes(op) + pack_3x3.unpacked_bytes(op, 4),
        call_cost=CallCost(650.0, channel=24.0, reread=0.06),
        work=lambda op: pack_3x3.four_pixel_instructions(op) + pack_3x3.unpacking_instructions(op, 4),
    ),
    MVE.kernel(
        Conv2d,
        MVE.routine("conv2d_3x3_s4", "conv2d_3x3_s8", "planes", "dot_group"),
        pack_3x3.params,
        requires=(short_circuit(LAYER_4, pack_3x3.verdicts),),
        scratch_bytes=lambda op: (
            pack_3x3.scratch_bytes(op) + pack.NUMBER_BYTES[1] + pack_3x3.unpacked_bytes(op, 8)
        ),
        call_cost=CallCost(550.0, reread=0.125),
        work=lambda op: pack_3x3.work(op) + pack_3x3.unpacking_instructions(op, 8),
    ),
    FEW_INPUTS.kernel(GATHERED, GATHERED.has_few_inputs),
    *SHARED.unrolled(GATHERED, work=pack.im2col_work),
    SHARED.kernel(GATHERED, work=pack.im2col_work),
    FEW_INPUTS.kernel(ROWS, ROWS.has_few_inputs, **mve.BY_FEW_ROWS),
    *SHARED.unrolled(ROWS, **mve.BY_ROWS),
    SHARED.kernel(ROWS, **mve.BY_ROWS),
    VECTOR_SHARED.kernel(VECTORS, **mve.LINEAR_COST),
    VECTOR_FULL.kernel(ONE_PIXEL),
    VECTOR_FULL.kernel(FEW_PIXELS),
    VECTOR_FULL.kernel(VECTORS, work=full_linear_work, has_private_constants=True),
    *UNPACKED.unrolled(PIXELS),
    *UNPACKED.unrolled(ROWS, **UNPACKED_ROWS),
    UNPACKED.kernel(PIXELS),
    UNPACKED.kernel(ROWS, **UNPACKED_ROWS),
    LEFT_UNPACKED.kernel(PIXELS),
    LEFT_UNPACKED.kernel(ROWS),
    UNPACKED.kernel(GATHERED),
    LEFT_UNPACKED.kernel(GATHERED),
    DSP.kernel(
        Linear,
        replace(LINEAR_DSP, name="pillion_linear_tflite_s4_dsp"),
        OF_NIBBLES.params_once,
        requires=(short_circuit(single_rounding.EXACT_4, linear_4.sums_alone_are_exact),),
        scratch_bytes=OF_NIBBLES.scratch_bytes_once,
    ),
    linear_tflite_mve_kernel("linear_tflite_4"),
    linear_tflite_mve_kernel("linear_tflite_full_4", True),
    portable_kernel(Conv2d, "conv2d_s4", packed, LAYER_4),
    portable_kernel(
        Linear, "conv2d_s4", lambda op: {**row_of_pixels(op), **packed(op)}, LAYER_4, fixed_point
    ),
    portable_kernel(Conv2d, "conv2d_s16_s4", packed_16, LAYER_16_4),
    portable_kernel(
        Linear, "conv2d_s16_s4", lambda op: {**row_of_pixels(op), **packed_16(op)}, LAYER_16_4, fixed_point
    ),
    portable_kernel(
        Linear,
        "linear_tflite_s16_s4",
        lambda op: {**linear_in_double(op), "weights": pack_rows(op.weights_per_output)},
        *(LAYER_16_4, in_arithmetic(Arithmetic.TFLITE)),
    ),
    portable_kernel(
        Linear,
        "linear_tflite_s4",
        lambda op: {**packed(op), "scale": op.ratios.copy()},
        *(LAYER_4, in_arithmetic(Arithmetic.TFLITE)),
    ),
)
