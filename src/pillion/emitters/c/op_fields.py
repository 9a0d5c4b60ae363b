# SPDX-License-Identifier: Apache-2.0
"""Fields of params structs that follow from an op: sizes, windows, zero points and bounds have the same names in all
kernels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pillion.emitters.c.params_structs import params_structs
from pillion.ir.op import Op

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


def with_op_fields(struct: str, params: Mapping[str, Any], op: Op) -> dict[str, Any]:
    """Returns the params with the numbers that they leave out: attributes of the op with the field's name, or those
    that the tables name."""
    missing = [f.name for f in params_structs().get(struct, ()) if not f.is_pointer and f.name not in params]
    found = {name: _field(op, name) for name in missing}
    return {**params, **{name: number for name, number in found.items() if number is not None}}


def _field(op: Any, name: str) -> Any:
    """Returns the number that an op has for a field; None if it has none."""
    number = getattr(op, name, None)
    if isinstance(number, (int, float, np.integer)):
        return number
    if name in ZERO_POINTS:
        value = getattr(op, ZERO_POINTS[name], None)
        return None if value is None else value.zero_point
    if name not in ELEMENTS:
        return None
    path, index = ELEMENTS[name]
    held = op
    for attribute in path.split("."):
        held = getattr(held, attribute, None)
    return None if held is None else held[index]
