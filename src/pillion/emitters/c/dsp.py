# SPDX-License-Identifier: Apache-2.0
"""The DSP kernels (Cortex-M4, -M7, -M33): which ops each variant takes, with what constants and how much scratch."""

from __future__ import annotations

import numpy as np

from pillion.emitters.c import dsp_pack
from pillion.emitters.c.dsp_pack import Channels, Params
from pillion.emitters.c.kernel import Call, Kernel, Routine
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.verdict import Verdict
from pillion.ops.conv import Conv2d, Convolution


def routine(name: str) -> Routine:
    return Routine(f"pillion_{name}_s8_dsp", f"dsp/{name}_s8.c", "dsp.h")


CONV_1X1 = routine("conv2d_1x1")

ROUTINES = (CONV_1X1,)


def channels_of(op: Convolution) -> Channels:
    multipliers, shifts = op.multipliers
    return Channels(
        op.weights_per_output.astype(np.int8), op.bias.constant.astype(np.int32), multipliers, shifts, op.x.zero_point, op.y.zero_point
    )


def constant_weights(op: Op) -> Verdict:
    variable = [v.name for v in op.operands[1:] if not v.is_constant]
    return Verdict("weights", not variable, "constants", f"variable {', '.join(variable)}" if variable else "constants")


def takes_1x1(op: Conv2d, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    window = (op.kernel, op.stride, op.padding)
    plain = window == ((1, 1), (1, 1), (0, 0, 0, 0)) and op.groups == 1
    shape = (
        Verdict("window", plain, "1x1, stride 1, no padding, one group", f"{window}, groups {op.groups}"),
        Verdict("in_channels", op.in_channels % 4 == 0, "a multiple of 4", str(op.in_channels)),
        constant_weights(op),
    )
    return shape + (dsp_pack.dot_verdicts(channels_of(op)) if shape[-1].ok else ())


def calls_1x1(op: Conv2d, arithmetic: Arithmetic) -> tuple[Call, ...]:
    n, h, w, _ = op.y.shape
    params: Params = {
        **dsp_pack.pack_dot(channels_of(op)),
        "pixels": n * h * w,
        "in_c": op.in_channels,
        "low": op.low,
        "high": op.high,
    }
    return (Call(CONV_1X1, params, (op.x,), op.y),)


def scratch_1x1(op: Conv2d) -> int:
    return dsp_pack.blocks_bytes(channels_of(op))


KERNELS: tuple[Kernel, ...] = (Kernel("conv2d_1x1_dsp", Conv2d, calls_1x1, takes_1x1, scratch_1x1),)
