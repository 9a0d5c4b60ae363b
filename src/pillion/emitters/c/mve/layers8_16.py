# SPDX-License-Identifier: Apache-2.0
"""The Helium kernels of layers with 8-bit operands and 16-bit results."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from pillion.emitters.c.kernel import CallCost, Kernel, Params
from pillion.emitters.c.kernel_conditions import short_circuit
from pillion.emitters.c.kernel_library import MVE
from pillion.emitters.c.layers16 import WIDENS, channels_16
from pillion.emitters.c.mve import pack, pack_3x3
from pillion.emitters.c.mve.conv import few_rows_work, linear_work, rows_work
from pillion.emitters.c.mve.dot_products import GATHERED, ONE_PIXEL, PIXELS, ROWS, VECTORS, DotProducts
from pillion.emitters.c.mve.layers16 import (
    PLANES,
    PLANES_COST,
    conv_3x3_params,
    dot_params,
    is_rectified,
    pack_channels,
    plane_work,
    vector_params,
)
from pillion.ops.conv import Conv2d
from pillion.ops.layer import Layer


def few_inputs_params(op: Layer) -> Params:
    """Returns the biases, factors and weights of at most 16 inputs as pillion_mve_dot_16_s8_s16 reads them
    (kernels/mve/dot.h), and whether results below 0 become 0."""
    g = pack.group_channels(channels_16(op), (0, 1))
    columns = g.bias[..., None], g.multipliers[..., None], g.weights.view(np.int32)
    return {"signs": is_rectified(op), "constants": np.concatenate(columns, axis=2).ravel()}


def pairs_3x3_params(op: Conv2d) -> Params:
    """Returns the parameters of a 3x3 convolution over planes by pairs of pixels."""
    channels = channels_16(op)
    weights = pack_3x3.weights_by_planes(op, channels.weights).reshape(op.out_channels, -1)
    constants = pack_channels(op, replace(channels, weights=weights))
    return {**pack_3x3.plane_params(op), "signs": is_rectified(op), "constants": constants}


def pairs_work(op: Conv2d) -> float:
    """Estimates the instructions of the 3x3 kernel of pairs of pixels, as `pack_3x3.PLANES_WORK`."""
    return pack_3x3.work(op, (450.0, 10.0, 42.0, 27.9, 30.0, 4.5))


VECTOR = DotProducts("s8_s16", WIDENS, vector_params)
FEW_INPUTS = DotProducts("s8_s16", WIDENS, few_inputs_params, files=("dot_16_s8_s16",), variant="_k16")
DOT = DotProducts(
    "s8_s16", WIDENS, dot_params, files=("dot_s8_s16",), unrolled_files=("dot_s8_s16", "dot_few_s8_s16")
)


BY_ROWS = partial(rows_work, work=(200, 90, 100, 37, 30, 28))

KERNELS: tuple[Kernel, ...] = (
    VECTOR.kernel(ONE_PIXEL),
    FEW_INPUTS.kernel(PIXELS, PIXELS.has_few_inputs),
    *DOT.unrolled(PIXELS),
    DOT.kernel(PIXELS),
    MVE.kernel(
        Conv2d,
        MVE.routine("conv2d_3x3_fours_s8_s16", "planes"),
        conv_3x3_params,
        requires=(short_circuit(WIDENS, *PLANES),),
        scratch_bytes=pack_3x3.scratch_bytes,
        call_cost=PLANES_COST,
        work=plane_work,
    ),
    MVE.kernel(
        Conv2d,
        MVE.routine("conv2d_3x3_s8_s16", "planes"),
        pairs_3x3_params,
        requires=(short_circuit(WIDENS, pack_3x3.plane_verdicts, pack_3x3.has_pairs),),
        scratch_bytes=pack_3x3.scratch_bytes,
        call_cost=CallCost(550.0, reread=0.125),
        work=pairs_work,
    ),
    FEW_INPUTS.kernel(GATHERED, GATHERED.has_few_inputs),
    *DOT.unrolled(GATHERED, work=pack.im2col_work),
    DOT.kernel(GATHERED, work=pack.im2col_work),
    FEW_INPUTS.kernel(ROWS, ROWS.has_few_inputs, work=partial(few_rows_work, work=(180, 17, 12.5))),
    *DOT.unrolled(ROWS, pack.several_rows, work=BY_ROWS),
    DOT.kernel(ROWS, pack.several_rows, work=BY_ROWS),
    VECTOR.kernel(VECTORS, work=partial(linear_work, work=(60.0, 40.0, 26.0, 17.2))),
)
