# SPDX-License-Identifier: Apache-2.0
"""The Helium kernels of layers with 8-bit operands and 16-bit results."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from pillion.emitters.c.accumulators import Int32Array
from pillion.emitters.c.kernel import CallCost, Kernel, Params
from pillion.emitters.c.kernel_conditions import multiple_of, short_circuit
from pillion.emitters.c.kernel_library import MVE
from pillion.emitters.c.layers16 import WIDENS, Layer, channels_16
from pillion.emitters.c.mve import pack, pack_3x3
from pillion.emitters.c.mve.conv import one_pixel
from pillion.emitters.c.mve.layers16 import (
    IM2COL,
    PLANES,
    POINTWISE,
    conv_3x3_params,
    im2col_params,
    is_rectified,
    linear_params,
    pack_channels,
    plane_work,
    pointwise_params,
    rows_params,
)
from pillion.emitters.c.mve.pack import OVERREAD_BYTES
from pillion.ir.verdict import Verdict
from pillion.ops.conv import Conv2d
from pillion.ops.linear import Linear

DOT, DOT_FEW = ("dot_s8_s16",), ("dot_s8_s16", "dot_few_s8_s16")


def pack_few(op: Layer) -> Int32Array:
    """Packs biases, factors and weights into the stream of pillion_mve_dot_16_s8_s16 (kernels/mve/dot.h)."""
    g = pack.group_channels(channels_16(op), (0, 1))
    return np.concatenate(
        [g.bias[..., None], g.multipliers[..., None], g.weights.view(np.int32)], axis=2
    ).ravel()


def few_params(sizes: Callable[[Any], dict[str, int]], op: Layer) -> Params:
    """Returns the parameters of a layer with at most 16 inputs."""
    return {**sizes(op), "signs": is_rectified(op), "constants": pack_few(op)}


def pairs_3x3_params(op: Conv2d) -> Params:
    """Returns the parameters of a 3x3 convolution over planes by pairs of pixels."""
    channels = channels_16(op)
    weights = pack_3x3.weights_by_planes(op, channels.weights).reshape(op.out_channels, -1)
    constants = pack_channels(op, replace(channels, weights=weights))
    return {**pack_3x3.plane_params(op), "signs": is_rectified(op), "constants": constants}


def pairs_work(op: Conv2d) -> float:
    """Estimates the instructions of the 3x3 kernel of pairs of pixels, as `pack_3x3.PLANES_WORK`."""
    return pack_3x3.work(op, (450.0, 10.0, 42.0, 27.9, 30.0, 4.5))


def dot_kernels(
    kind: str,
    shared: str,
    windows: Any,
    params: Callable[[Any], Params],
    op: type[Any] = Conv2d,
    name: str = "",
    **more: Any,
) -> Iterator[Kernel]:
    """Yields the kernels of a kind of windows with unrolled loops for 2, 3 and 4 chunks of 16 inputs, and for any."""
    name = name or kind
    few = MVE.routine(f"{kind}_few_s8_s16", shared, *DOT_FEW)

    def has_chunks(pieces: int, op: Layer) -> Verdict:
        return pack.check_input_chunks(pieces, op.weights_per_output.shape[1])

    for pieces in (2, 3, 4):
        yield MVE.kernel(
            op,
            replace(few, name=f"pillion_{kind}_k{16 * pieces}_s8_s16_mve"),
            params,
            requires=(short_circuit(WIDENS, windows, partial(has_chunks, pieces)),),
            name=f"{name}_k{16 * pieces}_8_16",
            **more,
        )
    yield MVE.kernel(
        op,
        MVE.routine(f"{kind}_s8_s16", shared, *DOT),
        params,
        requires=(short_circuit(WIDENS, windows),),
        name=f"{name}_8_16",
        **more,
    )


LINEAR = MVE.routine("linear_s8_s16")
FEW_PIXELS = MVE.routine("conv2d_1x1_k16_s8_s16", "pointwise", "dot_16_s8_s16")


def few_rows_work(op: Linear) -> float:
    """Estimates the instructions of vectors of at most 16 inputs, four at a time by two outputs."""
    return 180 + -(-op.rows // 4) * (17 + 12.5 * op.out_features)


def linear_work(op: Linear) -> float:
    """Estimates the instructions of the fully connected kernel: of each vector, and of its groups of eight outputs."""
    groups, rest = -(-op.out_features // 8), 40 if op.out_features % 8 else 0
    return 60 + op.rows * (40 + groups * (26 + 17.2 * pack.vector_count(op.in_features)) + rest)


def rows_work(op: Linear) -> float:
    """Estimates the instructions of vectors as pixels, two at a time, for groups of eight outputs; some are computed again."""
    pairs, is_odd, few = -(-op.rows // 2), op.rows % 2, op.out_features < 8
    loops = 1 + (is_odd and (few or op.rows > pack.FEW_PIXELS))
    groups, rest = -(-op.out_features // 8), 90 if op.out_features % 8 else 0
    chunks = pack.vector_count(op.in_features)
    pair = 28 * chunks + (30 if 2 <= chunks <= 4 else 51)
    return 200 + rest + 100 * few * loops + groups * (37 * loops + pairs * pair)


KERNELS: tuple[Kernel, ...] = (
    MVE.kernel(
        Conv2d,
        LINEAR,
        linear_params,
        requires=(short_circuit(WIDENS, one_pixel),),
        name="conv2d_pixel_8_16",
        overread_bytes=OVERREAD_BYTES,
    ),
    MVE.kernel(
        Conv2d,
        FEW_PIXELS,
        partial(few_params, pack.pointwise_sizes),
        requires=(short_circuit(WIDENS, pack.pixels_are_windows, pack.few_channels),),
        name="conv2d_1x1_k16_8_16",
        **POINTWISE,
    ),
    *dot_kernels("conv2d_1x1", "pointwise", pack.pixels_are_windows, pointwise_params, **POINTWISE),
    MVE.kernel(
        Conv2d,
        MVE.routine("conv2d_3x3_fours_s8_s16", "planes"),
        conv_3x3_params,
        requires=(short_circuit(WIDENS, *PLANES),),
        name="conv2d_3x3_fours_8_16",
        scratch_bytes=pack_3x3.scratch_bytes,
        call_cost=CallCost(650.0, channel=24.0, reread=0.06),
        work=plane_work,
    ),
    MVE.kernel(
        Conv2d,
        MVE.routine("conv2d_3x3_s8_s16", "planes"),
        pairs_3x3_params,
        requires=(short_circuit(WIDENS, pack_3x3.plane_verdicts, pack_3x3.has_pairs),),
        name="conv2d_3x3_8_16",
        scratch_bytes=pack_3x3.scratch_bytes,
        call_cost=CallCost(550.0, reread=0.125),
        work=pairs_work,
    ),
    MVE.kernel(
        Conv2d,
        MVE.routine("conv2d_im2col_k16_s8_s16", "im2col", "dot_16_s8_s16"),
        partial(few_params, pack.im2col_sizes),
        requires=(short_circuit(WIDENS, pack.is_ungrouped, pack.small_windows),),
        name="conv2d_im2col_k16_8_16",
        **IM2COL,
    ),
    *dot_kernels(
        "conv2d_im2col", "im2col", pack.is_ungrouped, im2col_params, work=pack.im2col_work, **IM2COL
    ),
    MVE.kernel(
        Linear,
        FEW_PIXELS,
        partial(few_params, pack.rows_sizes),
        requires=(short_circuit(WIDENS, pack.few_features, multiple_of("out_features", 2)),),
        name="linear_rows_k16_8_16",
        work=few_rows_work,
        **POINTWISE,
    ),
    *dot_kernels(
        "conv2d_1x1",
        "pointwise",
        pack.several_rows,
        rows_params,
        Linear,
        "linear_rows",
        work=rows_work,
        **POINTWISE,
    ),
    MVE.kernel(
        Linear,
        LINEAR,
        linear_params,
        requires=(WIDENS,),
        name="linear_8_16",
        work=linear_work,
        overread_bytes=OVERREAD_BYTES,
    ),
)
