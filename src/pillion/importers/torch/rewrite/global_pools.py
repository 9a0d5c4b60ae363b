# SPDX-License-Identifier: Apache-2.0
"""Rewrites average pools as means (whole images) and depthwise convolutions (windows), which rescale their results.

An average of many pixels spans much less than a pixel. A pool keeps its operand's scale, which costs 5 to 20 dB
behind `AdaptiveAvgPool2d(1)` and 5 to 8 dB behind windows of 3 x 3 pixels."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import torch
from torch.fx import GraphModule, Node

from pillion.importers.torch import fx_nodes as fx
from pillion.importers.torch.fx_nodes import aten
from pillion.importers.torch.rewrite.decompositions.building_blocks import window_count
from pillion.ir.constraints import QuantizationConstraints
from pillion.ops import AvgPool2d, Mean

IMAGE_AXES = [-2, -1]
MOST_PIXELS = 25
"""The maximum number of pixels in a window that becomes a convolution. On a Cortex-M33, 3 x 3 and 5 x 5 windows take
half the instructions of a pool that way, 4 x 4 windows 2.3 times as many, and 8 x 8 would take 8 times as many."""


def global_pools_to_means(
    module: GraphModule, constraints: QuantizationConstraints, among: Callable[[Node], bool] = lambda _: True
) -> None:
    """Rewrites average pools over the whole image as means, unless the device requires means to keep their
    operand's scale."""
    if Mean.kind in constraints.shared:
        return
    for node in fx.calls(module.graph, [aten.avg_pool2d.default]):
        if _sees_all(node) and among(node):
            fx.replace(node, fx.call(node, aten.mean.dim, node.args[0], IMAGE_AXES, True))
    module.recompile()


def _sees_all(pool: Node) -> bool:
    """Whether the window is the whole image without padding."""
    kernel, _, border = _pool_window(pool)
    covers_image = fx.shape_of(pool.args[0])[-2:] == tuple(kernel)  # type: ignore[arg-type]  # the schema says tensor
    return covers_image and not any(border) and fx.argument_of(pool, 6) is None


def pools_to_depthwise(
    module: GraphModule, constraints: QuantizationConstraints, among: Callable[[Node], bool] = lambda _: True
) -> None:
    """Replaces average pools by depthwise convolutions, unless the device wants pools. All weights are 127: sums stay exact."""
    if AvgPool2d.kind in constraints.shared:
        return
    for node in fx.calls(module.graph, [aten.avg_pool2d.default]):
        kernel, step, border = _pool_window(node)
        if _has_one_divisor(node) and among(node):
            channels = fx.shape_of(node)[1]
            weights = torch.full((channels, 1, *kernel), 1 / prod(kernel))
            weights_node = fx.constant(node, weights, f"{node.name}_weights")
            args = (node.args[0], weights_node, None, step, border, [1, 1], channels)
            fx.replace(node, fx.call(node, aten.conv2d.default, *args))
    module.recompile()


def _pool_window(pool: Node) -> tuple[list[int], list[int], list[int]]:
    """Returns kernel size, stride and padding of a pool."""
    kernel: Any = pool.args[1]
    return (
        fx.per_axis(kernel, 2),
        fx.per_axis(fx.argument_of(pool, 2) or kernel, 2),
        fx.per_axis(fx.argument_of(pool, 3) or 0, 2),
    )


def _has_one_divisor(pool: Node) -> bool:
    """Whether all windows of a pool over images divide by the same number, at most MOST_PIXELS."""
    kernel, step, border = _pool_window(pool)
    *_, height, width = fx.shape_of(pool.args[0])  # type: ignore[arg-type]  # the schema says tensor
    axes = zip((height, width), kernel, step, border, strict=True)
    are_whole = [window_count(*axis) for axis in axes] == list(fx.shape_of(pool)[-2:])
    is_usual = len(fx.shape_of(pool)) == 4 and prod(kernel) <= MOST_PIXELS and fx.argument_of(pool, 6) is None
    return is_usual and are_whole and (fx.named_argument(pool, "count_include_pad") or not any(border))
