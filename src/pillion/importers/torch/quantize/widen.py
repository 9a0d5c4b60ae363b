# SPDX-License-Identifier: Apache-2.0
"""Which sums have 16 bits. What runs through all blocks of a transformer is one tensor with one scale, and a norm reads each of its rows:
a row that is a hundred times smaller than the largest, as that of a class token may be, has two steps of int8, of which the norm makes
noise as large as all others."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor
from torch.fx import GraphModule, Node

from pillion.importers.torch.loops import BEGINS
from pillion.importers.torch.nodes import aten, single_user
from pillion.importers.torch.quantize.finer import observer_of, widen
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


def noise_of(observer: CountedRange, least: float) -> float:
    """Gives the power of what int8 rounds off a tensor, as a part of the variance of the smallest row."""
    step = (float(observer.max_val.clamp(min=0)) - float(observer.min_val.clamp(max=0))) / 255
    return step**2 / 12 / least if least > 0 else math.inf


def widen_sums(prepared: GraphModule, wishes: Wishes) -> None:
    """Gives 16 bits to sums of which int8 holds too little for the norm behind them: sums that it reads, and sums that these add to. All others read
    them in the 8 bits that they would read. Models with loops over time have none."""
    if Add.kind in wishes.fixed or any(node.target in BEGINS for node in prepared.graph.nodes):
        return
    for total in _too_coarse(prepared):
        widen(prepared, total, _reads_wide)
    prepared.recompile()


def _too_coarse(prepared: GraphModule) -> list[Node]:
    """The sums of which int8 would round off too much of the smallest row that a norm brings to the size of all others."""
    found: dict[Node, None] = {}
    open_ends: list[tuple[Any, float]] = []
    for norm in prepared.graph.find_nodes(op="call_function", target=standardized):
        observer = observer_of(prepared, norm.args[0])
        if isinstance(observer, RangeOfRows) and _reads_wide(norm):
            open_ends.append((norm.args[0], observer.least))
    while open_ends:
        observed, least = open_ends.pop()
        observer, total = observer_of(prepared, observed), _made_by(observed)
        is_sum = isinstance(observer, CountedRange) and _is_sum(total) and single_user(total) is not None
        if is_sum and total not in found and noise_of(observer, least) > MOST_NOISE:
            found[total] = None
            open_ends += [(operand, least) for operand in total.all_input_nodes]
    return list(found)


def _made_by(observed: Node) -> Node:
    """What gives a tensor that may be observed more than once."""
    while observed.op == "call_module":
        observed = observed.all_input_nodes[0]
    return observed


def _is_sum(node: Node) -> bool:
    return node.target is aten.add.Tensor


def _reads_wide(node: Node) -> bool:
    """Whether a call takes operands of 16 bits: a norm of not too many elements, or a sum without bounds."""
    if node.target is standardized:
        dims: Any = node.args[3]
        shape = node.meta["val"].shape
        return math.prod(shape[d] for d in dims) <= MOST_ELEMENTS[DType.INT16]
    return _is_sum(node) and not any(user.target in BOUNDS for user in node.users)
