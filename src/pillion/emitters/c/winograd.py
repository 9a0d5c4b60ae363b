# SPDX-License-Identifier: Apache-2.0
"""The conditions and sizes that the kernels of Winograd's 3x3 convolutions share."""

from __future__ import annotations

from collections.abc import Callable

from pillion.emitters.c.kernel_conditions import Condition, field_equals, is_within, multiple_of
from pillion.ir.verdict import Verdict
from pillion.ops.conv import Conv2d

PLACES = 16
"""Products of an input for 2x2 results."""


def plain_3x3(op: Conv2d) -> Verdict:
    """Checks whether a convolution has the kernels' window."""
    got = f"{op.kernel}, stride {op.stride}, dilation {op.dilation}"
    plain = (op.kernel, op.stride, op.dilation) == ((3, 3), (1, 1), (1, 1))
    return Verdict("window", plain, "3x3, stride 1, no dilation", got)


def conditions(
    inputs: int, outputs: int, growth: Callable[[Conv2d], int], most: int, *exact: Condition[Conv2d]
) -> tuple[Condition[Conv2d], ...]:
    """Returns the conditions of a kernel: multiples of channels, results are exact, and weights grow at most so many bytes."""
    return (
        *(plain_3x3, field_equals("groups", 1)),
        *(multiple_of("in_channels", inputs), multiple_of("out_channels", outputs)),
        *exact,
        lambda op: is_within("further flash", growth(op), most=most, unit="bytes"),
    )


def tile_count(op: Conv2d) -> int:
    """Returns the number of tiles of 2x2 results."""
    batch, height, width, _ = op.y.shape
    return batch * (-(-height // 2)) * (-(-width // 2))


def weight_growth_bytes(op: Conv2d) -> int:
    """Returns the growth of the weights in bytes: 16 positions of 16 bits instead of nine bytes."""
    return (2 * PLACES - 9) * op.in_channels * op.out_channels
