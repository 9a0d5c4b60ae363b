# SPDX-License-Identifier: Apache-2.0
"""Operands that come to share parameters keep their numbers: nothing saturates, whichever of them is the wider one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from pillion.ir.graph import Graph
from pillion.ops import Concat, Dequantize, Maximum, Minimum, Op
from pillion.ops.example_values import constant_like, float_value, value
from pillion.passes.convert_to_integer import convert_to_integer, covering_quant

SCALES = (0.01, 0.1, 0.37, 2.0)
ZERO_POINTS = (-128, -31, 0, 127)
PARAMETERS = list(itertools.product(SCALES, ZERO_POINTS))
LEVELS = np.arange(-128, 128).astype(np.int8)


@pytest.mark.parametrize("second", PARAMETERS, ids=str)
@pytest.mark.parametrize("first", PARAMETERS[::3], ids=str)
def test_every_level_of_both_is_there_to_half_a_step(
    first: tuple[float, int], second: tuple[float, int]
) -> None:
    operands = [value("a", (256,), *first), value("b", (256,), *second)]
    shared = covering_quant(operands)
    for v in operands:
        numbers = v.scale * (LEVELS.astype(np.float64) - v.zero_point)
        held = np.clip(np.rint(numbers / shared.scale) + shared.zero_point, -128, 127)
        assert np.abs((held - shared.zero_point) * shared.scale - numbers).max() <= 1.001 * shared.scale
    if shared in (operands[0].quant, operands[1].quant):
        return
    widest = max(v.scale for v in operands)
    assert widest <= shared.scale <= 2.001 * widest


def test_a_range_that_covers_the_others_is_kept() -> None:
    narrow, wide = value("a", (3,), 0.1, 5), value("b", (3,), 0.5, 3)
    assert covering_quant([narrow, wide]) == covering_quant([wide, narrow]) == wide.quant
    assert covering_quant([narrow, constant_like(value("k", (3,), 0.05, 0), 1)]) == narrow.quant


def test_of_a_constant_only_its_numbers_count() -> None:
    x, k = value("x", (3,), 0.1, 0), constant_like(value("k", (64,), 0.5, 0), 3)
    few = type(k)(k.name, k.type, np.zeros(64, np.int8))
    assert covering_quant([x, few]) == x.quant
    assert covering_quant([x, k]).scale > 4 * x.scale


@pytest.mark.parametrize("cls", [Minimum, Maximum, Concat], ids=lambda cls: cls.kind)
@pytest.mark.parametrize("scales", [(0.1, 0.4), (0.4, 0.1)], ids=str)
def test_a_wider_second_operand_does_not_saturate(cls: type[Op], scales: tuple[float, float]) -> None:
    a, b = value("a", (256,), scales[0], 3), value("b", (256,), scales[1], -9)
    af, bf = float_value("af", (256,)), float_value("bf", (256,))
    y = float_value("y", (512,) if cls is Concat else (256,))
    made = Concat(xs=(af, bf), y=y, axis=0) if cls is Concat else cls(a=af, b=bf, y=y)  # type: ignore[call-arg]  # both have two operands
    graph = Graph("g", (a, b), (Dequantize(x=a, y=af), Dequantize(x=b, y=bf), made), (y,))
    for levels in (LEVELS, LEVELS[::-1].copy()):
        wanted, found = (g.reference(LEVELS, levels)[0] for g in (graph, convert_to_integer(graph)))
        assert np.abs(wanted - found).max() < 0.4  # a step of the wider one: requantizing rounds twice
