# SPDX-License-Identifier: Apache-2.0
"""Average pools over the whole image are means: their results have a range of their own.

An average of many pixels has a much smaller range than a pixel. A pool answers in the steps of its operand, which are too wide for it: behind
`AdaptiveAvgPool2d(1)` 5 to 20 dB are lost. A mean is scaled anyway."""

from __future__ import annotations

from typing import Any

from torch.fx import GraphModule, Node

from pillion.importers.torch.nodes import argument, aten, call, calls, replace, shape_of
from pillion.ir.wishes import Wishes
from pillion.ops import Mean

IMAGE_AXES = [-2, -1]


def scale_pools(module: GraphModule, wishes: Wishes) -> None:
    """Turns average pools whose window is the image into means, unless the device wants means in the steps of their operands."""
    if Mean.kind in wishes.shared:
        return
    for node in calls(module.graph, [aten.avg_pool2d.default]):
        if _sees_all(node):
            replace(node, call(node, aten.mean.dim, node.args[0], IMAGE_AXES, True))
    module.recompile()


def _sees_all(pool: Node) -> bool:
    """Whether the only window is the image, nothing around it."""
    kernel: Any = pool.args[1]
    padding: Any = argument(pool, 3)
    height, width = kernel if len(kernel) == 2 else (kernel[0], kernel[0])
    whole = shape_of(pool.args[0])[-2:] == (height, width)  # type: ignore[arg-type]  # the schema says tensor
    return whole and not any(padding or ()) and argument(pool, 6) is None
