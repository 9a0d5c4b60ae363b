# SPDX-License-Identifier: Apache-2.0
"""An expression of one number as one call: what is computed from a tensor, element by element, step after step."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from pillion.importers.torch.nodes import aten

Step = tuple[str, tuple[Any, ...], tuple[tuple[str, Any], ...]]
"""The name of an operator, its arguments and its named arguments, in types that torch.fx can write down."""


RESULT, NUMBER = "result", "number"


def result(step: int) -> tuple[str, int]:
    """Gives the result of a step as an argument of another one; 0 is the operand, 1 the first step."""
    return (RESULT, step)


def number(held: Tensor) -> tuple[str, float]:
    """Gives a tensor of one element as an argument: an operator that asks for a tensor gets one again."""
    return (NUMBER, float(held.detach()))


def expression(x: Tensor, steps: tuple[Step, ...]) -> Tensor:
    """Computes the steps one after another, each from the operand and what the steps before it gave; the last one is the result."""
    results = [x]
    for name, args, kwargs in steps:
        given = [_given(argument, results) for argument in args]
        results.append(operator_of(name)(*given, **dict(kwargs)))
    return results[-1]


def magnitude(a: Tensor, b: Tensor, steps: tuple[Step, ...]) -> Tensor:
    """Gives an expression of a² + b²; of no steps, that sum."""
    total = a * a + b * b
    return expression(total, steps) if steps else total


def operator_of(name: str) -> Any:
    """Gives the operator that is called `add.Tensor`."""
    packet, _, overload = name.partition(".")
    return getattr(getattr(aten, packet), overload)


def name_of(target: Any) -> str:
    """Gives the name by which `operator_of` finds an operator."""
    return str(target).removeprefix("aten.")


def _given(argument: Any, results: list[Tensor]) -> Any:
    match argument:
        case (str(kind), held) if kind == RESULT:
            return results[held]
        case (str(kind), held) if kind == NUMBER:
            return torch.tensor(held, dtype=results[0].dtype, device=results[0].device)
    return argument
