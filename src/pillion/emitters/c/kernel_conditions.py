# SPDX-License-Identifier: Apache-2.0
"""Conditions of kernels: functions of an op, or of an op and its arithmetic, that return verdicts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from inspect import signature
from typing import Any, TypeVar

from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import DType, Value
from pillion.ir.verdict import Verdict, all_ok

OpClass = TypeVar("OpClass", bound=Op)
Found = TypeVar("Found")
OfOp = Callable[[OpClass], Found] | Callable[[OpClass, Arithmetic], Found]
Verdicts = Verdict | Iterable[Verdict]
Condition = OfOp[OpClass, Verdicts]
Check = Callable[[OpClass, Arithmetic], tuple[Verdict, ...]]


def ignore_arithmetic(function: OfOp[OpClass, Found]) -> Callable[[OpClass, Arithmetic], Found]:
    """Returns a function of an op alone as a function of an op and its arithmetic."""
    callee: Any = function
    if len(signature(callee).parameters) == 1:
        return lambda op, arithmetic: callee(op)
    return lambda op, arithmetic: callee(op, arithmetic)


def all_of(*conditions: Condition[OpClass]) -> Check[OpClass]:
    """Returns the condition that has the verdicts of all conditions."""
    functions = [ignore_arithmetic(condition) for condition in conditions]
    return lambda op, arithmetic: tuple(
        v for each in functions for v in _as_verdict_tuple(each(op, arithmetic))
    )


def short_circuit(*conditions: Condition[OpClass]) -> Check[OpClass]:
    """Returns the condition that evaluates conditions in order and stops at the first that fails, so that later
    ones may rely on earlier ones."""
    functions = [ignore_arithmetic(condition) for condition in conditions]

    def check(op: OpClass, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
        verdicts: tuple[Verdict, ...] = ()
        for each in functions:
            verdicts += _as_verdict_tuple(each(op, arithmetic))
            if not all_ok(verdicts):
                break
        return verdicts

    return check


def _as_verdict_tuple(verdicts: Verdicts) -> tuple[Verdict, ...]:
    return (verdicts,) if isinstance(verdicts, Verdict) else tuple(verdicts)


def has_dtypes(fields: str, *allowed: DType) -> Check[Any]:
    """Returns the condition that the named operands and results have one of the allowed types."""
    requirement = " or ".join(dtype.value for dtype in allowed)

    def check(op: Any, arithmetic: Arithmetic | None = None) -> tuple[Verdict, ...]:
        values = {name: getattr(op, name) for name in fields.split()}
        return tuple(Verdict(n, v.dtype in allowed, requirement, v.dtype.value) for n, v in values.items())

    return check


INT8_X = has_dtypes("x", DType.INT8)
INT8_XY = has_dtypes("x y", DType.INT8)
INT16_XY = has_dtypes("x y", DType.INT16)
INT8_ABY = has_dtypes("a b y", DType.INT8)
INT16_ABY = has_dtypes("a b y", DType.INT16)


def check_constants(fields: str) -> Check[Any]:
    """Returns the condition that the named operands are constant, for kernels that pack them at compile time."""

    def check(op: Any, arithmetic: Arithmetic | None = None) -> tuple[Verdict, ...]:
        values = {name: getattr(op, name).is_constant for name in fields.split()}
        return tuple(
            Verdict(name, known, "a constant", "a constant" if known else "computed")
            for name, known in values.items()
        )

    return check


LAYER: Check[Any] = all_of(has_dtypes("x y weights", DType.INT8), check_constants("weights bias"))
"""Input, weights and result of a layer are int8; weights and bias are constant."""
LAYER_4: Check[Any] = all_of(INT8_XY, has_dtypes("weights", DType.INT4), check_constants("weights bias"))
"""Input and result of a layer are int8, weights have 4 bits; weights and bias are constant."""
LAYER_16_4: Check[Any] = all_of(INT16_XY, has_dtypes("weights", DType.INT4), check_constants("weights bias"))
"""Input and result of a layer are int16, weights have 4 bits; weights and bias are constant."""


def check_all_int8(op: Op) -> tuple[Verdict, ...]:
    """Checks whether all computed operands and results of an op are int8."""
    return int8_values(*dict.fromkeys((*op.activations, *op.results)))


def int8_values(*values: Value) -> tuple[Verdict, ...]:
    """Checks whether values are int8; the verdicts have their names."""
    return tuple(Verdict(v.name, v.dtype is DType.INT8, "int8", v.dtype.value) for v in values)


def in_arithmetic(wanted: Arithmetic) -> Check[Any]:
    """Returns the condition that the graph has an arithmetic."""
    return lambda op, arithmetic: (
        Verdict("arithmetic", arithmetic is wanted, wanted.value, arithmetic.value),
    )


def in_own_form(op: Op, arithmetic: Arithmetic) -> Verdict:
    """Checks whether an op computes in our own 16-bit arithmetic."""
    return _form(op, arithmetic, True, "16 bits in our own arithmetic")


def in_litert_form(op: Op, arithmetic: Arithmetic) -> Verdict:
    """Checks whether an op on 16-bit tensors computes as in LiteRT."""
    return _form(op, arithmetic, False, "16 bits as in LiteRT")


def _form(op: Op, arithmetic: Arithmetic, is_own: bool, requirement: str) -> Verdict:
    types = ", ".join(v.dtype.value for v in (*op.operands, *op.results))
    is_ok = op.has_own_int16_form(arithmetic) is is_own
    return Verdict("form", is_ok, requirement, f"{types} in {arithmetic.value}")


def fixed_point(op: Op, arithmetic: Arithmetic) -> Verdict:
    """Checks whether a layer is rescaled in fixed point; LiteRT rescales fully connected layers in double
    precision."""
    is_fixed = arithmetic is not Arithmetic.TFLITE
    return Verdict("arithmetic", is_fixed, "scaled in fixed point", arithmetic.value)


def field_equals(field: str, wanted: object) -> Check[Any]:
    """Returns the condition that a field of the op has a value."""

    def check(op: Any, arithmetic: Arithmetic | None = None) -> tuple[Verdict, ...]:
        value = getattr(op, field)
        return (Verdict(field, value == wanted, str(wanted), str(value)),)

    return check


def multiple_of(field: str, unit: int) -> Check[Any]:
    """Returns the condition that a field of the op is a multiple of a number."""

    def check(op: Any, arithmetic: Arithmetic | None = None) -> tuple[Verdict, ...]:
        value = getattr(op, field)
        return (Verdict(field, value % unit == 0, f"a multiple of {unit}", str(value)),)

    return check


def is_within(
    rule: str, number: int, least: float = -math.inf, most: float = math.inf, unit: str = ""
) -> Verdict:
    """Checks whether a number lies between two limits; either may be missing."""
    if most == math.inf:
        requirement = f"at least {least}"
    else:
        requirement = f"at most {most}" if least == -math.inf else f"{least} to {most}"
    return Verdict(rule, least <= number <= most, f"{requirement} {unit}".rstrip(), str(number))


def shifted_right(least: int, most: int) -> Check[Any]:
    """Returns the condition that an op is rescaled by right shifts within limits."""

    def check(op: Any, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
        single = getattr(op, "multiplier", None)
        single = single(arithmetic) if callable(single) else single
        shifts = [-m.shift for m in ((single,) if single is not None else op.rescale)]
        fits = least <= min(shifts) and max(shifts) <= most
        return (Verdict("right_shift", fits, f"{least} to {most}", ", ".join(map(str, shifts))),)

    return check


def is_tile(op: Op) -> Verdict:
    """Checks whether an op reduces one tile of rows."""
    return Verdict("rows", op.is_part, f"some of a {op.kind}'s", "all")


def in_place_same_shape(op: Op, *operands: Value) -> tuple[Value, ...]:
    """Returns the computed operands that have the shape of the result, which may overwrite their memory."""
    return tuple(v for v in dict.fromkeys(operands) if not v.is_constant and v.shape == op.results[0].shape)


def operands_in_fields(op: Op, fields: str) -> tuple[Value, ...]:
    """Returns the operands in the named fields."""
    return tuple(getattr(op, name) for name in fields.split())
