# SPDX-License-Identifier: Apache-2.0
"""Fields of params structs that follow from an op: sizes, windows, zero points, bounds, multipliers and walks over
two operands have the same names in all kernels."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from pillion.emitters.c.channel_scaling import rounding_constant
from pillion.emitters.c.params_structs import params_structs
from pillion.emitters.c.strides import as_int32_array
from pillion.emitters.c.walk import broadcast_walk
from pillion.ir.numerics import Arithmetic, Multiplier
from pillion.ir.op import Op
from pillion.ops.elementwise import Binary

ELEMENTS: dict[str, tuple[str, int]] = {
    **{"batch": ("x.shape", 0), "in_h": ("x.shape", 1), "in_w": ("x.shape", 2), "in_c": ("x.shape", 3)},
    **{
        "channels": ("x.shape", -1),
        "images": ("x.shape", 0),
        "out_h": ("y.shape", 1),
        "out_w": ("y.shape", 2),
        "out_c": ("y.shape", 3),
    },
    **{
        f"{name}_{axis}": (name, i)
        for name in ("kernel", "stride", "dilation")
        for i, axis in enumerate("hw")
    },
    **{"pad_top": ("padding", 0), "pad_left": ("padding", 1)},
}
"""Field → the attribute of the op that holds it, and its index there."""
ZERO_POINTS = {"in_zp": "x", "out_zp": "y", "a_zp": "a", "b_zp": "b", "slope_zp": "slope"}
"""Field → the operand or result whose zero point it is."""
ELEMENT_BYTES = {"a_bytes": "a", "b_bytes": "b", "y_bytes": "y"}
"""Field → the operand or result whose element size it is."""
PARTS: Mapping[str, Callable[[Multiplier, int], int]] = {
    "multiplier": lambda m, out_zp: m.mantissa,
    "shift": lambda m, out_zp: m.shift,
    "right": lambda m, out_zp: -m.shift,
    "round": lambda m, out_zp: int(rounding_constant(out_zp, -m.shift)),
    "fix": lambda m, out_zp: int(m.shift < 0),
}
"""Field → its value from a multiplier and the result's zero point. Right shifts in Helium's rounding need a sign
correction, the `fix`."""
MULTIPLIERS = {"": "multiplier", "out": "multiplier", "mean": "mean_multiplier", "back": "back"}
"""Prefix of multiplier fields → the op's attribute with the multiplier."""


def with_op_fields(struct: str, params: Mapping[str, Any], op: Op, arithmetic: Arithmetic) -> dict[str, Any]:
    """Returns the params with the fields that they leave out and that follow from the op in an arithmetic."""
    fields = params_structs().get(struct, ())
    names = {field.name for field in fields}
    walk = operand_walk(op, names) if isinstance(op, Binary) and not names <= params.keys() else {}
    found = dict(walk)
    for field in fields:
        if field.name in params or field.name in found:
            continue
        value = (
            _channel_multiplier_array(op, field.name)
            if field.is_pointer
            else _field_value(op, field.name, arithmetic)
        )
        if value is None and field.name == "count" and "rows" not in names:
            value = op.results[0].type.elements
        found |= {} if value is None else {field.name: value}
    return {**found, **params}


def operand_walk(op: Binary, names: Collection[str]) -> dict[str, Any]:
    """Returns the walk over two operands with broadcasting, or in rows of contiguous elements, as the fields of a
    struct."""
    if "a_row_step" not in names or "b_row_step" not in names:
        return {}
    rows = broadcast_walk(op)
    if "axes" not in names:
        a_step, b_step = (step[0] if step else 0 for step in rows.row_step)
        return {**rows.params, "a_row_step": a_step, "b_row_step": b_step}
    (a_step, b_step), (a_row_step, b_row_step) = rows.step, rows.row_step
    steps = {"a_row_step": as_int32_array(a_row_step), "b_row_step": as_int32_array(b_row_step)}
    return {**rows.params, "a_step": a_step, "b_step": b_step, **rows.axes, **steps}


def high_and_low(number: int) -> tuple[int, int]:
    """Returns the upper half of a 64-bit number, and the lower one, as signed words."""
    return number >> 32, (number & 0xFFFFFFFF ^ 1 << 31) - (1 << 31)


def _channel_multiplier_array(op: Any, name: str) -> Any:
    """Returns multipliers or shifts of all channels of a layer; None for other arrays."""
    both = getattr(op, "multipliers", None)
    return both[name == "shift"] if isinstance(both, tuple) and name in ("multiplier", "shift") else None


def _field_multiplier(op: Any, prefix: str, arithmetic: Arithmetic) -> Multiplier | None:
    """Returns the multiplier for fields with a prefix; None if the op has none."""
    operands = ("a", "b", "out")
    if prefix in operands and hasattr(op, "rescale"):
        return op.rescale[operands.index(prefix)]
    found = getattr(op, MULTIPLIERS.get(prefix, ""), None)
    found = found(arithmetic) if callable(found) else found
    return found if isinstance(found, Multiplier) else None


def _field_value(op: Any, name: str, arithmetic: Arithmetic) -> Any:
    """Returns the number that an op has for a field; None if it has none."""
    prefix, _, part = name.rpartition("_")
    if part in PARTS and (multiplier := _field_multiplier(op, prefix, arithmetic)):
        return PARTS[part](multiplier, op.results[0].zero_point)
    if part in ("high", "low") and isinstance(number := getattr(op, prefix, None), int):
        return high_and_low(number)[part == "low"]
    if name in ELEMENT_BYTES:
        value = getattr(op, ELEMENT_BYTES[name], None)
        return None if value is None else value.dtype.size_bytes
    number = getattr(op, "sign" if name == "b_sign" else name, None)
    if isinstance(number, (int, float, np.integer)):
        return number
    if name in ZERO_POINTS:
        value = getattr(op, ZERO_POINTS[name], None)
        return None if value is None else value.zero_point
    if name not in ELEMENTS:
        return None
    path, index = ELEMENTS[name]
    current = op
    for attribute in path.split("."):
        current = getattr(current, attribute, None)
    return None if current is None else current[index]
