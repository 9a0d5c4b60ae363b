# SPDX-License-Identifier: Apache-2.0
"""The Helium kernels of convolution and fully connected layers."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from pillion.emitters.c import single_rounding, subpixel
from pillion.emitters.c.accumulators import channels_of
from pillion.emitters.c.kernel import CallCost, Kernel, Params
from pillion.emitters.c.kernel_conditions import LAYER, field_equals, short_circuit
from pillion.emitters.c.kernel_library import MVE
from pillion.emitters.c.mve import pack, pack_3x3
from pillion.emitters.c.mve.dot_products import GATHERED, ONE_PIXEL, PIXELS, ROWS, VECTORS, DotProducts
from pillion.emitters.c.mve.pack import OVERREAD_BYTES
from pillion.ops.conv import Conv2d, DepthwiseConv2d
from pillion.ops.layer import Layer
from pillion.ops.linear import Linear

LINEAR_TFLITE = replace(MVE.routine("linear_s8"), name="pillion_linear_tflite_s8_mve")


def pack_vectors(op: Layer) -> Params:
    """Returns the constants of the fully connected kernel."""
    return {"constants": pack.pack_linear(channels_of(op).with_folded_zero_point)}


def loop_files(name: str) -> tuple[str, ...]:
    """Returns the C files of the loops over inputs; `name` is the file that differs."""
    return "dot", name, "dot_group"


VECTOR = DotProducts("s8", LAYER, pack_vectors, pack.check_right_shifts)
FEW_INPUTS = DotProducts(
    "s8",
    LAYER,
    partial(pack.signed_constants, pack.pack_dot16, dot=False),
    pack.check_optional_fix,
    ("dot_16",),
    variant="_k16",
)
DOT = DotProducts(
    "s8",
    LAYER,
    partial(pack.signed_constants, pack.pack_dot),
    pack.check_factors,
    loop_files("dot_any"),
    loop_files("dot_few"),
)
DOT_LEFT = replace(DOT, exact=pack.check_left_shifts, files=loop_files("dot_left"), variant="_left")
SHARED_CHANNEL = replace(
    GATHERED, op=DepthwiseConv2d, name="depthwise_im2col", condition=field_equals("in_channels", 1)
)
"""Windows of depthwise convolutions with several filters on one channel."""


def tflite_sizes(op: Linear) -> Params:
    """Returns the parameters of fully connected kernels with single rounding, but for the weights."""
    return {"chunks": pack.vector_count(op.in_features), "once": single_rounding.packed_numbers(op)}


def tflite_params(op: Linear) -> Params:
    """Returns the parameters of the fully connected kernel with single rounding."""
    constants = pack.pack_linear(pack.unscaled_channel_params(channels_of(op)))
    return {**tflite_sizes(op), "constants": constants}


LINEAR_WORK = (65.0, 38.0, 31.0, 17.1)
"""Instructions of the fully connected kernel, counted in the emulator, per call, per vector, per eight outputs of a
vector, and per 16 inputs of eight outputs."""
ROWS_WORK = (210.0, 75.0, 27.0, 42.0, 39.0, 28.3)
"""Instructions of vectors as pixels per call, for outputs behind groups of eight, for fewer than eight outputs, per
group, per pair of vectors and group in unrolled loops, and per 16 inputs of such a pair."""


def linear_work(op: Linear, work: tuple[float, ...] = LINEAR_WORK) -> float:
    """Estimates the instructions of the fully connected kernel: of each vector, and of its groups of eight outputs."""
    call, vector, group, chunk = work
    groups, rest = -(-op.out_features // 8), 40 if op.out_features % 8 else 0
    return call + op.rows * (vector + groups * (group + chunk * pack.vector_count(op.in_features)) + rest)


def few_rows_work(op: Linear, work: tuple[float, ...] = (190.0, 20.0, 14.5)) -> float:
    """Estimates the instructions of vectors of at most 16 inputs. `work` has the instructions per call, per four
    vectors, and per output of four vectors."""
    call, four, output = work
    return call + -(-op.rows // 4) * (four + output * op.out_features)


def rows_work(op: Linear, work: tuple[float, ...] = ROWS_WORK) -> float:
    """Estimates the instructions of vectors as pixels, two at a time and eight outputs at a time; some outputs are
    computed twice."""
    call, rest, few_outputs, group, unrolled, chunk = work
    pairs, is_odd, few = -(-op.rows // 2), op.rows % 2, op.out_features < 8
    loops = 1 + (is_odd and (few or op.rows > pack.FEW_PIXELS))
    groups, chunks = -(-op.out_features // 8), pack.vector_count(op.in_features)
    pair = chunk * chunks + (unrolled if 2 <= chunks <= 4 else 51)
    behind = rest if op.out_features % 8 else 0
    return call + behind + few_outputs * few * loops + groups * (group * loops + pairs * pair)


def flash_of_rows(op: Linear) -> int:
    """Returns the bytes by which the parameters of the pixel kernel exceed the fully connected kernel's, if that one
    takes the layer."""
    return 20 if pack.check_right_shifts(op).ok else 0


BY_ROWS: dict[str, Any] = {"work": rows_work, "extra_flash": flash_of_rows}
BY_FEW_ROWS: dict[str, Any] = {"work": few_rows_work, "extra_flash": flash_of_rows}
LINEAR_COST: dict[str, Any] = {"work": linear_work, "has_private_constants": True}


def scratch_of_sums(op: Linear) -> int:
    """Returns the scratch bytes of the sums, in groups of eight."""
    return 32 * -(-op.out_features // 8)


IM2COL_KERNEL = DOT.kernel(GATHERED, work=pack.im2col_work)

KERNELS: tuple[Kernel, ...] = (
    VECTOR.kernel(ONE_PIXEL),
    FEW_INPUTS.kernel(PIXELS, PIXELS.has_few_inputs, call_cost=CallCost(160.0)),
    *DOT.unrolled(PIXELS),
    DOT.kernel(PIXELS),
    MVE.kernel(
        Conv2d,
        MVE.routine("conv2d_3x3_fours_s8", "planes"),
        pack_3x3.four_pixel_params,
        requires=(short_circuit(LAYER, pack_3x3.four_pixel_verdicts),),
        scratch_bytes=pack_3x3.scratch_bytes,
        call_cost=CallCost(650.0, channel=24.0, reread=0.06),
        work=pack_3x3.four_pixel_instructions,
    ),
    MVE.kernel(
        Conv2d,
        MVE.routine("conv2d_3x3_s8", "planes", "dot_group"),
        pack_3x3.params,
        requires=(short_circuit(LAYER, pack_3x3.verdicts),),
        scratch_bytes=pack_3x3.scratch_bytes,
        call_cost=CallCost(550.0, reread=0.125),
        work=pack_3x3.work,
    ),
    FEW_INPUTS.kernel(GATHERED, GATHERED.has_few_inputs),
    *DOT.unrolled(GATHERED, work=pack.im2col_work),
    IM2COL_KERNEL,
    DOT_LEFT.kernel(PIXELS),
    DOT_LEFT.kernel(GATHERED),
    subpixel.kernel(MVE, "s8", LAYER, IM2COL_KERNEL, "conv2d_im2col_s8", "im2col", *DOT.files),
    FEW_INPUTS.kernel(SHARED_CHANNEL, SHARED_CHANNEL.has_few_inputs),
    DOT.kernel(SHARED_CHANNEL, work=pack.im2col_work),
    FEW_INPUTS.kernel(ROWS, ROWS.has_few_inputs, **BY_FEW_ROWS),
    *DOT.unrolled(ROWS, **BY_ROWS),
    DOT.kernel(ROWS, **BY_ROWS),
    VECTOR.kernel(VECTORS, **LINEAR_COST),
    DOT_LEFT.kernel(ROWS),
    MVE.kernel(
        Linear,
        LINEAR_TFLITE,
        tflite_params,
        requires=(single_rounding.EXACT,),
        scratch_bytes=scratch_of_sums,
        overread_bytes=OVERREAD_BYTES,
    ),
)
