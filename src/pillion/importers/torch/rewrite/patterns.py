# SPDX-License-Identifier: Apache-2.0
"""Patterns of fx nodes: trees of calls whose operands have names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from torch.fx import Node

from pillion.importers.torch.fx_nodes import constant_of

Bindings = dict[str, Any]
"""The nodes and constants that the names of a pattern match."""


class Pattern:
    """A condition on an operand."""

    def __or__(self, other: Pattern) -> Pattern:
        return Either(self, other)


@dataclass(frozen=True)
class Operand(Pattern):
    """Matches any operand. Operands with the same name are the same computation."""

    name: str


@dataclass(frozen=True)
class Number(Pattern):
    """Matches a number, or a constant of one real number."""

    name: str


@dataclass(frozen=True)
class Either(Pattern):
    """Matches if either pattern matches; the first one has precedence."""

    first: Pattern
    second: Pattern


@dataclass(frozen=True)
class Call(Pattern):
    """Matches a call of some operators, which may have further arguments."""

    targets: tuple[Any, ...]
    operands: tuple[Pattern | float, ...]
    name: str = ""
    commutes: bool = False
    when: Callable[[Node], bool] = lambda _: True


def find_match(pattern: Pattern, operand: Any) -> Bindings | None:
    """Returns the nodes and constants that the names of a pattern match in an operand; None if it does not match."""
    return next(_match_pattern(pattern, operand, {}), None)


def _match_pattern(pattern: Pattern | float, operand: Any, bound: Bindings) -> Iterator[Bindings]:
    match pattern:
        case Operand(name):
            if name not in bound or is_same_computation(bound[name], operand):
                yield {name: operand, **bound}
        case Number(name):
            if (number := number_of(operand)) is not None:
                yield {**bound, name: number}
        case Either(first, second):
            yield from _match_pattern(first, operand, bound)
            yield from _match_pattern(second, operand, bound)
        case Call(targets, operands, name, commutes, when):
            if isinstance(operand, Node) and operand.target in targets and when(operand):
                bound = {**bound, name: operand} if name else bound
                for order in (operands, operands[::-1])[: 1 + commutes]:
                    yield from _match_all(order, operand.args, bound)
        case literal:
            if not isinstance(operand, Node) and operand == literal:
                yield bound


def _match_all(patterns: tuple[Any, ...], operands: tuple[Any, ...], bound: Bindings) -> Iterator[Bindings]:
    if not patterns:
        yield bound
    elif operands:
        for found in _match_pattern(patterns[0], operands[0], bound):
            yield from _match_all(patterns[1:], operands[1:], found)


def number_of(operand: Any) -> float | None:
    """Returns a number, or the value of a constant of one real number; None for other operands."""
    if isinstance(operand, (int, float)):
        return float(operand)
    tensor = constant_of(operand)
    is_number = tensor is not None and tensor.numel() == 1 and tensor.is_floating_point()
    return float(tensor) if is_number else None  # type: ignore[arg-type]  # a tensor


def is_same_computation(a: Any, b: Any, depth: int = 3) -> bool:
    """Whether two operands are identical or equal computations of identical operands."""
    if not (isinstance(a, Node) and isinstance(b, Node)) or a is b or not depth:
        return a is b or (not isinstance(a, Node) and bool(a == b))
    alike = a.op == "call_function" and (a.target, a.kwargs) == (b.target, b.kwargs)
    pairs = zip(a.args, b.args, strict=False)
    return alike and len(a.args) == len(b.args) and all(is_same_computation(*p, depth - 1) for p in pairs)
