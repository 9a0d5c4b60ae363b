# SPDX-License-Identifier: Apache-2.0
"""Which sums have 16 bits. What runs through all blocks of a transformer is one tensor with one scale, and a norm reads each of its rows:
a row that is a hundred times smaller than the largest, as that of a class token may be, has two steps of int8, of which the norm makes
noise as large as all others."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from pillion.importers.torch.loops import BEGINS
from pillion.importers.torch.nodes import aten
from pillion.importers.torch.quantize.histogram import CountedRange
from pillion.importers.torch.quantize.sharing import Norm
from pillion.importers.torch.rewrite.standardized import standardized
from pillion.ir.types import DType
from pillion.ir.wishes import Wishes
from pillion.ops import Add
from pillion.ops.standardize import MOST_ELEMENTS

MOST_NOISE = 2e-4
"""The power of what int8 rounds off, as a part of a row's variance, beyond which a sum has 16 bits: 37 dB."""
BOUNDS = (aten.relu.default, aten.clamp.default)


class RangeOfRows(CountedRange):
    """An observer of what a norm reads: of its range, and of the least variance of a row."""

    def __init__(self, *args: Any, norm: Norm, **options: Any) -> None:
        super().__init__(*args, **options)
        self.norm = norm
        self.least = math.inf

    def forward(self, x_orig: Tensor) -> Tensor:
        """Looks at the rows, and gives the tensor back as it is."""
        rows = x_orig.detach().double().flatten(-self.norm.axes)
        if rows.numel():
            centred = rows - rows.mean(-1, keepdim=True) if self.norm.centred else rows
            self.least = min(self.least, float(centred.square().mean(-1).min()) + self.norm.eps)
        return super().forward(x_orig)

    @property
    def noise(self) -> float:
        """The power of what int8 rounds off, as a part of the variance of the smallest row."""
        step = (float(self.max_val.clamp(min=0)) - float(self.min_val.clamp(max=0))) / 255
        return step**2 / 12 / self.least if self.least > 0 else math.inf


def widen_sums(prepared: GraphModule, wishes: Wishes) -> None:
    """Gives 16 bits to sums of which int8 holds too little for the norm behind it, where only sums and norms read them. Models with loops
    over time have none."""
    if Add.kind in wishes.fixed or any(node.target in BEGINS for node in prepared.graph.nodes):
        return
    observed: dict[RangeOfRows, list[Node]] = {}
    for node in prepared.graph.find_nodes(op="call_module"):
        observer = prepared.get_submodule(str(node.target))
        if isinstance(observer, RangeOfRows):
            observed.setdefault(observer, []).append(node)
    for observer, nodes in observed.items():
        if observer.noise > MOST_NOISE and _can_be_wide(nodes):
            bounds = DType.INT16.bounds
            observer.dtype, (observer.quant_min, observer.quant_max) = torch.int16, bounds


def _can_be_wide(nodes: list[Node]) -> bool:
    readers = [user for node in nodes for user in node.users if user not in nodes]
    sources: set[Any] = {node.args[0] for node in nodes} - {*nodes}
    return all(_is_sum(source) for source in sources) and all(_reads_wide(reader) for reader in readers)


def _is_sum(node: Node) -> bool:
    return node.target is aten.add.Tensor


def _reads_wide(node: Node) -> bool:
    """Whether a call takes operands of 16 bits: a norm of not too many elements, or a sum without bounds."""
    if node.target is standardized:
        dims: Any = node.args[3]
        shape = node.meta["val"].shape
        return math.prod(shape[d] for d in dims) <= MOST_ELEMENTS[DType.INT16]
    return _is_sum(node) and not any(user.target in BOUNDS for user in node.users)
