# SPDX-License-Identifier: Apache-2.0
"""Sums in 16 bits as the kernels with vectors or long products take them: in rows, the wider operand first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product

from pillion.emitters.c.in_rows import rows_params, rows_verdict
from pillion.emitters.c.kernel import Params
from pillion.emitters.c.portable.elementwise import judge_wide_sum
from pillion.ir.numerics import Arithmetic
from pillion.ir.verdict import Verdict, all_ok
from pillion.ops.wide_add import WideAdd

BitsOf = Callable[[int], int]
"""How many bits beside its sign a sum may have with so many places."""


def wider_first(op: WideAdd) -> WideAdd:
    """Gives the sum with its operands in such an order."""
    is_swapped = op.a.dtype.size_bytes < op.b.dtype.size_bytes
    return replace(op, a=op.b, b=op.a) if is_swapped else op


def rows(op: WideAdd) -> Params:
    """Gives the walk through both operands in rows, and the bytes of their elements, as parameters."""
    values = (("a", op.a), ("b", op.b), ("y", op.y))
    return {**rows_params(op), **{f"{name}_bytes": v.dtype.size_bytes for name, v in values}}


def largest_sum(op: WideAdd) -> int:
    """Gives a bound for sums before their shift, whatever the operands: the smallest whose negative holds, too."""
    first, second = op.multipliers
    ends = product(op.a.dtype.bounds, op.b.dtype.bounds)
    sums = [a * first + b * second + op.offset for a, b in ends]
    return max(max(sums), -min(sums) - 1)


def judge(op: WideAdd, arithmetic: Arithmetic, least: int, most: int, bits_of: BitsOf) -> tuple[Verdict, ...]:
    """Judges the element types, whether operands are equal or rows that repeat, how many places there are, and how many bits beside its
    sign a sum has."""
    known = judge_wide_sum(op, arithmetic)
    if not all_ok(known):
        return known
    found, bits = largest_sum(op).bit_length(), bits_of(op.places)
    return (
        *known,
        rows_verdict(op),
        Verdict("places", least <= op.places <= most, f"{least} to {most}", str(op.places)),
        Verdict("sum", found <= bits, f"below 2^{bits}", f"up to 2^{found}"),
    )
