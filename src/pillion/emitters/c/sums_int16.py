# SPDX-License-Identifier: Apache-2.0
"""16-bit sums and products for kernels with vectors or long multiplication: in rows, the wider operand first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product

from pillion.emitters.c.kernel import Call, Params
from pillion.emitters.c.kernel_library import Library
from pillion.emitters.c.portable.elementwise import check_wide_binary, element_bytes, product_factors
from pillion.emitters.c.rowwise_params import rows_params, rows_verdict
from pillion.ir.numerics import Arithmetic
from pillion.ir.verdict import Verdict, all_ok
from pillion.ops.wide_add import WideAdd
from pillion.ops.wide_mul import WideMul

BitsOf = Callable[[int], int]
"""The number of bits, without the sign, that a sum may have before a shift by a number of bits."""


@dataclass(frozen=True)
class OrderedSum:
    """A sum with the wider operand first, and the multipliers in that order."""

    op: WideAdd
    multipliers: tuple[int, int]


def wider_first(op: WideAdd) -> OrderedSum:
    """Returns the sum with the wider operand first."""
    first, second = op.multipliers
    if op.a.dtype.size_bytes < op.b.dtype.size_bytes:
        return OrderedSum(replace(op, a=op.b, b=op.a), (second, first))
    return OrderedSum(op, (first, second))


def row_params(op: WideAdd | WideMul) -> Params:
    """Returns the walk over both operands in rows, with their element sizes, as parameters."""
    return {**rows_params(op), **element_bytes(op)}


def largest_sum(op: WideAdd) -> int:
    """Returns a bound for the magnitude of sums before their shift."""
    first, second = op.multipliers
    ends = product(op.a.dtype.bounds, op.b.dtype.bounds)
    sums = [a * first + b * second + op.offset for a, b in ends]
    return max(max(sums), -min(sums) - 1)


def check_sum(
    op: WideAdd, arithmetic: Arithmetic, least: int, most: int, bits_of: BitsOf
) -> tuple[Verdict, ...]:
    """Checks the element types, the broadcasting, the shift and the bits of the sum."""
    known = check_wide_binary(op, arithmetic)
    if not all_ok(known):
        return known
    found, bits = largest_sum(op).bit_length(), bits_of(op.places)
    return (
        *known,
        rows_verdict(op),
        Verdict("places", least <= op.places <= most, f"{least} to {most}", str(op.places)),
        Verdict("sum", found <= bits, f"below 2^{bits}", f"up to 2^{found}"),
    )


def check_product(op: WideMul, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks the element types and the broadcasting."""
    known = check_wide_binary(op, arithmetic)
    return (*known, rows_verdict(op)) if all_ok(known) else known


def calls_product(library: Library, op: WideMul) -> tuple[Call, ...]:
    """Returns the call of a product."""
    params = {**row_params(op), **product_factors(op)}
    return (Call(library.routine("wide_mul"), params, (op.a, op.b), op.y),)
