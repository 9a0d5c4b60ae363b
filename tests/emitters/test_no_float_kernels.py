# SPDX-License-Identifier: Apache-2.0
"""Kernels of int8 do not take real numbers: only movement, which looks at no numbers, and what converts them do."""

from __future__ import annotations

import dataclasses

import pytest

from pillion.devices.cortex_m import Isa
from pillion.emitters.c.kernel_choice import choose_kernels
from pillion.errors import PillionError
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import DType, TensorType, Value
from pillion.ops import ALL_OPS, Dequantize, Detections, Function, Lut, Quantize
from pillion.ops.example_values import make_op, value
from pillion.ops.movement import Movement

TAKE_FLOAT = (Quantize, Dequantize, Detections, Movement)


def in_float(value: Value) -> Value:
    return dataclasses.replace(value, type=TensorType(value.shape, DType.FLOAT32))


@pytest.mark.parametrize("isa", Isa)
@pytest.mark.parametrize("cls", [c for c in ALL_OPS if not issubclass(c, TAKE_FLOAT)], ids=lambda c: c.kind)
def test_real_numbers_have_no_kernel(cls: type[Op], isa: Isa) -> None:
    op = next(cls.examples())
    op = op.substitute({v: in_float(v) for v in (*op.activations, *op.results)})
    with pytest.raises(PillionError, match="has no C kernel"):
        choose_kernels(Graph("g", op.activations, (op,), op.results), isa)


def test_a_refusal_names_each_reason_once_and_the_way_out() -> None:
    op = make_op(Lut, value("y", (3,)), x=value("x", (3,)), table=None, function=Function.ELU)
    with pytest.raises(PillionError) as refused:
        choose_kernels(Graph("g", op.activations, (op,), op.results, Arithmetic.TFLITE), Isa.DSP)
    reasons = refused.value.rule.split("; ")
    assert len(reasons) == len(set(reasons))
    assert "without --arithmetic" in refused.value.help
