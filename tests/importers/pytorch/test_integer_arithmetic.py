# SPDX-License-Identifier: Apache-2.0
"""Arithmetic of whole numbers: the program answers exactly what PyTorch answers, where that fits 32 bits."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import pillion
from pillion.errors import PillionError
from pillion.importers.torch.rewrite.integer_arithmetic import integer_calculation
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import DType, TensorType, Value, constant_value
from pillion.ops import Calculation, IntegerArithmetic
from pillion.ops.example_values import make_op

pytestmark = [pytest.mark.torch]
ON = ("reference", "host") if shutil.which("cc") else ("reference",)
FIRST = torch.tensor([[0, 1, 7, 16, 99], [100000, 33, -1, -16, -77]])
SECOND = torch.tensor([[3, -2, 7, 5, 1], [-9, 16, 4, 30, 2]])
FORMS: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "sums": lambda i, j: (i + j, i - j, 5 - i, i * j, torch.add(i, j, alpha=3), torch.sub(i, j, alpha=-2)),
    "quotients": lambda i, j: (i // 16, i // j, torch.div(i, j, rounding_mode="trunc"), i // -7),
    "remainders": lambda i, j: (i % 16, i % j, torch.fmod(i, 7), torch.remainder(i, -7), torch.fmod(i, j)),
    "bits": lambda i, j: (i & 6, i | j, i ^ 3, ~i, i << 3, i >> 2, i >> j.clamp(0, 31)),
    "signs": lambda i, j: (i.abs(), -i, i.sign(), j**2, j**3, j.square()),
    "bounds": lambda i, j: (i.clamp(0, 10), i.clamp(min=j), torch.minimum(i, j), torch.maximum(i, j)),
    "reductions": lambda i, j: (
        i.sum(1),
        i.sum(),
        i.sum(0, keepdim=True),
        i.amax(1),
        j.amin((0, 1)),
        i.max(),
    ),
    "running sums": lambda i, j: (i.cumsum(1), j.cumsum(0)),
    "counts": lambda i, j: ((i > j).sum(1), (i > j).sum() * 2 + 1, (i == 16).sum(0) // 2),
    "types": lambda i, j: (i.int() + j, (i > 0) + j, i.to(torch.int32) % 5, (i > 0).int() * j),
}


class Call(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(*inputs)


@pytest.mark.turns(4)
@pytest.mark.parametrize("name", FORMS)
def test_exact(name: str) -> None:
    module = Call(FORMS[name])
    program = pillion.compile(module, (FIRST, SECOND), target="cortex-m33")
    for on in ON:
        for found, wanted in zip(program.run(FIRST, SECOND, on=on), module(FIRST, SECOND), strict=True):
            assert np.array_equal(found, wanted.numpy()), on


def test_places_become_columns_and_rows() -> None:
    def points(x: Tensor) -> tuple[Tensor, ...]:
        value, place = x.flatten(2).max(-1)
        return torch.stack([place % 13, torch.div(place, 13, rounding_mode="floor")], -1), value

    x = torch.randn(2, 3, 7, 13, generator=torch.Generator().manual_seed(1))
    program = pillion.compile(Call(points), (x,), target="imxrt700")
    for on in ON:
        assert np.array_equal(program.run(x, on=on)[0], points(x)[0].numpy())


def test_overflow_wraps_around() -> None:
    i = torch.tensor([2**31 - 1, -(2**31), 70000, -1], dtype=torch.int32)
    program = pillion.compile(
        Call(lambda i: (i + 1, i - 1, i * i, -i, i // -1, i % -1)), (i,), target="cortex-m33"
    )
    wanted = (i + 1, i - 1, i * i, -i, -i, i * 0)
    for on in ON:
        for found, exact in zip(program.run(i, on=on), wanted, strict=True):
            assert np.array_equal(found, exact.numpy())


def test_divisions_by_zero() -> None:
    i, zero = torch.tensor([5, -5, 0]), torch.zeros(3, dtype=torch.int64)
    with torch.no_grad():
        program = pillion.compile(Call(lambda i, j: (i // j, i % j)), (i, zero + 1), target="cortex-m33")
    for on in ON:
        quotient, remainder = program.run(i, zero, on=on)
        assert quotient.tolist() == [0, 0, 0]
        assert remainder.tolist() == [5, -5, 0]


def test_calibration_computes_as_the_program() -> None:
    rng = np.random.default_rng(3)
    for calculation in Calculation:
        a = rng.integers(-(2**31), 2**31 - 1, 500).astype(np.int32)
        b = np.concatenate([rng.integers(-40, 40, 400), rng.integers(-(2**31), 2**31 - 1, 100)]).astype(
            np.int32
        )
        y = Value("y", TensorType((), DType.INT32))
        op = make_op(
            IntegerArithmetic, y, a=constant_value("a", a), b=constant_value("b", b), calculation=calculation
        )
        found = integer_calculation(torch.from_numpy(a), torch.from_numpy(b), calculation.value)
        assert np.array_equal(op.reference(Arithmetic.CMSIS_NN, a, b), found.numpy()), calculation


@pytest.mark.parametrize(
    ("form", "said"),
    [
        (lambda i: i + 2**40, "has more"),
        (lambda i: i.argmax(1), ".float() makes it real"),
        (lambda i: torch.gcd(i, i + 1), "no form for whole numbers"),
    ],
)
def test_refused(form: Callable[..., Any], said: str) -> None:
    with pytest.raises(PillionError) as caught:
        pillion.compile(Call(form), (FIRST,), target="cortex-m33")
    assert said in caught.value.here
