# SPDX-License-Identifier: Apache-2.0
"""The Helium depthwise convolutions of 8 bits, of 16 bits, and of 8-bit operands with 16-bit results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from pillion.emitters.c.accumulators import Int32Array
from pillion.emitters.c.kernel import Kernel, Params
from pillion.emitters.c.kernel_conditions import LAYER, Condition, short_circuit
from pillion.emitters.c.kernel_library import MVE, types_suffix
from pillion.emitters.c.layers16 import IN_32_BITS, WIDENS, channels_16
from pillion.emitters.c.mve import depthwise_5x5, depthwise_5x5_16, depthwise_planes, depthwise_strips
from pillion.emitters.c.mve.pack import EVEN, ODD, OVERREAD_BYTES
from pillion.ir.types import Value
from pillion.ir.verdict import Verdict
from pillion.ops.conv import DepthwiseConv2d

Verdicts = Callable[[Any], Iterable[Verdict]]


def numbers_of(op: DepthwiseConv2d) -> Int32Array:
    """Returns bias and factor of each channel."""
    channels = channels_16(op)
    return np.stack([channels.bias, channels.multipliers], axis=1).astype(np.int32).reshape(-1)


def strip_params(op: DepthwiseConv2d) -> Params:
    """Returns the parameters of the 3x3 kernels by strips, for either stride."""
    return {**depthwise_strips.layout_params(op, channels_16(op).weights), "numbers": numbers_of(op)}


LAYERS: dict[str, Condition[Any]] = {"s8": LAYER, "s8_s16": WIDENS, "s16": IN_32_BITS}
"""Maps element types (of operands, and of results if they differ) to the condition of such layers."""


def in_place_if(fits: Callable[[DepthwiseConv2d], bool]) -> Callable[[DepthwiseConv2d], tuple[Value, ...]]:
    """Returns the function that lets a result overwrite the image if `fits` holds and the result is no larger."""
    return lambda op: (op.x,) if fits(op) and op.y.type.size_bytes <= op.x.type.size_bytes else ()


def has_one_filter(op: DepthwiseConv2d) -> bool:
    """Whether a depthwise result may overwrite the image: channel by channel, with one filter for each."""
    return op.in_channels == op.out_channels


def depthwise(
    name: str, types: str, verdicts: Verdicts, params: Callable[[Any], Params], *also: str, **more: Any
) -> Kernel:
    """Returns the kernel of depthwise convolutions of some types."""
    routine = MVE.routine(f"{name}_{types}", *also)
    requires = (short_circuit(LAYERS[types], verdicts),)
    name += types_suffix(types)
    return MVE.kernel(DepthwiseConv2d, routine, params, requires=requires, name=name, **more)


def in_strips(stride: int) -> Verdicts:
    """Returns the condition that the strip kernels of a stride take a convolution."""
    return lambda op: depthwise_strips.shape_verdicts(op, stride)


def params_5x5(op: DepthwiseConv2d) -> Params:
    """Returns the parameters of the 5x5 kernel."""
    return {**depthwise_5x5.layout_params(op, channels_16(op).weights), "numbers": numbers_of(op)}


def params_5x5_16(op: DepthwiseConv2d) -> Params:
    """Returns the parameters of the 5x5 kernel of 16-bit operands."""
    return {**depthwise_5x5_16.layout_params(op), "numbers": numbers_of(op)}


def wide_params(op: DepthwiseConv2d) -> Params:
    """Returns the parameters of the kernels over planes."""
    order = depthwise_planes.WIDE_ORDER if op.widens else (*EVEN, *ODD)
    constants = depthwise_planes.pack_wide(channels_16(op), order, has_shifts=False)
    return {**depthwise_planes.layout_params(op), "constants": constants}


def in_planes(op: DepthwiseConv2d) -> tuple[Verdict, ...]:
    """Checks the conditions of sums over planes."""
    if not op.widens:
        return (depthwise_planes.reaches_image(op),)
    return depthwise_planes.sums_verdicts(op, channels_16(op).weights)


def in_planes_3x3(op: DepthwiseConv2d) -> tuple[Verdict, ...]:
    """Checks the conditions of 3x3 sums over planes."""
    return (*depthwise_planes.is_3x3(op), *in_planes(op))


def strip_kernels(
    types: str,
    verdicts: Callable[[int], Verdicts],
    params: Callable[[Any], Params],
    *strips: str,
    **more: Any,
) -> Iterator[Kernel]:
    """Yields the 3x3 kernels by strips of some types, for either stride."""
    more |= {"scratch_bytes": depthwise_strips.scratch_bytes, "work": depthwise_strips.work}
    for name, stride in (("depthwise_3x3", 1), ("depthwise_3x3_stride2", 2)):
        yield depthwise(name, types, verdicts(stride), params, *strips, **more)


PLANES: dict[str, Any] = {"scratch_bytes": depthwise_planes.scratch_bytes, "overread_bytes": OVERREAD_BYTES}


def plane_kernels(
    types: str, verdicts_3x3: Verdicts, verdicts: Verdicts, params: Callable[[Any], Params], **more: Any
) -> Iterator[Kernel]:
    """Yields the kernels over planes of some types: of 3x3, then of any window."""
    for name, found, work in (
        ("depthwise_3x3_wide", verdicts_3x3, depthwise_planes.work_3x3),
        ("depthwise_any", verdicts, depthwise_planes.work),
    ):
        yield depthwise(name, types, found, params, "wide", work=work, **PLANES, **more)


BY_CHANNELS: dict[str, Any] = {"in_place": in_place_if(has_one_filter)}
BY_PLANES: dict[str, Any] = {"in_place": in_place_if(depthwise_planes.fits_in_place)}
OF_5X5: dict[str, Any] = {"scratch_bytes": depthwise_5x5.scratch_bytes, "work": depthwise_5x5.work}

KERNELS: tuple[Kernel, ...] = (
    *strip_kernels(
        "s8",
        depthwise_strips.verdicts,
        depthwise_strips.params,
        *("strips", "strips_of_bytes"),
        **BY_CHANNELS,
    ),
    depthwise("depthwise_5x5", "s8", depthwise_5x5.verdicts, depthwise_5x5.params, **OF_5X5, **BY_CHANNELS),
    *plane_kernels(
        "s8", depthwise_planes.verdicts_3x3, depthwise_planes.verdicts, depthwise_planes.params, **BY_PLANES
    ),
    depthwise(
        "depthwise_any_left",
        "s8",
        depthwise_planes.left_verdicts,
        depthwise_planes.left_params,
        "wide",
        **PLANES,
        **BY_PLANES,
    ),
    *strip_kernels("s8_s16", in_strips, strip_params, "strips", "strips_of_bytes"),
    *strip_kernels("s16", in_strips, strip_params, "strips_of_halfwords", **BY_CHANNELS),
    depthwise("depthwise_5x5", "s8_s16", depthwise_5x5.shape_verdicts, params_5x5, **OF_5X5),
    depthwise(
        "depthwise_5x5",
        "s16",
        depthwise_5x5_16.verdicts,
        params_5x5_16,
        scratch_bytes=depthwise_5x5_16.plane_bytes,
        work=depthwise_5x5_16.work,
        **BY_CHANNELS,
    ),
    *plane_kernels("s8_s16", in_planes_3x3, in_planes, wide_params),
    *plane_kernels("s16", in_planes_3x3, in_planes, wide_params, **BY_PLANES),
)
