# SPDX-License-Identifier: Apache-2.0
"""Checks the sizes of an exported program's tensors before anything computes them."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.fx import Node

from pillion.errors import PillionError
from pillion.ir.size_limits import LARGEST

aten = torch.ops.aten
FLOAT_BYTES = 4
"""Bytes per element during calibration."""
PADDED = {
    **dict.fromkeys((aten.conv1d.default, aten.conv2d.default), 4),
    **dict.fromkeys((aten.max_pool1d.default, aten.max_pool2d.default, aten.avg_pool2d.default), 3),
    **dict.fromkeys((aten.conv_transpose1d.default, aten.conv_transpose2d.input), 4),
}
"""Position of the padding argument of windowed operators."""


def check_tensors(exported: ExportedProgram) -> None:
    """Raises if a tensor, or a padded image, exceeds the bytes that a chip can address."""
    for node in exported.graph.nodes:
        shapes = [tensor.shape for tensor in _collect_tensors(node.meta.get("val"))]
        for shape in (*shapes, *_padded_input_shapes(node)):
            if all(isinstance(size, int) for size in shape) and FLOAT_BYTES * math.prod(shape) > LARGEST:
                stack = str(node.meta.get("stack_trace") or "").strip().splitlines()
                raise PillionError(
                    f"a tensor of `{node.name}` is larger than any memory of a microcontroller",
                    rule=f"a tensor has at most {LARGEST} bytes as float32, with its padding",
                    here=f"{list(shape)}  ({stack[-1].strip() if stack else node.target})",
                    help="smaller images, batches, paddings or scale factors",
                )


def _collect_tensors(value: object) -> list[Tensor]:
    if isinstance(value, (list, tuple)):
        return [item for item in value if isinstance(item, Tensor)]
    return [value] if isinstance(value, Tensor) else []


def _padded_input_shapes(node: Node) -> list[tuple[int, ...]]:
    """Returns the shape of a windowed operator's padded input; empty for other operators."""
    position = PADDED.get(node.target)  # type: ignore[call-overload]  # targets are functions, too
    if position is None or len(node.args) <= position or not isinstance(node.args[0], Node):
        return []
    shape, padding = node.args[0].meta["val"].shape, node.args[position]
    if not isinstance(padding, (list, tuple)) or not all(isinstance(p, int) for p in padding):
        return []
    sides = list(padding) * (len(shape) - 2 if len(padding) == 1 else 1)
    around = zip(shape[len(shape) - len(sides) :], sides, strict=True)
    return [(*shape[: len(shape) - len(sides)], *(size + 2 * side for size, side in around))]
