# SPDX-License-Identifier: Apache-2.0
"""Changes to ops that may satisfy a rule of the NPU: words for the user, and the changed op. Whether they do is judged
elsewhere; data of changed weights does not matter, so it takes no memory."""

from __future__ import annotations

from collections.abc import Iterator

from pillion.devices.neutron.changes import numbers, shapes, upscaling, windows
from pillion.devices.retyped import Change, Changes
from pillion.ir.op import Op

CHANGES: dict[str, tuple[Changes, ...]] = {
    "dtype": (numbers.as_int8,),
    "constants": (numbers.constant,),
    "kernel": (windows.kernel,),
    "stride": (windows.window("stride"), upscaling.shorter_stride),
    "dilation": (windows.window("dilation"), upscaling.no_dilation),
    "dot_product": (windows.fewer_channels, upscaling.fewer_channels),
    "groups": (windows.one_group,),
    "multiplier": (windows.one_filter,),
    "weights": (numbers.per_tensor,),
    "zero_point": (numbers.weights_around_zero,),
    "channels": (shapes.softmax_channels,),
    "rows": (shapes.softmax_rows,),
    "elements": (shapes.softmax_rows,),
    "padding": (upscaling.less_padding, windows.unpadded),
    "step": (shapes.unit_steps,),
    "parameters": (numbers.same_parameters,),
    "broadcast": (shapes.repeated,),
    "rank": (shapes.joined_axes,),
    "bounds": (numbers.hinge_inside,),
    "form": (numbers.same_scale,),
    "function": (numbers.other_function,),
    "output": (numbers.fixed_output,),
    "table": (numbers.coarser_result,),
    "scale": (numbers.coarser_result,),
    "factor": (upscaling.nearest_size,),
    "mode": (upscaling.other_mode,),
    "zero_points": (numbers.symmetric_operands,),
}
"""Name of a rule → changes that might satisfy it, smallest first."""


def changes_for(rule: str, op: Op) -> Iterator[Change]:
    """Gives what might satisfy one rule; nothing where only another model would."""
    return (change for changes in CHANGES.get(rule, ()) for change in changes(op))
