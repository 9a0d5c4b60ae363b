# SPDX-License-Identifier: Apache-2.0
"""Separates constants from concatenations, such as the class token of a vision transformer.

A concatenation has one scale, and the token may span a single step of it. So zeros, exact in every scale, are
concatenated instead, and the token is added with the positions, whose scale fits it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from pillion.importers.torch import fx_nodes as fx
from pillion.importers.torch.fx_nodes import aten

MOST_STRETCH = 2.0
"""Maximum factor by which the added constant may widen its range."""


def separate_constants(module: GraphModule) -> None:
    """Rewrites `cat([token, x]) + positions` as `cat([0, x]) + (cat([token, 0]) + positions)` if nothing else
    reads the concatenation."""
    for node in fx.calls(module.graph, [aten.cat.default]):
        user = fx.single_user(node)
        if user is None or user.target is not aten.add.Tensor or len(user.args) != 2:
            continue
        operand = user.args[0] if user.args[1] is node else user.args[1]
        added, joined = fx.constant_of(operand), _constant_part(node)
        if added is None or joined is None or fx.shape_of(user) != fx.shape_of(node):
            continue
        total = joined + added.detach()
        if float(total.abs().max()) <= MOST_STRETCH * float(added.abs().max()):
            zeros = _concat_with_zeros(node)
            folded = fx.constant(user, total, f"{node.name}_and_{user.name}")
            fx.replace(user, fx.call(user, aten.add.Tensor, zeros, folded))
            module.graph.erase_node(node)


def _constant_part(cat: Node) -> Tensor | None:
    """Returns the concatenation with zeros for computed operands; None if all or none are constant."""
    operands: Any = cat.args[0]
    tensors = [fx.constant_of(operand) for operand in operands]
    if None not in tensors or not any(isinstance(t, Tensor) and t.is_floating_point() for t in tensors):
        return None
    parts = [torch.zeros(fx.shape_of(n)) if t is None else t for n, t in zip(operands, tensors, strict=True)]
    return torch.cat(parts, fx.argument_of(cat, 1, 0)).detach()


def _concat_with_zeros(cat: Node) -> Node:
    """Returns the concatenation with zeros for constant operands; a pad if one tensor is computed."""
    operands: Any = cat.args[0]
    dim = int(fx.argument_of(cat, 1, 0)) % len(fx.shape_of(cat))
    computed = [n for n in operands if fx.constant_of(n) is None]
    if len(computed) == 1:
        index = operands.index(computed[0])
        before, after = (
            sum(fx.shape_of(n)[dim] for n in part) for part in (operands[:index], operands[index + 1 :])
        )
        sides = [0, 0] * (len(fx.shape_of(cat)) - 1 - dim) + [before, after]
        return fx.call(cat, aten.pad.default, computed[0], sides, "constant", 0.0)
    parts = [
        n if n in computed else fx.constant(cat, torch.zeros(fx.shape_of(n)), f"{n.name}_zeros")
        for n in operands
    ]
    return fx.call(cat, aten.cat.default, parts, dim)
