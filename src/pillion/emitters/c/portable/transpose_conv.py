# SPDX-License-Identifier: Apache-2.0
"""The portable kernel of transposed convolutions."""

from __future__ import annotations

import numpy as np

from pillion.emitters.c.conditions import all_int8, constants
from pillion.emitters.c.kernel import Call, Kernel, Params
from pillion.emitters.c.library import PORTABLE
from pillion.ir.numerics import Arithmetic
from pillion.ir.verdict import Verdict
from pillion.ops.transpose_conv import TransposeConv2d

SUM_BYTES = 4
"""Bytes of one accumulator."""


def transpose_conv2d(op: TransposeConv2d, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of a transposed convolution."""
    batch, in_h, in_w, in_c = op.x.shape
    sizes = {"batch": batch, "in_h": in_h, "in_w": in_w, "in_c": in_c}
    sizes |= {"out_h": op.y.shape[1], "out_w": op.y.shape[2], "out_c": op.out_channels}
    pairs = {"kernel": op.kernel, "stride": op.stride, "dilation": op.dilation, "pad": op.padding[:2]}
    names = {"pad_h": "pad_top", "pad_w": "pad_left"}
    window = {f"{name}_{axis}": pair[i] for name, pair in pairs.items() for i, axis in enumerate("hw")}
    levels = {"in_zp": op.x.zero_point, "out_zp": op.y.zero_point, "low": op.low, "high": op.high}
    mantissa, shift = op.multipliers
    constants = {
        "weights": np.ascontiguousarray(op.weights.constant.transpose(1, 2, 0, 3)).reshape(-1),
        "bias": op.bias.constant.astype(np.int32),
        "multiplier": mantissa,
        "shift": shift,
    }
    params: Params = {**sizes, **{names.get(k, k): v for k, v in window.items()}, **levels, **constants}
    return (Call(PORTABLE.routine("transpose_conv2d_s8"), params, (op.x,), op.y),)


def judge(op: TransposeConv2d, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges the element types of a transposed convolution, and whether weights and bias are constants."""
    return (*all_int8(op), *constants(weights=op.weights, bias=op.bias))


def sums_bytes(op: TransposeConv2d) -> int:
    """Gives the scratch for the accumulators of one pixel of the result."""
    return SUM_BYTES * op.out_channels


KERNELS: tuple[Kernel, ...] = (
    PORTABLE.row(TransposeConv2d, transpose_conv2d, judge, scratch_bytes=sums_bytes),
)
