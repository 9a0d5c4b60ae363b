# SPDX-License-Identifier: Apache-2.0
"""Chains of elementwise operators on one tensor as a single call."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.fx import Node

from pillion.importers.torch.fx_nodes import aten

Step = tuple[str, tuple[Any, ...], tuple[tuple[str, Any], ...]]
"""Operator name, arguments and keyword arguments, in types that torch.fx can serialize."""


SMOOTH = frozenset(["add", "sub", "mul", "rsub", "neg", "sigmoid", "tanh"])
"""Operators of expressions that linear interpolation between even steps approximates."""
RESULT, NUMBER = "result", "number"


def step_reference(step: int) -> tuple[str, int]:
    """Returns a reference to the result of a step; 0 is the operand, 1 the first step."""
    return (RESULT, step)


def number_reference(held: Tensor) -> tuple[str, float]:
    """Returns a reference to a one-element tensor, for operators that require a tensor argument."""
    return (NUMBER, float(held.detach()))


def evaluate_steps(x: Tensor, steps: tuple[Step, ...]) -> Tensor:
    """Evaluates the steps in order and returns the last result."""
    results = [x]
    for name, args, kwargs in steps:
        arguments = [_resolve_argument(argument, results) for argument in args]
        results.append(operator_of(name)(*arguments, **dict(kwargs)))
    return results[-1]


def evaluate_on_squares(a: Tensor, b: Tensor, steps: tuple[Step, ...]) -> Tensor:
    """Evaluates the steps on a² + b²."""
    total = a * a + b * b
    return evaluate_steps(total, steps) if steps else total


def operator_of(name: str) -> Any:
    """Returns the operator named like `add.Tensor`."""
    if name == evaluate_steps.__name__:
        return evaluate_steps
    packet, _, overload = name.partition(".")
    return getattr(getattr(aten, packet), overload)


def name_of(target: Any) -> str:
    """Returns the name that `operator_of` resolves."""
    return evaluate_steps.__name__ if target is evaluate_steps else str(target).removeprefix("aten.")


def operators_in(node: Node) -> set[str]:
    """Returns the names of the operators of a call, without overloads."""
    steps: Any = node.args[1] if node.target is evaluate_steps else [(name_of(node.target),)]
    return {name.partition(".")[0] for name, *_ in steps}


def is_smooth(node: Node) -> bool:
    """Whether lines between even steps approximate a function well."""
    names = operators_in(node)
    return names <= SMOOTH if node.target is evaluate_steps else names <= {"sigmoid", "tanh"}


def _resolve_argument(argument: Any, results: list[Tensor]) -> Any:
    match argument:
        case (str(kind), held) if kind == RESULT:
            return results[held]
        case (str(kind), held) if kind == NUMBER:
            return torch.tensor(held, dtype=results[0].dtype, device=results[0].device)
    return argument
