# SPDX-License-Identifier: Apache-2.0
"""Fix-its: changes to an op that may satisfy a rule, each as a text for the user and the changed op. The
caller judges the changed op. Changed weights have no real data, and so take no memory."""

from __future__ import annotations

from collections.abc import Iterator

from pillion.devices.neutron.fixits import kernel_sizes, number_formats, shapes, upscaling
from pillion.devices.retyped import Fixit, Fixits
from pillion.ir.op import Op

FIXITS: dict[str, tuple[Fixits, ...]] = {
    "dtype": (number_formats.as_int8,),
    "constants": (number_formats.constant,),
    "kernel": (kernel_sizes.kernel,),
    "stride": (kernel_sizes.window("stride"), upscaling.shorter_stride),
    "dilation": (kernel_sizes.window("dilation"), upscaling.no_dilation),
    "dot_product": (kernel_sizes.fewer_channels, upscaling.fewer_channels),
    "groups": (kernel_sizes.one_group,),
    "multiplier": (kernel_sizes.one_filter,),
    "weights": (number_formats.per_tensor,),
    "zero_point": (number_formats.weights_around_zero,),
    "channels": (shapes.softmax_channels,),
    "rows": (shapes.softmax_rows,),
    "elements": (shapes.softmax_rows,),
    "padding": (upscaling.less_padding, kernel_sizes.unpadded),
    "step": (shapes.unit_steps,),
    "parameters": (number_formats.same_parameters,),
    "broadcast": (shapes.repeated,),
    "rank": (shapes.joined_axes,),
    "bounds": (number_formats.hinge_inside,),
    "form": (number_formats.same_scale,),
    "function": (number_formats.other_function,),
    "output": (number_formats.fixed_output,),
    "table": (number_formats.coarser_result,),
    "scale": (number_formats.coarser_result,),
    "factor": (upscaling.nearest_size,),
    "mode": (upscaling.other_mode,),
    "zero_points": (number_formats.symmetric_operands,),
}
"""Name of a rule → fix-its, smallest first."""


def fixits_for(rule: str, op: Op) -> Iterator[Fixit]:
    """Yields the fix-its for one rule; none if only another model would satisfy it."""
    return (fixit for fixits in FIXITS.get(rule, ()) for fixit in fixits(op))
