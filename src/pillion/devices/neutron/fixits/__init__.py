# SPDX-License-Identifier: Apache-2.0
"""Fix-its: changes to an op that may satisfy a rule, each as a text for the user and the changed op. The
caller judges the changed op. Changed weights have no real data, and so take no memory."""

from __future__ import annotations

from collections.abc import Iterator

from pillion.devices.neutron.fixits import kernel_sizes, number_formats, shapes, upscaling
from pillion.devices.retyped import Fixit, Fixits
from pillion.ir.op import Op

FIXITS: dict[str, tuple[Fixits, ...]] = {
    "dtype": (number_formats.suggest_int8,),
    "constants": (number_formats.suggest_constant_weights,),
    "kernel": (kernel_sizes.kernel,),
    "stride": (kernel_sizes.limit_window_field("stride"), upscaling.suggest_shorter_stride),
    "dilation": (kernel_sizes.limit_window_field("dilation"), upscaling.suggest_no_dilation),
    "dot_product": (kernel_sizes.suggest_fewer_channels, upscaling.suggest_fewer_channels),
    "groups": (kernel_sizes.suggest_one_group,),
    "multiplier": (kernel_sizes.suggest_no_depth_multiplier,),
    "weights": (number_formats.suggest_per_tensor_weights,),
    "zero_point": (number_formats.suggest_symmetric_weights,),
    "channels": (shapes.suggest_fewer_softmax_channels,),
    "rows": (shapes.suggest_fewer_softmax_rows,),
    "elements": (shapes.suggest_fewer_softmax_rows,),
    "padding": (upscaling.suggest_less_padding, kernel_sizes.suggest_no_padding),
    "step": (shapes.suggest_unit_steps,),
    "parameters": (number_formats.suggest_same_quantization,),
    "broadcast": (shapes.suggest_expanded_operand,),
    "rank": (shapes.suggest_fewer_axes,),
    "bounds": (number_formats.suggest_bound_inside_range,),
    "form": (number_formats.suggest_unchanged_scale,),
    "function": (number_formats.suggest_similar_function,),
    "output": (number_formats.suggest_fixed_output_scale,),
    "table": (number_formats.suggest_coarser_result_scale,),
    "scale": (number_formats.suggest_coarser_result_scale,),
    "factor": (upscaling.suggest_nearest_size,),
    "mode": (upscaling.suggest_other_alignment,),
    "zero_points": (number_formats.suggest_symmetric_operands,),
}
"""Name of a rule → fix-its, smallest first."""


def fixits_for(rule: str, op: Op) -> Iterator[Fixit]:
    """Yields the fix-its for one rule; none if only another model would satisfy it."""
    return (fixit for fixits in FIXITS.get(rule, ()) for fixit in fixits(op))
