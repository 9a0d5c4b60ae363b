# SPDX-License-Identifier: Apache-2.0
"""Sums and products in 16 bits as the kernels with vectors or long products take them: in rows, the wider operand first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product

from pillion.emitters.c.in_rows import rows_params, rows_verdict
from pillion.emitters.c.kernel import Call, Params
from pillion.emitters.c.library import Library
from pillion.emitters.c.portable.elementwise import bytes_of_elements, factors_of_product, judge_wide_pair
from pillion.ir.numerics import Arithmetic
from pillion.ir.verdict import Verdict, all_ok
from pillion.ops.wide_add import WideAdd
from pillion.ops.wide_mul import WideMul

BitsOf = Callable[[int], int]
"""How many bits beside its sign a sum may have with so many places."""


@dataclass(frozen=True)
class Ordered:
    """A sum whose wider operand is the first one, and the multipliers of both."""

    op: WideAdd
    multipliers: tuple[int, int]


def wider_first(op: WideAdd) -> Ordered:
    """Gives the sum with its operands in such an order."""
    first, second = op.multipliers
    if op.a.dtype.size_bytes < op.b.dtype.size_bytes:
        return Ordered(replace(op, a=op.b, b=op.a), (second, first))
    return Ordered(op, (first, second))


def rows(op: WideAdd | WideMul) -> Params:
    """Gives the walk through both operands in rows, and the bytes of their elements, as parameters."""
    return {**rows_params(op), **bytes_of_elements(op)}


def largest_sum(op: WideAdd) -> int:
    """Gives a bound for sums before their shift, whatever the operands: the smallest whose negative holds, too."""
    first, second = op.multipliers
    ends = product(op.a.dtype.bounds, op.b.dtype.bounds)
    sums = [a * first + b * second + op.offset for a, b in ends]
    return max(max(sums), -min(sums) - 1)


def judge(op: WideAdd, arithmetic: Arithmetic, least: int, most: int, bits_of: BitsOf) -> tuple[Verdict, ...]:
    """Judges the element types, whether operands are equal or rows that repeat, how many places there are, and how many bits beside its
    sign a sum has."""
    known = judge_wide_pair(op, arithmetic)
    if not all_ok(known):
        return known
    found, bits = largest_sum(op).bit_length(), bits_of(op.places)
    return (
        *known,
        rows_verdict(op),
        Verdict("places", least <= op.places <= most, f"{least} to {most}", str(op.places)),
        Verdict("sum", found <= bits, f"below 2^{bits}", f"up to 2^{found}"),
    )


def judge_product(op: WideMul, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges the element types, and whether operands are equal or rows that repeat."""
    known = judge_wide_pair(op, arithmetic)
    return (*known, rows_verdict(op)) if all_ok(known) else known


def product_of(library: Library, op: WideMul) -> tuple[Call, ...]:
    """Gives the call of a product."""
    params = {**rows(op), **factors_of_product(op)}
    return (Call(library.routine("wide_mul"), params, (op.a, op.b), op.y),)
