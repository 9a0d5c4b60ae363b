# SPDX-License-Identifier: Apache-2.0
"""The range of each kernel's integer arguments, by position (from the end if negative). Programs outside
these ranges are refused: kernels store these numbers in narrower types, and clamp or wrap them in various
ways."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class ArgumentRange:
    """The meaning of an argument and its range."""

    means: str
    low: int
    high: int

    def takes(self, number: int) -> bool:
        """Whether a number is in the range."""
        return self.low <= number <= self.high


LEVEL = ArgumentRange("a zero point or a bound of int8", -128, 127)
OFFSET = ArgumentRange("minus a zero point of int8", -127, 128)
SHIFTED = ArgumentRange("a zero point, which a function may move by some steps", -(2**15) + 1, 2**15 - 1)
MULTIPLIER = ArgumentRange("a multiplier of 32 bits", -(2**31), 2**31 - 1)
SHIFT = ArgumentRange("a shift of 32 bits", -31, 30)
DIFFERENCE = ArgumentRange("the smallest difference of a softmax", -(2**31), 0)
DTYPE = ArgumentRange("an element type", 0, 127)
STEP = ArgumentRange("a stride, a dilation or the size of a window", 1, 2**16 - 1)
SIDE = ArgumentRange("a padding", 0, 2**16 - 1)
ALONG = ArgumentRange("a padding of an axis", 0, 2**31 - 1)
AXIS = ArgumentRange("an axis of at most 8", -8, 7)
SIZE = ArgumentRange("a size, or -1 for what follows", -1, 2**31 - 1)
WAY = ArgumentRange("a memory format", 0, 3)
NONE = ArgumentRange("none", 0, 0)
COUNT = ArgumentRange("a count of channels", 1, 2**31 - 1)
POSITION = ArgumentRange(
    "a position, counted from the end where negative, inside or outside", -(2**63), 2**63 - 1
)
STRIDE = ArgumentRange("a step", 1, 2**63 - 1)

Fields = Mapping[int, ArgumentRange]

_BORDER: Fields = {2: LEVEL, 3: LEVEL, 4: LEVEL, 5: DTYPE}
_WINDOW: Fields = {3: STEP, 4: SIDE}


def _weighted_op_ranges(first: int) -> Fields:
    """Returns the ranges of offsets and bounds, with two tensors between them."""
    return {first: OFFSET, first + 1: LEVEL, first + 4: LEVEL, first + 5: LEVEL}


FIELDS: Mapping[str, Fields] = {
    "cortex_m::quantize_per_tensor.out": _BORDER,
    "cortex_m::dequantize_per_tensor.out": _BORDER,
    "cortex_m::quantized_add.out": {
        **{1: LEVEL, 2: MULTIPLIER, 3: SHIFT, 5: LEVEL, 6: MULTIPLIER, 7: SHIFT},
        **{8: LEVEL, 9: MULTIPLIER, 10: SHIFT, 11: LEVEL, 12: LEVEL},
    },
    "cortex_m::quantized_mul.out": {1: SHIFTED, 3: SHIFTED, 4: LEVEL, 5: MULTIPLIER, 6: SHIFT},
    "cortex_m::quantized_activation.out": {},
    "cortex_m::minimum.out": {},
    "cortex_m::maximum.out": {},
    "aten::clamp.out": {1: LEVEL, 2: LEVEL},
    "aten::hardtanh.out": {},
    "aten::relu.out": {},
    "cortex_m::quantized_conv2d.out": {**_WINDOW, 5: STEP, **_weighted_op_ranges(6)},
    "cortex_m::quantized_depthwise_conv2d.out": {**_WINDOW, 5: STEP, 6: COUNT, **_weighted_op_ranges(7)},
    "cortex_m::quantized_transpose_conv2d.out": {**_WINDOW, 5: SIDE, 6: STEP, **_weighted_op_ranges(7)},
    "cortex_m::quantized_linear.out": {
        **{4: OFFSET, 5: NONE, 6: LEVEL, 7: MULTIPLIER, 8: SHIFT, 9: LEVEL, 10: LEVEL},
    },
    "cortex_m::quantized_batch_matmul.out": {1: OFFSET, 3: OFFSET, 4: LEVEL, 5: MULTIPLIER, 6: SHIFT},
    "cortex_m::quantized_avg_pool2d.out": {
        **{1: STEP, 2: STEP, 3: SIDE, -4: LEVEL, -3: MULTIPLIER, -2: SHIFT},
    },
    "cortex_m::quantized_max_pool2d.out": {
        **{1: STEP, 2: STEP, 3: SIDE, 4: STEP, 6: LEVEL, 7: LEVEL, 8: LEVEL, 9: LEVEL},
    },
    "cortex_m::softmax.out": {1: AXIS, 2: LEVEL, 3: LEVEL, 4: MULTIPLIER, 5: SHIFT, 6: DIFFERENCE},
    "cortex_m::transpose.out": {1: AXIS},
    "cortex_m::pad.out": {1: ALONG, 2: ALONG, 3: LEVEL},
    "aten::permute_copy.out": {1: AXIS},
    "aten::transpose_copy.int_out": {1: AXIS, 2: AXIS},
    "aten::constant_pad_nd.out": {1: ALONG, 2: LEVEL},
    "aten::cat.out": {1: AXIS},
    "aten::slice_copy.Tensor_out": {1: AXIS, 2: POSITION, 3: POSITION, 4: STRIDE},
    "aten::select_copy.int_out": {1: AXIS, 2: POSITION},
    "aten::expand_copy.out": {1: SIZE},
    "aten::view_copy.out": {1: SIZE},
    "aten::clone.out": {1: WAY},
    "aten::squeeze_copy.dims_out": {1: AXIS},
    "aten::unsqueeze_copy.out": {1: AXIS},
    "dim_order_ops::_clone_dim_order.out": {2: AXIS},
    "dim_order_ops::_to_dim_order_copy.out": {2: AXIS},
}
"""The ranges of each operator, by name and overload."""
