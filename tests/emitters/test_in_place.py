# SPDX-License-Identifier: Apache-2.0
"""Results that may lie where their operands lay: whoever works element by element says so, on every core."""

from __future__ import annotations

import pytest

from pillion.devices.cortex_m import Isa
from pillion.emitters.c.kernel import Kernel
from pillion.emitters.c.kernel_choice import choose_kernels
from pillion.ir.graph import Graph
from pillion.ir.op import Op
from pillion.ops import Add, Clamp, Div, Lut, Maximum, Minimum, Mul, Prelu, Requantize, Softmax, Sub

ELEMENTWISE = (Add, Sub, Mul, Div, Minimum, Maximum, Lut, Prelu, Clamp, Requantize)


def kernel_of(op: Op, isa: Isa) -> Kernel:
    (choice,) = choose_kernels(Graph("g", op.activations, (op,), op.results), isa)
    return choice.kernel


@pytest.mark.parametrize("isa", Isa)
@pytest.mark.parametrize("cls", [*ELEMENTWISE, Softmax], ids=lambda cls: cls.kind)
def test_in_place_operands_equal_those_of_the_portable_kernel(cls: type[Op], isa: Isa) -> None:
    for op in cls.examples():
        kernel = kernel_of(op, isa)
        assert set(kernel.in_place(op)) == set(kernel_of(op, Isa.PORTABLE).in_place(op)), kernel.name


@pytest.mark.parametrize("cls", ELEMENTWISE, ids=lambda cls: cls.kind)
def test_an_operand_of_the_same_shape_may_be_overwritten(cls: type[Op]) -> None:
    for op in cls.examples():
        y = op.results[0]
        sized = [v for v in op.activations if v.dtype.size_bytes == y.dtype.size_bytes]
        alike = {v for v in sized if v.shape == y.shape}
        assert set(kernel_of(op, Isa.PORTABLE).in_place(op)) == alike, op
