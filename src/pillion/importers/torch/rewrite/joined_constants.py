# SPDX-License-Identifier: Apache-2.0
"""Constants that are joined with a computed tensor, as the class token of a vision transformer is, and to which constants are added behind that.

What is joined has one scale: that of a patch, of which a class token may be a single step. So zeros are joined instead, which every scale
holds, and the token is added with the positions, whose scale is about its own."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from pillion.importers.torch.nodes import (
    argument,
    aten,
    call,
    calls,
    constant,
    constant_of,
    replace,
    shape_of,
    single_user,
)

MOST_STRETCH = 2.0
"""How much wider what is added may become: its own steps become wider with it."""


def add_joined_constants(module: GraphModule) -> None:
    """Rewrites `cat([token, x]) + positions` as `cat([0, x]) + (cat([token, 0]) + positions)`, where nothing else reads what is joined."""
    for node in calls(module.graph, [aten.cat.default]):
        user = single_user(node)
        if user is None or user.target is not aten.add.Tensor or len(user.args) != 2:
            continue
        other = user.args[0] if user.args[1] is node else user.args[1]
        added, joined = _held(other), _constant_part(node)
        if added is None or joined is None or shape_of(user) != shape_of(node):
            continue
        total = joined + added
        if float(total.abs().max()) <= MOST_STRETCH * float(added.abs().max()):
            zeros = _of_zeros(module, node)
            made = constant(module, user, total, f"{node.name}_and_{user.name}")
            replace(user, call(user, aten.add.Tensor, zeros, made))
            module.graph.erase_node(node)


def _held(operand: Any) -> Tensor | None:
    held = constant_of(operand)
    return held if held is None else held.detach()


def _constant_part(cat: Node) -> Tensor | None:
    """What is joined, with zeros where it is computed; None where all of it is, or nothing."""
    operands: Any = cat.args[0]
    held = [_held(operand) for operand in operands]
    if None not in held or not any(isinstance(t, Tensor) and t.is_floating_point() for t in held):
        return None
    parts = [torch.zeros(shape_of(n)) if t is None else t for n, t in zip(operands, held, strict=True)]
    return torch.cat(parts, argument(cat, 1, 0))


def _of_zeros(module: GraphModule, cat: Node) -> Node:
    """The same with zeros in the place of constants: a pad, where one tensor is computed."""
    operands: Any = cat.args[0]
    dim = int(argument(cat, 1, 0)) % len(shape_of(cat))
    computed = [n for n in operands if constant_of(n) is None]
    if len(computed) == 1:
        place = operands.index(computed[0])
        before, after = (
            sum(shape_of(n)[dim] for n in part) for part in (operands[:place], operands[place + 1 :])
        )
        sides = [0, 0] * (len(shape_of(cat)) - 1 - dim) + [before, after]
        return call(cat, aten.pad.default, computed[0], sides, "constant", 0.0)
    parts = [
        n if n in computed else constant(module, cat, torch.zeros(shape_of(n)), f"{n.name}_zeros")
        for n in operands
    ]
    return call(cat, aten.cat.default, parts, dim)
