# SPDX-License-Identifier: Apache-2.0
"""The Helium depthwise convolutions with 16-bit results, from 8-bit operands and from 16-bit ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from pillion.emitters.c.accumulators import Int32Array
from pillion.emitters.c.kernel import Kernel, Params
from pillion.emitters.c.kernel_conditions import short_circuit
from pillion.emitters.c.kernel_library import MVE
from pillion.emitters.c.layers16 import IN_32_BITS, WIDENS, channels_16
from pillion.emitters.c.mve import depthwise_5x5, depthwise_5x5_16, depthwise_planes, depthwise_strips
from pillion.emitters.c.mve.conv import has_one_filter, in_place_if
from pillion.emitters.c.mve.pack import EVEN, ODD, OVERREAD_BYTES
from pillion.ir.verdict import Verdict
from pillion.ops.conv import DepthwiseConv2d, widens

Verdicts = Callable[[Any], Iterable[Verdict]]


def numbers_of(op: DepthwiseConv2d) -> Int32Array:
    """Returns bias and factor of each channel."""
    channels = channels_16(op)
    return np.stack([channels.bias, channels.multipliers], axis=1).astype(np.int32).reshape(-1)


def strip_params(op: DepthwiseConv2d) -> Params:
    """Returns the parameters of the 3x3 kernels by strips, for either stride."""
    return {**depthwise_strips.layout_params(op, channels_16(op).weights), "numbers": numbers_of(op)}


def depthwise(
    name: str, is_widening: bool, verdicts: Verdicts, params: Callable[[Any], Params], *also: str, **more: Any
) -> Kernel:
    """Returns the kernel of depthwise convolutions from 8-bit operands if it `is_widening`, otherwise from 16-bit ones."""
    types, suffix, known = ("s8_s16", "8_16", WIDENS) if is_widening else ("s16", "16", IN_32_BITS)
    routine = MVE.routine(f"{name}_{types}", *also)
    requires = (short_circuit(known, verdicts),)
    return MVE.kernel(DepthwiseConv2d, routine, params, requires=requires, name=f"{name}_{suffix}", **more)


def in_strips(stride: int) -> Verdicts:
    """Returns the condition that an image lies in strips for a stride."""
    return lambda op: depthwise_strips.shape_verdicts(op, stride)


def params_5x5(op: DepthwiseConv2d) -> Params:
    """Returns the parameters of the 5x5 kernel."""
    return {**depthwise_5x5.layout_params(op, channels_16(op).weights), "numbers": numbers_of(op)}


def params_5x5_16(op: DepthwiseConv2d) -> Params:
    """Returns the parameters of the 5x5 kernel of 16-bit operands."""
    return {**depthwise_5x5_16.layout_params(op), "numbers": numbers_of(op)}


def wide_params(op: DepthwiseConv2d) -> Params:
    """Returns the parameters of the kernels over planes."""
    order = depthwise_planes.WIDE_ORDER if widens(op) else (*EVEN, *ODD)
    constants = depthwise_planes.pack_wide(channels_16(op), order, has_shifts=False)
    return {**depthwise_planes.layout_params(op), "constants": constants}


def in_planes(op: DepthwiseConv2d) -> tuple[Verdict, ...]:
    """Checks the conditions of sums over planes."""
    if not widens(op):
        return (depthwise_planes.reaches_image(op),)
    return depthwise_planes.sums_verdicts(op, channels_16(op).weights)


def in_planes_3x3(op: DepthwiseConv2d) -> tuple[Verdict, ...]:
    """Checks the same for 3x3."""
    return (*depthwise_planes.is_3x3(op), *in_planes(op))


def strip_kernels(is_widening: bool, *strips: str, **more: Any) -> Iterator[Kernel]:
    """Yields the 3x3 kernels by strips of a type, for either stride."""
    for name, stride in (("depthwise_3x3", 1), ("depthwise_3x3_stride2", 2)):
        yield depthwise(
            name,
            is_widening,
            in_strips(stride),
            strip_params,
            *strips,
            scratch_bytes=depthwise_strips.scratch_bytes,
            work=depthwise_strips.work,
            **more,
        )


def plane_kernels(is_widening: bool, **more: Any) -> Iterator[Kernel]:
    """Yields the kernels over planes of a type: of 3x3, then of any window."""
    for name, verdicts, work in (
        ("depthwise_3x3_wide", in_planes_3x3, depthwise_planes.work_3x3),
        ("depthwise_any", in_planes, depthwise_planes.work),
    ):
        yield depthwise(
            name,
            is_widening,
            verdicts,
            wide_params,
            "wide",
            scratch_bytes=depthwise_planes.scratch_bytes,
            overread_bytes=OVERREAD_BYTES,
            work=work,
            **more,
        )


KERNELS: tuple[Kernel, ...] = (
    *strip_kernels(True, "strips", "strips_of_bytes"),
    *strip_kernels(False, "strips_of_halfwords", in_place=in_place_if(has_one_filter)),
    depthwise(
        "depthwise_5x5",
        True,
        depthwise_5x5.shape_verdicts,
        params_5x5,
        scratch_bytes=depthwise_5x5.scratch_bytes,
        work=depthwise_5x5.work,
    ),
    depthwise(
        "depthwise_5x5",
        False,
        depthwise_5x5_16.verdicts,
        params_5x5_16,
        scratch_bytes=depthwise_5x5_16.plane_bytes,
        in_place=in_place_if(has_one_filter),
        work=depthwise_5x5_16.work,
    ),
    *plane_kernels(True),
    *plane_kernels(False, in_place=in_place_if(depthwise_planes.fits_in_place)),
)
