# SPDX-License-Identifier: Apache-2.0
"""Functions of the sum of two squares, each as a call of `magnitude`: power, magnitude and decibels of a spectrum, lengths of gradients. One op then
computes all of it in 32 bits; squares in int8 would have lost what a logarithm makes large again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

from pillion.importers.torch.expression import RESULT, Step, expression, magnitude, name_of, result
from pillion.importers.torch.nodes import (
    aten,
    call,
    calls,
    constant_of,
    is_tensor,
    replace,
    shape_of,
    single_user,
)
from pillion.importers.torch.rows.quantization import RULES
from pillion.ir.wishes import Wishes
from pillion.ops import Add, Clamp, Lut

LEAST, MOST, POINTS = -18.0, 18.0, 2001
"""Powers of ten, and numbers between them, at which it is looked whether a function ever turns."""


def use_magnitudes(module: GraphModule, wishes: Wishes) -> None:
    """Writes sums of two squares, and functions of them that never turn, as calls of `magnitude`; devices that have products and functions
    by name keep these."""
    if wishes.functions_by_name or Add.kind in wishes.fixed:
        return
    for total in calls(module.graph, [aten.add.Tensor]):
        parts = _parts(total)
        if parts is not None:
            end, steps = _behind(total)
            replace(end, call(end, magnitude, *parts, steps))
    module.graph.eliminate_dead_code()


def _parts(total: Node) -> tuple[Node, Node] | None:
    """What is squared, if this is the sum of two squares of one shape that nobody else reads."""
    found = [_squared(operand, total) for operand in total.args[:2]]
    if total.kwargs or len(total.args) != 2 or None in found or total.args[0] is total.args[1]:
        return None
    a, b = found
    is_one = is_tensor(total) and shape_of(a) == shape_of(b) == shape_of(total)  # type: ignore[arg-type]  # nodes
    return (a, b) if is_one else None  # type: ignore[return-value]  # nodes


def _squared(node: Any, total: Node) -> Node | None:
    """The tensor that a call squares for a sum."""
    if not isinstance(node, Node) or single_user(node) is not total:
        return None
    if node.target is aten.square.default or (
        node.target is aten.pow.Tensor_Scalar and float(node.args[1]) == 2  # type: ignore[arg-type]  # a number
    ):
        of: Any = node.args[0]
    elif node.target is aten.mul.Tensor and node.args[0] is node.args[1]:
        of = node.args[0]
    else:
        return None
    return of if is_tensor(of) and constant_of(of) is None else None


def _behind(total: Node) -> tuple[Node, tuple[Step, ...]]:
    """The last call of what is computed of a sum alone, by functions that never turn, and its steps: a bound, a function, or one behind the other."""
    end: Node = total
    steps: tuple[Step, ...] = ()
    for kinds in (Clamp.kind, Lut.kind):
        user = single_user(end)
        rule = RULES.get(user.target) if user is not None else None
        if (
            user is None
            or rule is None
            or rule.kind != kinds
            or user.args[0] is not end
            or not is_tensor(user)
        ):
            continue
        more = (*steps, *_steps(user, len(steps)))
        if never_turns(more):
            end, steps = user, more
    return end, steps


def _steps(function: Node, before: int) -> tuple[Step, ...]:
    """A call of a function as a part of an expression, behind so many steps."""
    if function.target is not expression:
        named = tuple((key, held) for key, held in function.kwargs.items())
        return ((name_of(function.target), (result(before), *function.args[1:]), named),)
    steps: Any = function.args[1]
    return tuple(
        (name, tuple(_moved(argument, before) for argument in args), named) for name, args, named in steps
    )


def _moved(argument: Any, by: int) -> Any:
    """An argument of a step, behind so many others."""
    match argument:
        case (str(kind), int(step)) if kind == RESULT:
            return result(step + by)
    return argument


def never_turns(steps: Sequence[Step]) -> bool:
    """Whether an expression of numbers from 0 on never falls, or never rises."""
    grid = torch.logspace(LEAST, MOST, POINTS, dtype=torch.float64)
    x = torch.cat([torch.zeros(1, dtype=torch.float64), grid])
    y = expression(x, tuple(steps))
    if bool(torch.isnan(y).any()):
        return False
    before, behind = y[:-1], y[1:]
    return bool((behind >= before).all()) or bool((behind <= before).all())
