# SPDX-License-Identifier: Apache-2.0
"""Fix-its: changes to an op that may satisfy a rule, each as a text for the user and the changed op. The
caller judges the changed op. Changed weights have no real data, and so take no memory."""

from __future__ import annotations

from collections.abc import Iterator

from pillion.devices.neutron.fixits import kernel_sizes, number_formats, shapes, upscaling
from pillion.devices.op_groups import CONVOLUTIONS, RESIZES
from pillion.devices.retyped import Fixit, Fixits
from pillion.ir.op import Op
from pillion.ops import BatchMatmul, Clamp, Conv2d, DepthwiseConv2d, Linear, Lut, Slice, Softmax
from pillion.ops.conv import Convolution
from pillion.ops.layer import Layer
from pillion.ops.pool import Pool
from pillion.ops.transpose_conv import TransposeConv2d

FIXITS: tuple[tuple[str, type[Op] | tuple[type[Op], ...], Fixits], ...] = (
    ("dtype", Op, number_formats.suggest_int8),
    ("constants", Layer, number_formats.suggest_constant_weights),
    ("kernel", Op, kernel_sizes.limit_window_field("kernel")),
    ("kernel", Convolution, kernel_sizes.suggest_smaller_kernel),
    ("stride", Op, kernel_sizes.limit_window_field("stride")),
    ("stride", TransposeConv2d, upscaling.suggest_shorter_stride),
    ("dilation", Op, kernel_sizes.limit_window_field("dilation")),
    ("dilation", TransposeConv2d, upscaling.suggest_no_dilation),
    ("dot_product", CONVOLUTIONS, kernel_sizes.suggest_fewer_channels),
    ("dot_product", TransposeConv2d, upscaling.suggest_fewer_channels),
    ("groups", Conv2d, kernel_sizes.suggest_single_group),
    ("multiplier", DepthwiseConv2d, kernel_sizes.suggest_no_depth_multiplier),
    ("weights", Linear, number_formats.suggest_per_tensor_weights),
    ("zero_point", Layer, number_formats.suggest_symmetric_weights),
    ("channels", Softmax, shapes.suggest_fewer_softmax_channels),
    ("rows", Softmax, shapes.suggest_fewer_softmax_rows),
    ("elements", Softmax, shapes.suggest_fewer_softmax_rows),
    ("padding", TransposeConv2d, upscaling.suggest_less_padding),
    ("padding", (Convolution, Pool), kernel_sizes.suggest_no_padding),
    ("step", Slice, shapes.suggest_unit_steps),
    ("parameters", Op, number_formats.suggest_same_quantization),
    ("broadcast", Op, shapes.suggest_expanded_operand),
    ("rank", Op, shapes.suggest_fewer_axes),
    ("bounds", Clamp, number_formats.suggest_bound_inside_range),
    ("form", Clamp, number_formats.suggest_unchanged_scale),
    ("function", Lut, number_formats.suggest_similar_function),
    ("output", (Lut, Softmax), number_formats.suggest_fixed_output_scale),
    ("table", Op, number_formats.suggest_coarser_result_scale),
    ("scale", Op, number_formats.suggest_coarser_result_scale),
    ("factor", RESIZES, upscaling.suggest_nearest_size),
    ("mode", RESIZES, upscaling.suggest_other_alignment),
    ("zero_points", BatchMatmul, number_formats.suggest_symmetric_operands),
)
"""Name of a rule, kinds of ops, and a fix-it; the smallest change first."""


def fixits_for(rule: str, op: Op) -> Iterator[Fixit]:
    """Yields the fix-its for one rule; none if only another model would satisfy it."""
    for name, kinds, fixits in FIXITS:
        if name == rule and isinstance(op, kinds):
            yield from fixits(op)
