# SPDX-License-Identifier: Apache-2.0
"""Fuses functions of a sum of two squares into `magnitude`: power, magnitude and decibels of spectra, lengths of
gradients. One op computes them in 32 bits; int8 squares would lose what a logarithm amplifies."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.fx import GraphModule, Node

from pillion.importers.torch import fx_nodes as fx
from pillion.importers.torch.fx_nodes import aten
from pillion.importers.torch.rewrite.norm_calls import squared_operand
from pillion.importers.torch.rows.quantization import RULES
from pillion.importers.torch.scalar_function import (
    Step,
    evaluate_on_squares,
    evaluate_steps,
    name_of,
    step_reference,
)
from pillion.ir.constraints import QuantizationConstraints
from pillion.ops import Add, Clamp, Lut

LEAST, MOST, POINTS = -18.0, 18.0, 2001
"""Decimal exponents and number of the points at which a function is checked for monotonicity."""


def fuse_magnitudes(module: GraphModule, constraints: QuantizationConstraints) -> None:
    """Fuses sums of two squares and monotonic functions of them, unless the device has named functions."""
    if constraints.functions_by_name or Add.kind in constraints.fixed:
        return
    for total in fx.calls(module.graph, [aten.add.Tensor]):
        parts = _squared_operands(total)
        if parts is not None:
            end, steps = _following_steps(total)
            fx.replace(end, fx.call(end, evaluate_on_squares, *parts, steps))
    module.graph.eliminate_dead_code()


def _squared_operands(total: Node) -> list[Node] | None:
    """Returns the squared operands of a sum that alone reads the squares."""
    squares = total.args[:2]
    if total.kwargs or len(set(squares)) != 2 or not fx.is_tensor(total):
        return None
    parts = [squared_operand(n) for n in squares if isinstance(n, Node) and fx.single_user(n) is total]
    operands = [
        n
        for n in parts
        if fx.is_tensor(n) and fx.constant_of(n) is None and fx.shape_of(n) == fx.shape_of(total)
    ]
    return operands if len(operands) == 2 else None


def _following_steps(total: Node) -> tuple[Node, tuple[Step, ...]]:
    """Returns the last call, and the steps, of a clamp and a function that follow a sum, as long as they are
    monotonic."""
    end: Node = total
    steps: tuple[Step, ...] = ()
    for kind in (Clamp.kind, Lut.kind):
        user = fx.single_user(end)
        rule = RULES.get(user.target) if user is not None else None
        is_next = rule is not None and rule.kind == kind
        if user is None or not is_next or user.args[0] is not end or not fx.is_tensor(user):
            continue
        arguments = (step_reference(len(steps)), *user.args[1:])
        more = (*steps, (name_of(user.target), arguments, tuple(user.kwargs.items())))
        if is_monotonic(more):
            end, steps = user, more
    return end, steps


def is_monotonic(steps: Sequence[Step]) -> bool:
    """Whether an expression is monotonic for operands from 0 on."""
    grid = torch.logspace(LEAST, MOST, POINTS, dtype=torch.float64)
    x = torch.cat([torch.zeros(1, dtype=torch.float64), grid])
    y = evaluate_steps(x, tuple(steps))
    if bool(torch.isnan(y).any()):
        return False
    before, behind = y[:-1], y[1:]
    return bool((behind >= before).all()) or bool((behind <= before).all())
