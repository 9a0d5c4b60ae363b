# SPDX-License-Identifier: Apache-2.0
"""The Helium depthwise convolutions of 8-bit operands with 16-bit results."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from pillion.emitters.c.accumulators import Int32Array
from pillion.emitters.c.kernel import Kernel, Params
from pillion.emitters.c.kernel_conditions import short_circuit
from pillion.emitters.c.kernel_library import MVE
from pillion.emitters.c.layers16 import WIDENS, channels_16
from pillion.emitters.c.mve import depthwise_strips
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


def depthwise(
    name: str, verdicts: Verdicts, params: Callable[[Any], Params], *also: str, **more: Any
) -> Kernel:
    """Returns the kernel of depthwise convolutions that widen, with further conditions."""
    routine = MVE.routine(f"{name}_s8_s16", *also)
    requires = (short_circuit(WIDENS, verdicts),)
    return MVE.kernel(DepthwiseConv2d, routine, params, requires=requires, name=f"{name}_8_16", **more)


def in_strips(stride: int) -> Verdicts:
    """Returns the condition that an image lies in strips for a stride."""
    return lambda op: depthwise_strips.shape_verdicts(op, stride)


KERNELS: tuple[Kernel, ...] = tuple(
    depthwise(
        name,
        in_strips(stride),
        strip_params,
        "strips",
        scratch_bytes=depthwise_strips.scratch_bytes,
        work=depthwise_strips.work,
    )
    for name, stride in (("depthwise_3x3", 1), ("depthwise_3x3_stride2", 2))
)
