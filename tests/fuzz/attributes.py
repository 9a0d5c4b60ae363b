# SPDX-License-Identifier: Apache-2.0
"""Random values for the attributes that ops declare, by the name of the field."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from fuzz.choices import Choices
from pillion.ir.op import Op
from pillion.ir.types import DType, Shape
from pillion.ops import Calculation, Function, Lut, Relation, Stage, Statistic


def attributes(cls: type[Op], choices: Choices, x: Shape) -> dict[str, Any]:
    """A value for every attribute of an op whose first operand has the shape `x`; they need not fit together."""
    if cls is Lut:
        return _function(choices)
    found = {
        field.name: ATTRIBUTES[field.name](choices, x)
        for field in dataclasses.fields(cls)
        if not field.metadata.get("role") and field.name not in ("low", "high")
    }
    if any(field.name == "low" for field in dataclasses.fields(cls)):
        found["low"], found["high"] = _bounds(choices)
    return found


def _bounds(choices: Choices) -> tuple[int, int]:
    if not choices.one_in(4):
        return -128, 127
    low, high = sorted((choices.integer(-128, 127), choices.integer(-128, 127)))
    return (low, high) if choices.one_in(2) else (min(low, 0), 127)


def _function(choices: Choices) -> dict[str, Any]:
    """`table` comes from elsewhere: it has an operand."""
    function = choices.pick([f for f in Function if f is not Function.TABLE])
    found: dict[str, Any] = {"function": function}
    if function in (Function.LEAKY_RELU, Function.ELU):
        found["alpha"] = choices.pick((0.1, 0.01, 1.0, 0.5, 0.3))
    if function is Function.CLAMP:
        found |= {"low": choices.pick((0.0, -1.0, -0.5)), "high": choices.pick((6.0, 1.0, 1.25))}
    return found


def _pair(*values: int) -> Callable[[Choices, Shape], tuple[int, int]]:
    return lambda choices, x: (choices.pick(values), choices.pick(values))


def _sides(choices: Choices, x: Shape) -> tuple[int, ...]:
    if choices.one_in(2):
        return (choices.integer(0, 2),) * 4
    return tuple(choices.pick((0, 1, 0, 2, 3)) for _ in range(4)) if choices.one_in(2) else (0, 0, 0, 0)


def _axes(choices: Choices, x: Shape) -> tuple[int, ...]:
    """At least one, in any order."""
    left = list(range(len(x)))
    count = choices.integer(1, max(len(x), 1))
    return tuple(left.pop(choices.integer(0, len(left) - 1)) for _ in range(min(count, len(x))))


def _order(choices: Choices, x: Shape) -> tuple[int, ...]:
    if len(x) == 4 and choices.one_in(2):
        return choices.pick(((0, 3, 1, 2), (0, 2, 3, 1)))
    left = list(range(len(x)))
    return tuple(left.pop(choices.integer(0, len(left) - 1)) for _ in x)


def _each(*values: int) -> Callable[[Choices, Shape], Shape]:
    return lambda choices, x: tuple(choices.pick(values) for _ in x)


def _flag(choices: Choices, x: Shape) -> bool:
    return choices.one_in(2)


def _size(choices: Choices, x: Shape) -> tuple[int, int]:
    """Any size, or one in whole proportion to the image's."""
    if len(x) == 4 and choices.one_in(2):
        return x[1] * choices.pick((2, 1, 3, 4)), max(
            x[2] * choices.pick((2, 1, 4)) // choices.pick((1, 2)), 1
        )
    return choices.pick((1, 2, 3, 5, 7, 8, 11, 13)), choices.pick((1, 2, 3, 5, 7, 8, 11, 13))


def _coefficients(choices: Choices, x: Shape) -> tuple[float, ...]:
    """One to three sections, whose poles have any angle and a radius of up to 0.999."""
    found: list[float] = []
    for _ in range(choices.integer(1, 3)):
        radius, cosine = choices.pick((0.0, 0.5, 0.9, 0.999)), choices.integer(-10, 10) / 10
        found += [
            choices.integer(-20, 20) / 16 or 0.1,
            choices.integer(-20, 20) / 16,
            choices.pick((0.0, -0.25)),
        ]
        found += [-2 * radius * cosine, radius * radius]
    return tuple(found)


ATTRIBUTES: dict[str, Callable[[Choices, Shape], Any]] = {
    "stride": _pair(1, 1, 2, 1, 3),
    "dilation": _pair(1, 1, 1, 1, 2, 3),
    "padding": _sides,
    "output_padding": _pair(0, 0, 1, 2),
    "groups": lambda choices, x: choices.pick([g for g in (1, 1, 1, 2, 3, 4, 8) if x[-1] % g == 0]),
    "kernel": _pair(1, 2, 3, 3, 5, 4, 7),
    "axes": _axes,
    "hop": lambda choices, x: choices.integer(1, 50),
    "points": lambda choices, x: choices.pick((64, 128)),
    "power": lambda choices, x: choices.pick((1, 2)),
    "coefficients": _coefficients,
    "slope": lambda choices, x: choices.pick((0.693, 3.01, 1.0, -0.5)),
    "intercept": lambda choices, x: choices.pick((0.0, 0.0, -3.5)),
    "offset": lambda choices, x: choices.pick((0.0, 1e-6, 1e-10, 1.0)),
    "floor": lambda choices, x: choices.pick((0.0, 1e-10, 0.01)),
    "alpha": lambda choices, x: choices.pick((0.1, 0.01, 1.0, 0.5, -0.3)),
    "keepdims": _flag,
    "order": _order,
    "begin": lambda choices, x: tuple(choices.integer(0, d - 1) if choices.one_in(2) else 0 for d in x),
    "step": _each(1, 1, 1, 2, 3),
    "before": _each(0, 0, 1, 2),
    "after": _each(0, 0, 1, 3),
    "value": lambda choices, x: choices.integer(-128, 127),
    "axis": lambda choices, x: choices.integer(0, len(x) - 1),
    "adj_x": _flag,
    "adj_y": _flag,
    "size": _size,
    "align_corners": _flag,
    "half_pixel": _flag,
    "stage": lambda choices, x: choices.pick(tuple(Stage)),
    "numbers": lambda choices, x: (),  # fuzz.signal_stages draws them for a stage
    "calculation": lambda choices, x: choices.pick(tuple(Calculation)),
    "statistic": lambda choices, x: choices.pick(tuple(Statistic)),
    "relation": lambda choices, x: choices.pick(tuple(Relation)),
    "most": lambda choices, x: choices.integer(1, 10),
    "classes": lambda choices, x: choices.integer(1, 3),
    "by_class": lambda choices, x: choices.pick((0, 2, 100)),
    "score_threshold": lambda choices, x: choices.pick((0.1, -1e8)),
    "iou_threshold": lambda choices, x: choices.pick((0.5, 0.1, 1.0)),
    "scales": lambda choices, x: (10.0, 10.0, 5.0, 5.0),
    "headroom": lambda choices, x: choices.pick((0, 7)),
    "explicit_ratio": lambda choices, x: choices.pick((0.0, 0.0, 0.37, 2.5)),
    "clip": lambda choices, x: choices.pick((0, 1000)),
    "k": lambda choices, x: choices.integer(1, min(x[-1], 9)),
    "largest": _flag,
    "mean": _flag,
    "is_lookup": _flag,
    "batch": lambda choices, x: choices.pick((0, 0, 1)),
    "first": lambda choices, x: choices.integer(-128, 127),
    "falls": _flag,
    "centred": lambda choices, x: not choices.one_in(3),
    "eps": lambda choices, x: choices.pick((1e-5, 0.0, 1e-3, 1.0)),
    "to": lambda choices, x: choices.pick((DType.INT32, DType.FLOAT32, DType.UINT8)),
}
