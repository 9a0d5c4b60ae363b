# SPDX-License-Identifier: Apache-2.0
"""The Helium kernels of convolution, depthwise convolution and fully connected layers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from pillion.emitters.c import single_rounding, subpixel
from pillion.emitters.c.accumulators import channels_of
from pillion.emitters.c.kernel import CallCost, Kernel, Params
from pillion.emitters.c.kernel_conditions import (
    LAYER,
    Condition,
    all_of,
    fixed_point,
    multiple_of,
    short_circuit,
)
from pillion.emitters.c.kernel_library import MVE
from pillion.emitters.c.mve import depthwise_5x5, depthwise_planes, depthwise_strips, pack, pack_3x3
from pillion.emitters.c.mve.pack import OVERREAD_BYTES
from pillion.ir.types import Value
from pillion.ir.verdict import Verdict
from pillion.ops.conv import Conv2d, Convolution, DepthwiseConv2d
from pillion.ops.linear import Linear

Verdicts = Callable[[Any], tuple[Verdict, ...]]
CallParams = Callable[[Any], Params]


def layer_kernel(
    op: type[Convolution | Linear],
    name: str,
    verdicts: Condition[Any],
    params: CallParams,
    *also: str,
    **more: Any,
) -> Kernel:
    """Returns the kernel of a class of layers, whose verdicts rely on constant int8 weights."""
    routine = more.pop("routine", None) or MVE.routine(f"{name}_s8", *also)
    return MVE.kernel(op, routine, params, requires=(short_circuit(LAYER, verdicts),), name=name, **more)


conv, depthwise, linear = (partial(layer_kernel, op) for op in (Conv2d, DepthwiseConv2d, Linear))
DOT, DOT_LEFT = ("dot", "dot_any", "dot_group"), ("dot", "dot_left", "dot_group")
POINTWISE: dict[str, Any] = {"overread_bytes": OVERREAD_BYTES, "call_cost": CallCost(200.0, channel=4.5)}
IM2COL: dict[str, Any] = {
    "scratch_bytes": pack.im2col_scratch_bytes,
    "call_cost": CallCost(150.0, reread=0.45),
}
PLANES: dict[str, Any] = {"scratch_bytes": pack_3x3.scratch_bytes}


def unrolled_kernels(
    routine: str,
    verdicts: Condition[Any],
    params: CallParams,
    shared: str,
    op: type[Convolution | Linear] = Conv2d,
    name: str = "",
    **more: Any,
) -> Iterator[Kernel]:
    """Yields the kernels with unrolled loops for 2, 3 and 4 chunks of 16 inputs."""
    few = MVE.routine(f"{routine}_few_s8", shared, "dot", "dot_few", "dot_group")

    def has_chunks(pieces: int, op: Convolution | Linear) -> Verdict:
        return pack.check_input_chunks(pieces, op.weights_per_output.shape[1])

    for pieces in (2, 3, 4):
        key = f"_k{16 * pieces}"
        yield layer_kernel(
            op,
            f"{name or routine}{key}",
            short_circuit(verdicts, partial(has_chunks, pieces)),
            params,
            routine=replace(few, name=f"pillion_{routine}{key}_s8_mve"),
            **more,
        )


def for_one_input_channel(verdicts: Verdicts) -> Verdicts:
    """Returns the conditions of a convolution kernel for depthwise convolutions with one input channel, which all
    filters read."""

    def check(op: DepthwiseConv2d) -> tuple[Verdict, ...]:
        single = Verdict("in_channels", op.in_channels == 1, "1", str(op.in_channels))
        return (single, *verdicts(op)) if single.ok else (single,)

    return check


def in_place_if(fits: Callable[[Convolution], bool]) -> Callable[[Convolution], tuple[Value, ...]]:
    """Returns the function that allows a result to overwrite the image if that fits and is no smaller."""
    return lambda op: (op.x,) if fits(op) and op.y.type.size_bytes <= op.x.type.size_bytes else ()


def has_one_filter(op: Convolution) -> bool:
    """Whether a depthwise result may overwrite the image: channel by channel, with one filter for each."""
    return op.in_channels == op.out_channels


STRIPS: dict[str, Any] = {
    "scratch_bytes": depthwise_strips.scratch_bytes,
    "in_place": in_place_if(has_one_filter),
    "work": depthwise_strips.work,
}
WIDE: dict[str, Any] = {
    "scratch_bytes": depthwise_planes.scratch_bytes,
    "overread_bytes": OVERREAD_BYTES,
    "in_place": in_place_if(depthwise_planes.fits_in_place),
}

LINEAR = MVE.routine("linear_s8")
LINEAR_TFLITE = replace(LINEAR, name="pillion_linear_tflite_s8_mve")


def one_pixel(op: Conv2d) -> Iterator[Verdict]:
    """Checks whether a convolution computes one pixel from the whole image: a matrix-vector product."""
    yield Verdict("pixels", op.y.shape[:3] == (1, 1, 1), "one", str(op.y.shape[:3]))
    yield Verdict("window", op.kernel == op.x.shape[1:3], "the whole image", str(op.kernel))
    yield Verdict("groups", op.groups == 1, "1", str(op.groups))


def tflite_sizes(op: Linear) -> Params:
    """Returns the parameters of fully connected kernels with single rounding, but for the weights."""
    return {"chunks": pack.vector_count(op.in_features), "once": single_rounding.packed_numbers(op)}


def tflite_params(op: Linear) -> Params:
    """Returns the parameters of the fully connected kernel with single rounding."""
    constants = pack.pack_linear(pack.unscaled_channel_params(channels_of(op)))
    return {**tflite_sizes(op), "constants": constants}


def linear_work(op: Linear) -> float:
    """Estimates the instructions of the fully connected kernel: of each vector, and of its groups of eight outputs."""
    groups, rest = -(-op.out_features // 8), 40 if op.out_features % 8 else 0
    return 65 + op.rows * (38 + groups * (31 + 17.1 * pack.vector_count(op.in_features)) + rest)


def rows_16_work(op: Linear) -> float:
    """Estimates the instructions of vectors of at most 16 inputs, four at a time."""
    return 190 + -(-op.rows // 4) * (20 + 14.5 * op.out_features)


def rows_work(op: Linear) -> float:
    """Estimates the instructions of vectors as pixels, two at a time, for groups of eight outputs; some are computed again."""
    pairs, is_odd, few = -(-op.rows // 2), op.rows % 2, op.out_features < 8
    loops = 1 + (is_odd and (few or op.rows > pack.FEW_PIXELS))
    groups, rest = -(-op.out_features // 8), 75 if op.out_features % 8 else 0
    chunks = pack.vector_count(op.in_features)
    pair = 28.3 * chunks + (39 if 2 <= chunks <= 4 else 51)
    return 210 + rest + 27 * few * loops + groups * (42 * loops + pairs * pair)


def flash_of_rows(op: Linear) -> int:
    """Returns the bytes by which the parameters of pixels are larger than those of the fully connected kernel, if that takes the
    layer."""
    return 20 if pack.check_right_shifts(op).ok else 0


ROWS: dict[str, Any] = {"work": rows_work, "extra_flash": flash_of_rows, **POINTWISE}
ROWS_16: dict[str, Any] = {**ROWS, "work": rows_16_work}


def scratch_of_sums(op: Linear) -> int:
    """Returns the scratch bytes of the sums, in groups of eight."""
    return 32 * -(-op.out_features // 8)


IM2COL_KERNEL = conv(
    "conv2d_im2col", pack.im2col_verdicts, pack.im2col_params, "im2col", *DOT, work=pack.im2col_work, **IM2COL
)

KERNELS: tuple[Kernel, ...] = (
    MVE.kernel(
        Conv2d,
        LINEAR,
        lambda op: pack.linear_params(1, channels_of(op)),
        requires=(short_circuit(all_of(LAYER, one_pixel), pack.check_right_shifts),),
        name="conv2d_pixel",
        overread_bytes=OVERREAD_BYTES,
    ),
    conv(
        "conv2d_1x1_k16",
        pack.pointwise_16_verdicts,
        pack.pointwise_16_params,
        *("pointwise", "dot_16"),
        **{**POINTWISE, "call_cost": CallCost(160.0)},
    ),
    *unrolled_kernels("conv2d_1x1", pack.pointwise_verdicts, pack.pointwise_params, "pointwise", **POINTWISE),
    conv("conv2d_1x1", pack.pointwise_verdicts, pack.pointwise_params, "pointwise", *DOT, **POINTWISE),
    conv(
        "conv2d_3x3_fours",
        pack_3x3.four_pixel_verdicts,
        pack_3x3.four_pixel_params,
        "planes",
        call_cost=CallCost(650.0, channel=24.0, reread=0.06),
        work=pack_3x3.four_pixel_instructions,
        **PLANES,
    ),
    conv(
        "conv2d_3x3",
        pack_3x3.verdicts,
        pack_3x3.params,
        *("planes", "dot_group"),
        call_cost=CallCost(550.0, reread=0.125),
        work=pack_3x3.work,
        **PLANES,
    ),
    conv(
        "conv2d_im2col_k16", pack.im2col_16_verdicts, pack.im2col_16_params, *("im2col", "dot_16"), **IM2COL
    ),
    *unrolled_kernels(
        "conv2d_im2col", pack.im2col_verdicts, pack.im2col_params, "im2col", work=pack.im2col_work, **IM2COL
    ),
    IM2COL_KERNEL,
    *(
        conv(
            f"{name}_left",
            short_circuit(windows, pack.check_left_shifts),
            params,
            shared,
            *DOT_LEFT,
            **memory,
        )
        for name, windows, params, shared, memory in (
            ("conv2d_1x1", pack.pixels_are_windows, pack.pointwise_params, "pointwise", POINTWISE),
            ("conv2d_im2col", pack.is_ungrouped, pack.im2col_params, "im2col", IM2COL),
        )
    ),
    subpixel.kernel(MVE, IM2COL_KERNEL, "conv2d_im2col_s8", "im2col", *DOT),
    depthwise(
        "depthwise_im2col_k16",
        for_one_input_channel(pack.im2col_16_verdicts),
        pack.im2col_16_params,
        routine=MVE.routine("conv2d_im2col_k16_s8", "im2col", "dot_16"),
        **IM2COL,
    ),
    depthwise(
        "depthwise_im2col",
        for_one_input_channel(pack.im2col_verdicts),
        pack.im2col_params,
        routine=MVE.routine("conv2d_im2col_s8", "im2col", *DOT),
        work=pack.im2col_work,
        **IM2COL,
    ),
    *(
        depthwise(
            name,
            depthwise_strips.verdicts(stride),
            depthwise_strips.params,
            *("strips", "strips_of_bytes"),
            **STRIPS,
        )
        for name, stride in (("depthwise_3x3", 1), ("depthwise_3x3_stride2", 2))
    ),
    depthwise(
        "depthwise_5x5",
        depthwise_5x5.verdicts,
        depthwise_5x5.params,
        scratch_bytes=depthwise_5x5.scratch_bytes,
        in_place=in_place_if(has_one_filter),
        work=depthwise_5x5.work,
    ),
    depthwise(
        "depthwise_3x3_wide",
        depthwise_planes.verdicts_3x3,
        depthwise_planes.params,
        "wide",
        work=depthwise_planes.work_3x3,
        **WIDE,
    ),
    depthwise(
        "depthwise_any",
        depthwise_planes.verdicts,
        depthwise_planes.params,
        "wide",
        work=depthwise_planes.work,
        **WIDE,
    ),
    depthwise(
        "depthwise_any_left",
        depthwise_planes.left_verdicts,
        depthwise_planes.left_params,
        "wide",
        **WIDE,
    ),
    linear(
        "linear_rows_k16",
        short_circuit(
            fixed_point, pack.few_features, multiple_of("out_features", 4), pack.check_optional_fix
        ),
        pack.rows_16_params,
        routine=MVE.routine("conv2d_1x1_k16_s8", "pointwise", "dot_16"),
        **ROWS_16,
    ),
    *unrolled_kernels(
        "conv2d_1x1",
        short_circuit(fixed_point, pack.check_factors),
        pack.rows_params,
        "pointwise",
        Linear,
        "linear_rows",
        **ROWS,
    ),
    linear(
        "linear_rows",
        short_circuit(fixed_point, pack.check_factors),
        pack.rows_params,
        routine=MVE.routine("conv2d_1x1_s8", "pointwise", *DOT),
        **ROWS,
    ),
    linear(
        "linear",
        short_circuit(fixed_point, pack.check_right_shifts),
        lambda op: pack.linear_params(op.rows, channels_of(op)),
        routine=LINEAR,
        work=linear_work,
        overread_bytes=OVERREAD_BYTES,
        has_private_constants=True,
    ),
    linear(
        "linear_rows_left",
        short_circuit(fixed_point, pack.check_left_shifts),
        pack.rows_params,
        routine=MVE.routine("conv2d_1x1_left_s8", "pointwise", *DOT_LEFT),
        **POINTWISE,
    ),
    MVE.kernel(
        Linear,
        LINEAR_TFLITE,
        tflite_params,
        requires=(single_rounding.EXACT,),
        name="linear_tflite",
        scratch_bytes=scratch_of_sums,
        overread_bytes=OVERREAD_BYTES,
    ),
)
