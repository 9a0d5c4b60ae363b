# SPDX-License-Identifier: Apache-2.0
"""Functions of one number are tables: as near to PyTorch as eight bits are, and defined where the function is not."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import pillion
from pillion.ops import Add, Clamp, Lut, Mul
from pillion.targets import npu_targets
from plain_int8 import arrays_of, decibels, plain_answers

pytestmark = pytest.mark.torch

Function = Callable[[Tensor], Tensor]
ALLOWED = 1.0
"""Decibels that a table may lose against rounding once, by the rounding of its operand."""
OF_JUMPS = {"decimals": 2.0}
"""And by how near a jump is to the middle between two levels, which moves with the range."""


class Call(nn.Module):
    """A function as a module, with a parameter that it may use."""

    def __init__(self, function: Callable[..., Any], **held: Tensor) -> None:
        super().__init__()
        self.function = function
        for name, tensor in held.items():
            setattr(self, name, nn.Parameter(tensor))

    def forward(self, x: Tensor) -> Any:
        return self.function(self, x) if self._parameters else self.function(x)


def normal(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(3))


SIGNED = normal(2, 3, 11, 7)
POSITIVE = SIGNED.abs() + 0.1
INSIDE = torch.rand((2, 3, 11, 7), generator=torch.Generator().manual_seed(4)) * 1.9 - 0.95
infinite = math.inf

FUNCTIONS: dict[str, tuple[Function, Tensor]] = {
    **{name: (getattr(torch, name), INSIDE) for name in ("acos", "asin", "atanh", "erfinv", "tan")},
    **{
        name: (getattr(torch, name), SIGNED)
        for name in (
            *(
                "atan",
                "asinh",
                "sinh",
                "cosh",
                "ceil",
                "floor",
                "trunc",
                "frac",
                "round",
                "expm1",
                "sign",
                "sgn",
            ),
            *("square", "sin", "cos", "erf", "erfc", "exp", "exp2", "abs", "neg", "sinc", "i0", "deg2rad"),
        )
    },
    **{
        name: (getattr(torch, name), POSITIVE)
        for name in ("log", "log2", "log10", "log1p", "sqrt", "rsqrt", "lgamma", "digamma")
    },
    **{
        f"special.{name}": (getattr(torch.special, name), SIGNED)
        for name in ("expit", "ndtr", "log_ndtr", "i0e", "i1", "i1e", "bessel_j0", "bessel_j1")
    },
    "acosh": (torch.acosh, POSITIVE + 1),
    "erfcx": (torch.special.erfcx, POSITIVE),  # e^(x^2) on the other side: one number decides
    "logit": (torch.logit, INSIDE.abs()),
    "logit within eps": (lambda x: torch.logit(x, eps=0.01), INSIDE.abs()),
    "entropy": (torch.special.entr, POSITIVE),
    "ndtri": (torch.special.ndtri, INSIDE.abs() + 0.01),
    "remainder": (lambda x: x % 0.7, SIGNED),
    "fmod": (lambda x: torch.fmod(x, 0.7), SIGNED),
    "floor division": (lambda x: x // 0.7, SIGNED),
    "truncating division": (lambda x: torch.div(x, 0.7, rounding_mode="trunc"), SIGNED),
    "decimals": (lambda x: torch.round(x, decimals=1), SIGNED),
    "elu with scales": (lambda x: torch.ops.aten.elu(x, 1.5, 0.7, 2.0), SIGNED),
    "celu": (lambda x: F.celu(x, 2.0), SIGNED),
    "selu": (F.selu, SIGNED),
    "rrelu": (F.rrelu, SIGNED),
    "hardtanh to infinity": (lambda x: F.hardtanh(x, -1.0, infinite), SIGNED),
    "hardtanh from infinity": (lambda x: F.hardtanh(x, -infinite, 0.5), SIGNED),
    "softplus with beta": (lambda x: F.softplus(x, 2.0, 3.0), SIGNED),
    "softsign": (F.softsign, SIGNED),
    "tanhshrink": (F.tanhshrink, SIGNED),
    "hardshrink": (F.hardshrink, SIGNED),
    "softshrink": (F.softshrink, SIGNED),
    "threshold": (lambda x: F.threshold(x, 0.2, -0.3), SIGNED),
    "logsigmoid": (F.logsigmoid, SIGNED),
    "nan to number": (lambda x: torch.nan_to_num(x, 0.0, 1.0, -1.0), SIGNED),
    "power of a tensor": (lambda x: x ** torch.tensor(3.0), POSITIVE),
    "tensor to the power": (lambda x: torch.tensor(2.0) ** x, SIGNED),
    "number to the power": (lambda x: 2**x, SIGNED),
    "xlogy": (lambda x: torch.xlogy(x, torch.tensor(2.0)), SIGNED),
    "atan2": (lambda x: torch.atan2(x, torch.tensor(2.0)), SIGNED),
    "hypot": (lambda x: torch.hypot(x, torch.tensor(2.0)), SIGNED),
    "heaviside": (lambda x: torch.heaviside(x, torch.tensor(0.5)), SIGNED),
    "copysign": (lambda x: torch.copysign(x, torch.tensor(-1.0)), SIGNED),
    "polygamma": (lambda x: torch.polygamma(1, x), POSITIVE),
    "gelu by hand": (lambda x: 0.5 * x * (1 + torch.tanh(0.79788456 * (x + 0.044715 * x**3))), SIGNED),
    "softsign by hand": (lambda x: x / (1 + x.abs()), SIGNED),
}


@pytest.mark.turns(6)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_tables_are_as_near_as_eight_bits_are(name: str) -> None:
    function, x = FUNCTIONS[name]
    module = Call(function).eval()
    (found,) = pillion.compile(module, (x,), target="cortex-m33").run(x)
    (wanted,) = arrays_of(module(x.clone()))
    assert decibels(wanted, found) >= decibels(wanted, plain_answers(module, (x,))[0]) - OF_JUMPS.get(
        name, ALLOWED
    )


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_the_host_equals_the_reference() -> None:
    """All functions of one operand together."""
    functions = [function for function, x in FUNCTIONS.values() if x is SIGNED]
    program = pillion.compile(
        Call(lambda x: tuple(f(x) for f in functions)).eval(), (SIGNED,), target="cortex-m33"
    )
    wanted, found = program.run(SIGNED), program.run(SIGNED, on="host")
    assert len(wanted) == len(functions)
    assert all(np.array_equal(a, b) for a, b in zip(wanted, found, strict=True))


def tables(module: nn.Module, x: Tensor, target: str = "cortex-m33") -> list[str]:
    """The kinds of the ops that compute."""
    program = pillion.compile(module.eval(), (x,), target=target)
    ops = [entry.op for entry in program.ledger]
    return [op.kind for op in ops if isinstance(op, (Lut, Add, Mul, Clamp))]


def test_an_expression_is_one_table() -> None:
    assert tables(Call(lambda x: x / (1 + x.abs())), SIGNED) == ["lut"]
    assert tables(Call(lambda x: torch.floor(x * 3 + 0.5) / 3 - 1), SIGNED) == ["lut"]
    assert tables(Call(lambda m, x: x.pow(m.p), p=torch.ones(1) * 3.1), POSITIVE) == ["lut"]


NAMED = Call(lambda x: x * torch.sigmoid(1.5 * x))


@pytest.mark.parametrize("npu", sorted({t.npu.name: t.name for t in npu_targets() if t.npu}.values()))
def test_functions_that_an_npu_has_by_name_stay(npu: str) -> None:
    assert tables(NAMED, SIGNED, npu) == ["mul", "lut", "mul"]


def test_a_core_has_tables_of_all() -> None:
    assert tables(NAMED, SIGNED) == ["lut"]
    assert tables(Call(lambda x: 10 * torch.log10(x + 0.5)), POSITIVE) == ["lut"]
    assert tables(Call(lambda x: torch.exp(-((x / 0.6) ** 2))), SIGNED) == ["lut"]
    assert tables(Call(lambda x: 2 * x + 1), SIGNED) == ["mul", "add"]
    with torch.no_grad():
        trained = pillion.prepare_qat(NAMED, (SIGNED,), target="cortex-m33")
        trained(SIGNED)
    assert tables(trained, SIGNED) == ["lut"]


def test_a_clamp_before_a_function_stays_the_layers_range() -> None:
    conv = nn.Conv2d(3, 4, 1)
    module = Call(lambda x: conv(x).clamp(min=1e-6) ** 3)
    ops = pillion.compile(module.eval(), (SIGNED,), target="cortex-m33").graph.ops
    assert [op.kind for op in ops if op.kind in ("conv2d", "clamp", "lut")] == ["conv2d", "lut"]


def test_tensors_with_other_readers_are_not_fused() -> None:
    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        y = torch.floor(x * 2)
        return y, y / 3 + torch.ceil(y * 0.4)

    module = Call(function)
    found = pillion.compile(module, (SIGNED,), target="cortex-m33").run(SIGNED)
    plain = plain_answers(module, (SIGNED,))
    for ours, wanted, theirs in zip(found, arrays_of(function(SIGNED)), plain, strict=True):
        assert decibels(wanted, ours) >= decibels(wanted, theirs) - ALLOWED


def test_two_tensors_are_no_expression() -> None:
    """Of one shape, or of shapes that broadcast."""
    module = Call(lambda x: torch.floor(x) * x.flip(1) + torch.floor(x[:, :1]))
    (found,) = pillion.compile(module, (SIGNED,), target="cortex-m33").run(SIGNED)
    assert decibels(arrays_of(module(SIGNED))[0], found) > 15


@pytest.mark.nightly
def test_a_long_expression_is_several_tables() -> None:
    def function(x: Tensor) -> Tensor:
        for _ in range(70):
            x = torch.floor(x * 8) / 8
        return x

    assert 2 <= tables(Call(function), SIGNED).count("lut") <= 6


@pytest.mark.parametrize(
    ("function", "beyond", "end"),
    [
        (torch.acos, -1.5, math.pi),
        (torch.acos, 1.5, 0.0),
        (torch.asin, -1.5, -math.pi / 2),
        (lambda x: torch.logit(x.abs() * 0.9 + 0.05) * 1.0, 1.3, math.log(0.95 / 0.05)),
    ],
)
def test_where_a_function_is_not_defined_it_has_its_nearest_value(
    function: Function, beyond: float, end: float
) -> None:
    """The range of the operand is widened by a second reader, so that numbers beyond 1 have levels of their own."""
    inside = torch.linspace(-1, 1, 64).reshape(1, 64)
    module = Call(lambda x: (function(x[:, :64]), x))
    x = torch.cat([inside, torch.full((1, 1), 2.0)], 1)
    program = pillion.compile(module, (x,), target="cortex-m33")
    found = program.run(torch.full((1, 65), beyond))[0]
    assert np.abs(found - end).max() < 0.2  # the last level within 1 is that far from 1


def test_channels_have_exponents_of_their_own() -> None:
    module = Call(lambda m, x: x.pow(m.p), p=torch.tensor([1.5, 2.0, 3.0]).reshape(3, 1, 1))
    (found,) = pillion.compile(module, (POSITIVE,), target="cortex-m33").run(POSITIVE)
    (wanted,) = arrays_of(module(POSITIVE))
    assert decibels(wanted, found) >= decibels(wanted, plain_answers(module, (POSITIVE,))[0]) - 3
