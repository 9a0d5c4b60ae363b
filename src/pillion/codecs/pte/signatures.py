# SPDX-License-Identifier: Apache-2.0
"""The arguments of each operator in order, and the ranges of integer arguments by name. Integers outside of a range
are refused: kernels store them in narrower types, and clamp or wrap them in various ways."""

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
SHIFTED = ArgumentRange("a zero point, which a function may move by some steps", -(2**15) + 1, 2**15 - 1)
_OFFSET = ArgumentRange("minus a zero point of int8", -127, 128)
_MULTIPLIER = ArgumentRange("a multiplier of 32 bits", -(2**31), 2**31 - 1)
_SHIFT = ArgumentRange("a shift of 32 bits", -31, 30)
_STEP = ArgumentRange("a stride, a dilation or the size of a window", 1, 2**16 - 1)
_SIDE = ArgumentRange("a padding", 0, 2**16 - 1)
_ALONG = ArgumentRange("a padding of an axis", 0, 2**31 - 1)
_AXIS = ArgumentRange("an axis of at most 8", -8, 7)
_SIZE = ArgumentRange("a size, or -1 for what follows", -1, 2**31 - 1)
POSITION = ArgumentRange(
    "a position, counted from the end where negative, inside or outside", -(2**63), 2**63 - 1
)
STRIDE = ArgumentRange("a step", 1, 2**63 - 1)

RANGES: Mapping[str, ArgumentRange] = {
    **dict.fromkeys(("zero", "x_zero", "a_zero", "b_zero", "y_zero", "low", "high", "value"), LEVEL),
    **dict.fromkeys(("a_shifted_zero", "b_shifted_zero"), SHIFTED),
    **dict.fromkeys(("x_offset", "a_offset", "b_offset"), _OFFSET),
    **dict.fromkeys(("multiplier", "a_multiplier", "b_multiplier", "y_multiplier"), _MULTIPLIER),
    **dict.fromkeys(("shift", "a_shift", "b_shift", "y_shift"), _SHIFT),
    **dict.fromkeys(("kernel", "stride", "dilation"), _STEP),
    **dict.fromkeys(("padding", "output_padding"), _SIDE),
    **dict.fromkeys(("before", "after", "sides"), _ALONG),
    **dict.fromkeys(("axis", "other_axis", "axes", "order"), _AXIS),
    **dict.fromkeys(("index", "begin", "end"), POSITION),
    "least": ArgumentRange("the smallest difference of a softmax", -(2**31), 0),
    "dtype": ArgumentRange("an element type", 0, 127),
    "sizes": _SIZE,
    "step": STRIDE,
    "memory_format": ArgumentRange("a memory format", 0, 3),
    "weights_offset": ArgumentRange("none", 0, 0),
    "channel_multiplier": ArgumentRange("a count of channels", 1, 2**31 - 1),
}
"""The range of each argument of integers; arguments without one are tensors, real numbers and booleans."""

_NHWC = ("conv2d", "depthwise_conv2d", "transpose_conv2d", "avg_pool2d", "max_pool2d")
_SUMS = "x_offset y_zero multipliers shifts low high"
_BY_DIM_ORDER: Mapping[str, str] = {
    "cortex_m::quantize_per_tensor.out": "x scale zero low high dtype",
    "cortex_m::dequantize_per_tensor.out": "x scale zero low high dtype",
    "cortex_m::quantized_add.out": (
        "a a_zero a_multiplier a_shift b b_zero b_multiplier b_shift y_zero y_multiplier y_shift low high"
    ),
    "cortex_m::quantized_mul.out": "a a_shifted_zero b b_shifted_zero y_zero multiplier shift",
    "cortex_m::quantized_div.out": "a a_zero b b_zero y_zero ratio",
    "cortex_m::quantized_activation.out": "x table",
    "cortex_m::minimum.out": "a b",
    "cortex_m::maximum.out": "a b",
    "aten::clamp.out": "x low high",
    "aten::hardtanh.out": "x least_real most_real",
    "aten::relu.out": "x",
    "cortex_m::quantized_conv2d.out": f"x weights bias stride padding dilation {_SUMS} scratch",
    "cortex_m::quantized_depthwise_conv2d.out": (
        f"x weights bias stride padding dilation channel_multiplier {_SUMS} scratch"
    ),
    "cortex_m::quantized_transpose_conv2d.out": (
        f"x weights bias stride padding output_padding dilation {_SUMS} scratch more_scratch"
    ),
    "cortex_m::quantized_linear.out": (
        "x weights bias kernel_sum x_offset weights_offset y_zero multiplier shift high low"
    ),
    "cortex_m::quantized_batch_matmul.out": "a a_offset b b_offset y_zero multiplier shift scratch",
    "cortex_m::quantized_avg_pool2d.out": "x kernel stride padding [ceil_mode] zero multiplier shift scratch",
    "cortex_m::quantized_max_pool2d.out": (
        "x kernel stride padding dilation ceil_mode x_zero y_zero low high"
    ),
    "cortex_m::softmax.out": "x axis x_zero y_zero multiplier shift least",
    "cortex_m::transpose.out": "x order",
    "cortex_m::pad.out": "x before after value",
    "aten::permute_copy.out": "x order",
    "aten::transpose_copy.int_out": "x axis other_axis",
    "aten::constant_pad_nd.out": "x sides value",
    "aten::cat.out": "xs axis",
    "aten::slice_copy.Tensor_out": "x axis begin end step",
    "aten::select_copy.int_out": "x axis index",
    "aten::expand_copy.out": "x sizes implicit",
    "aten::view_copy.out": "x sizes",
    "aten::clone.out": "x memory_format",
    "aten::squeeze_copy.dims_out": "x axes",
    "aten::unsqueeze_copy.out": "x axis",
    "dim_order_ops::_clone_dim_order.out": "x non_blocking order",
    "dim_order_ops::_to_dim_order_copy.out": "x non_blocking order",
}
EXPLICIT_LAYOUT: Mapping[str, str] = {
    f"cortex_m::quantized_{name}_nhwc.out": f"cortex_m::quantized_{name}.out" for name in _NHWC
}
"""The operators of ExecuTorch 1.5 on images with sizes [n, h, w, c], and the equivalent other operators."""
SIGNATURES: Mapping[str, str] = {
    **_BY_DIM_ORDER,
    **{name: _BY_DIM_ORDER[same] for name, same in EXPLICIT_LAYOUT.items()},
}
"""The names of each operator's arguments, by name and overload. One in brackets exists since ExecuTorch 1.5."""


def argument_names(operator: str, count: int) -> list[str]:
    """Returns the names of a call's arguments; `count` decides whether an argument of ExecuTorch 1.5 is among them."""
    names = SIGNATURES[operator].split()
    return [name.strip("[]") for name in names if count >= len(names) or not name.startswith("[")]
