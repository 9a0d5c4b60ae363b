# SPDX-License-Identifier: Apache-2.0
"""The Helium kernels of convolution, depthwise convolution and fully connected layers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pillion.emitters.c.kernel import Call, Kernel, Params, Routine
from pillion.emitters.c.mve import (
    depthwise as mve_depthwise,
)
from pillion.emitters.c.mve import (
    depthwise_5x5 as mve_depthwise_5x5,
)
from pillion.emitters.c.mve import (
    pack as mve_pack,
)
from pillion.emitters.c.mve.pack import Geometry, Sums
from pillion.emitters.c.portable.walk import constants, int8
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import Value
from pillion.ir.verdict import Verdict, all_ok
from pillion.ops.conv import Conv2d, Convolution, DepthwiseConv2d
from pillion.ops.linear import Linear

OVERREAD_BYTES = 15
"""Loads are 16 bytes wide; what lies behind an operand meets weights of zero."""


def routine(name: str, *also: str) -> Routine:
    return Routine(
        f"pillion_{name}_s8_mve", f"mve/{name}_s8_mve.c", "mve.h", tuple(f"mve/{file}_mve.c" for file in also)
    )


def geometry(op: Convolution) -> Geometry:
    images, in_h, in_w, in_c = op.x.shape
    return Geometry(
        images,
        (in_h, in_w),
        in_c,
        (op.y.shape[1], op.y.shape[2]),
        op.out_channels,
        op.kernel,
        op.stride,
        op.dilation,
        op.padding[0],
        op.padding[1],
        getattr(op, "groups", 1),
    )


def sums(op: Convolution | Linear) -> Sums:
    weights = op.weights_per_output if isinstance(op, Convolution) else op.weights.constant
    bias, levels = np.asarray(op.bias.constant, np.int32), (op.x.zero_point, op.y.zero_point, op.low, op.high)
    return Sums(np.asarray(weights, np.int8), bias, *op.multipliers, *levels)


@dataclass(frozen=True)
class Variant:
    """A kernel for one kind of convolution."""

    routine: Routine
    verdicts: Callable[[Geometry, Sums], tuple[Verdict, ...]]
    params: Callable[[Geometry, Sums], Params]
    scratch: Callable[[Geometry], int] = lambda g: 0
    overread_bytes: int = 0
    in_place: Callable[[Geometry], bool] = lambda g: False

    def row(self, name: str, op: type[Convolution]) -> Kernel:
        calls: Any = self._calls
        takes: Any = self._takes
        in_place: Any = self._in_place
        scratch: Any = self._scratch
        return Kernel(f"{name}_mve", op, calls, takes, scratch, in_place, self.overread_bytes)

    def _takes(self, op: Convolution, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
        known = (*int8(x=op.x, y=op.y, weights=op.weights), *constants(weights=op.weights, bias=op.bias))
        return (*known, *self.verdicts(geometry(op), sums(op))) if all_ok(known) else known

    def _calls(self, op: Convolution, arithmetic: Arithmetic) -> tuple[Call, ...]:
        if not op.y.type.elements:
            return ()
        return (Call(self.routine, self.params(geometry(op), sums(op)), (op.x,), op.y),)

    def _scratch(self, op: Convolution) -> int:
        return self.scratch(geometry(op))

    def _in_place(self, op: Convolution) -> tuple[Value, ...]:
        fits = self.in_place(geometry(op)) and op.y.type.size_bytes <= op.x.type.size_bytes
        return (op.x,) if fits else ()


POINTWISE_16 = Variant(
    routine("conv2d_1x1_k16", "pointwise", "dot_16"),
    mve_pack.conv2d_1x1_k16_verdicts,
    mve_pack.conv2d_1x1_k16_params,
    overread_bytes=OVERREAD_BYTES,
)
POINTWISE = Variant(
    routine("conv2d_1x1", "pointwise", "dot", "dot_any"),
    mve_pack.conv2d_1x1_verdicts,
    mve_pack.conv2d_1x1_params,
    overread_bytes=OVERREAD_BYTES,
)
PLANES = Variant(
    routine("conv2d_3x3"),
    mve_pack.conv2d_3x3_verdicts,
    mve_pack.conv2d_3x3_params,
    mve_pack.conv2d_3x3_scratch,
)
IM2COL_16 = Variant(
    routine("conv2d_im2col_k16", "im2col", "dot_16"),
    mve_pack.conv2d_im2col_k16_verdicts,
    mve_pack.conv2d_im2col_k16_params,
    mve_pack.conv2d_im2col_scratch,
)
IM2COL = Variant(
    routine("conv2d_im2col", "im2col", "dot", "dot_any"),
    mve_pack.conv2d_im2col_verdicts,
    mve_pack.conv2d_im2col_params,
    mve_pack.conv2d_im2col_scratch,
)


def with_few_inputs(variant: Variant, name: str, *also: str) -> dict[str, Variant]:
    """The same with loops for 2, 3 and 4 pieces of 16 inputs."""

    def verdicts(pieces: int) -> Callable[[Geometry, Sums], tuple[Verdict, ...]]:
        return lambda g, s: (*variant.verdicts(g, s), mve_pack.few_inputs(pieces, s.weights.shape[1]))

    few = routine(f"{name}_few", *also, "dot", "dot_few")
    made = {f"{name}_k{16 * pieces}": pieces for pieces in (2, 3, 4)}
    return {
        key: replace(variant, routine=replace(few, name=f"pillion_{key}_s8_mve"), verdicts=verdicts(pieces))
        for key, pieces in made.items()
    }


POINTWISE_FEW = with_few_inputs(POINTWISE, "conv2d_1x1", "pointwise")
IM2COL_FEW = with_few_inputs(IM2COL, "conv2d_im2col", "im2col")
STRIPS = Variant(
    routine("depthwise_3x3", "strips"),
    mve_depthwise.depthwise_3x3_verdicts,
    mve_depthwise.depthwise_3x3_params,
    mve_depthwise.depthwise_3x3_scratch,
    in_place=lambda g: True,
)
STRIPS_STRIDE_2 = Variant(
    routine("depthwise_3x3_stride2", "strips"),
    mve_depthwise.depthwise_3x3_stride2_verdicts,
    mve_depthwise.depthwise_3x3_params,
    mve_depthwise.depthwise_3x3_scratch,
    in_place=lambda g: True,
)
PLANE_5X5 = Variant(
    routine("depthwise_5x5"),
    mve_depthwise_5x5.depthwise_5x5_verdicts,
    mve_depthwise_5x5.depthwise_5x5_params,
    mve_depthwise_5x5.depthwise_5x5_scratch,
    in_place=lambda g: True,
)
WIDE = Variant(
    routine("depthwise_any", "wide"),
    mve_depthwise.depthwise_verdicts,
    mve_depthwise.depthwise_params,
    mve_depthwise.depthwise_scratch,
    overread_bytes=OVERREAD_BYTES,
    in_place=mve_depthwise.depthwise_in_place,
)
WIDE_3X3 = replace(
    WIDE,
    routine=routine("depthwise_3x3_wide", "wide"),
    verdicts=mve_depthwise.depthwise_3x3_wide_verdicts,
)

LINEAR = routine("linear")


def takes_linear(op: Linear, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """LiteRT scales the sums of a fully connected layer in double precision."""
    rounding = Verdict(
        "arithmetic", arithmetic is Arithmetic.CMSIS_NN, Arithmetic.CMSIS_NN.value, arithmetic.value
    )
    known = (
        rounding,
        *int8(x=op.x, y=op.y, weights=op.weights),
        *constants(weights=op.weights, bias=op.bias),
    )
    return (*known, *mve_pack.linear_verdicts(sums(op))) if all_ok(known) else known


def calls_linear(op: Linear, arithmetic: Arithmetic) -> tuple[Call, ...]:
    return (
        (Call(LINEAR, mve_pack.linear_params(op.rows, sums(op)), (op.x,), op.y),)
        if op.y.type.elements
        else ()
    )


def kernel(name: str, op: type[Op], calls: Any, takes: Any, **others: Any) -> Kernel:
    """A row whose functions take the op's own class: the emitter calls them with no other."""
    return Kernel(f"{name}_mve", op, calls, takes, **others)


KERNELS: tuple[Kernel, ...] = (
    POINTWISE_16.row("conv2d_1x1_k16", Conv2d),
    *(variant.row(name, Conv2d) for name, variant in POINTWISE_FEW.items()),
    POINTWISE.row("conv2d_1x1", Conv2d),
    PLANES.row("conv2d_3x3", Conv2d),
    IM2COL_16.row("conv2d_im2col_k16", Conv2d),
    *(variant.row(name, Conv2d) for name, variant in IM2COL_FEW.items()),
    IM2COL.row("conv2d_im2col", Conv2d),
    STRIPS.row("depthwise_3x3", DepthwiseConv2d),
    STRIPS_STRIDE_2.row("depthwise_3x3_stride2", DepthwiseConv2d),
    PLANE_5X5.row("depthwise_5x5", DepthwiseConv2d),
    WIDE_3X3.row("depthwise_3x3_wide", DepthwiseConv2d),
    WIDE.row("depthwise_any", DepthwiseConv2d),
    kernel("linear", Linear, calls_linear, takes_linear, overread_bytes=OVERREAD_BYTES),
)
