# SPDX-License-Identifier: Apache-2.0
"""What a model makes of numbers alone is computed while it is compiled, whatever its size; what depends on data never is."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import pillion
from pillion.ops import Softmax
from pillion.program import Program
from plain_int8 import arrays_of, decibels, plain_answers

pytestmark = pytest.mark.torch


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def program_and_decibels(module: nn.Module, x: Tensor) -> tuple[Program, float, float]:
    """The program, its distance from the float model, and that of a plain simulation."""
    program = pillion.compile(module.eval(), (x,), target="cortex-m33")
    (wanted,) = arrays_of(module(x))
    plain = decibels(wanted, plain_answers(module, (x,))[0])
    return program, decibels(wanted, program.run(x)[0]), plain


class Causal(nn.Module):
    """Attention with a mask that is made in `forward`, each in one of the ways that people write it."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way

    def forward(self, x: Tensor) -> Tensor:
        length = x.shape[1]
        scores = x @ x.transpose(1, 2) / math.sqrt(x.shape[2])
        if self.way == "triu":
            scores = scores + torch.triu(torch.full((length, length), -math.inf), 1)
        elif self.way == "tril":
            scores = scores.masked_fill(torch.tril(torch.ones(length, length)) == 0, -math.inf)
        elif self.way == "arange":
            later = torch.arange(length)[None] > torch.arange(length)[:, None]
            scores = scores.masked_fill(later, -1e9)
        else:
            return F.scaled_dot_product_attention(x, x, x, is_causal=True)
        return torch.softmax(scores, -1) @ x


@pytest.mark.parametrize("way", ["triu", "tril", "arange", "is_causal"])
def test_causal_attention_over_more_than_64_steps(way: str) -> None:
    torch.manual_seed(0)
    program, ours, _ = program_and_decibels(Causal(way), numbers(1, 131, 8))
    assert [op for op in program.graph.ops if isinstance(op, Softmax)]
    assert ours > 25


class Positions(nn.Module):
    """A positional encoding that is written in `forward`, over what it was a moment before."""

    def forward(self, x: Tensor) -> Tensor:
        length, width = x.shape[1:]
        encoding = torch.zeros(length, width)
        y = x + encoding
        place = torch.arange(length).unsqueeze(1)
        rate = torch.exp(torch.arange(0, width, 2) * (-math.log(1e4) / width))
        encoding[:, 0::2] = torch.sin(place * rate)
        encoding[:, 1::2] = torch.cos(place * rate)
        z = y + encoding
        encoding += 1
        return z * encoding


def test_a_constant_is_written_while_the_model_is_compiled() -> None:
    program, ours, plain = program_and_decibels(Positions(), numbers(1, 131, 46))
    assert {op.kind for op in program.graph.ops} <= {"add", "mul", "quantize", "dequantize"}
    assert ours >= plain - 1


class Ramps(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        length, width = x.shape[1:]
        ramp = torch.linspace(0, 1, length * width).reshape(length, width)
        return x * ramp + torch.ones_like(ramp) * 0.5 + torch.eye(length, width)


def test_constants_of_tens_of_thousands_of_elements() -> None:
    program, ours, plain = program_and_decibels(Ramps(), numbers(1, 211, 163))
    assert len(program.graph.ops) <= 5
    assert ours >= plain - 1


class ReadThroughViews(nn.Module):
    """A constant that is written through some views and read through others."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way

    def forward(self, x: Tensor) -> Tensor:
        made = torch.zeros(4, 6)
        rows = made[1:3]
        if self.way == "one":
            made[2] = 1.0
        elif self.way == "rows":
            for number, row in enumerate(made):
                row[number] = 1.0
        elif self.way == "halves":
            left, right = made.chunk(2, 1)
            left += 1.0
            right -= 0.5
        else:
            torch.sin(torch.arange(24.0).reshape(4, 6), out=made)
        return x * made + rows.sum(1, keepdim=True).mean()


@pytest.mark.parametrize("way", ["one", "rows", "halves", "out"])
def test_a_constant_that_is_computed_from_a_written_one_is_computed_after_the_write(way: str) -> None:
    _, ours, plain = program_and_decibels(ReadThroughViews(way), numbers(4, 6))
    assert ours >= min(plain, 45)


class WrittenFromInput(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        made = torch.zeros(2, 5)
        made[:, 0] = x[:, 0]
        return made + x


def test_tensors_written_from_inputs_are_no_constants() -> None:
    """It is not answered with the numbers of the example."""
    program = pillion.compile(WrittenFromInput(), (numbers(2, 5),), target="cortex-m33")
    other = torch.flip(numbers(2, 5), [0, 1])
    wanted, found = WrittenFromInput()(other), program.run(other)[0]
    assert float((wanted - torch.from_numpy(found)).abs().max()) < 0.05


class WrittenBuffer(nn.Module):
    """It writes into a constant that belongs to the module, and must leave it as it is."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("held", torch.ones(5), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        copy = self.held.clone()  # type: ignore[operator]  # a buffer
        copy[1] = 3.0
        return x * copy


def test_a_copy_of_a_buffer_is_written_and_the_buffer_is_not() -> None:
    module = WrittenBuffer()
    _, ours, plain = program_and_decibels(module, numbers(3, 5))
    assert ours >= plain - 1
    assert torch.equal(module.get_buffer("held"), torch.ones(5))


class Autocast(nn.Module):
    """Scopes within scopes, on and off."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(7, 5)

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.linear(x)
            with torch.autocast("cpu", enabled=False), torch.no_grad():
                y = F.relu(y.float()) + 1
            z = self.linear(x) * 2
        with torch.autocast("cpu", enabled=False):
            return y + z.float()


def test_autocast_is_computed_in_float32_and_rounded_once() -> None:
    torch.manual_seed(0)
    program, ours, plain = program_and_decibels(Autocast(), numbers(3, 7))
    assert "linear" in {op.kind for op in program.graph.ops}
    assert ours >= plain - 2  # the float model rounds to 8 bits of mantissa, too


def test_casts_in_forward_round_no_constants() -> None:
    class Half(nn.Module):
        def __init__(self, dtype: torch.dtype) -> None:
            super().__init__()
            self.dtype = dtype

        def forward(self, x: Tensor) -> Tensor:
            return (x.to(self.dtype) * 3).float()

    x = numbers(3, 7)
    found = [
        pillion.compile(Half(dtype), (x,), target="cortex-m33").run(x)[0]
        for dtype in (torch.bfloat16, torch.float32)
    ]
    np.testing.assert_array_equal(*found)
