# SPDX-License-Identifier: Apache-2.0
"""Whole numbers of 8 and 16 bits: the program answers exactly what PyTorch answers, which wraps where their bits end."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import pillion
from pillion.errors import PillionError

pytestmark = [pytest.mark.torch]
ON = ("reference", "host") if shutil.which("cc") else ("reference",)
TYPES = (torch.int8, torch.int16)


class Call(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(*inputs)


def drawn(dtype: torch.dtype, seed: int) -> Tensor:
    """Any numbers of a type, its ends among them."""
    ends = torch.iinfo(dtype)
    source = torch.Generator().manual_seed(seed)
    numbers = torch.randint(ends.min, ends.max + 1, (3, 7), generator=source)
    numbers[0, 0], numbers[1, 3], numbers[2, 6] = ends.min, ends.max, ends.min
    return numbers.to(dtype)


FORMS: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "sums": lambda a, b: (a + b, a - b, a * b, a * b + a, -a, a.abs(), (a * b) // 3, a**2),
    "bits": lambda a, b: (a & b, a | b, a ^ 3, ~a, a << (b & 7), a >> (b & 7), a << 2),
    "types": lambda a, b: (
        a.long() * b.long(),
        a.int() + b,
        a.to(torch.int8),
        a.to(torch.int16),
        a.to(torch.uint8),
        (a.int() * 300).to(torch.int8),
        a > 0,
    ),
    "choices": lambda a, b: (
        torch.where(a > b, a, 0) + b,
        torch.where(a > b, a, b),
        a.clamp(-5, 9),
        a.masked_fill(a < 0, 3),
    ),
    "moves": lambda a, b: (a.flip(1), torch.cat([a, b], 1), a.t(), a.unfold(1, 3, 2), a[:, [0, 3]]),
    "reductions": lambda a, b: (a.sum(1), a.cumsum(1), a.amax(1), b.max(), a.sum()),
    "constants": lambda a, b: (
        a + torch.full((7,), 100, dtype=a.dtype),
        torch.where(a > 0, torch.tensor(5, dtype=a.dtype), b),
        torch.cat([a, torch.zeros(3, 2, dtype=a.dtype)], 1),
    ),
    "an input alone": lambda a, b: (a, b),
}


@pytest.mark.turns(6)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", FORMS)
def test_exact(name: str, dtype: torch.dtype) -> None:
    module, inputs = Call(FORMS[name]), (drawn(dtype, 1), drawn(dtype, 2))
    program = pillion.compile(module, inputs, target="cortex-m33")
    assert {value.dtype.value for value in program.graph.inputs} == {str(dtype).removeprefix("torch.")}
    for on in ON:
        for found, wanted in zip(program.run(*inputs, on=on), module(*inputs), strict=True):
            assert np.array_equal(found, wanted.numpy()), on


def test_signed_bytes_are_real_numbers_at_once() -> None:
    x = drawn(torch.int8, 3)
    program = pillion.compile(Call(lambda x: (x.float(), x.argmax(1))), (x,), target="cortex-m33")
    for on in ON:
        real, place = program.run(x, on=on)
        assert np.array_equal(real, x.float().numpy())
        assert np.array_equal(place, x.argmax(1).numpy())


def test_samples_of_a_microphone() -> None:
    """16 bits in, the net in 8: as near as its input rounded to 256 levels is."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv1d(1, 4, 5, stride=3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 20, 3)).eval()
    x = (torch.randn(1, 1, 62) * 8000).to(torch.int16)
    module = Call(lambda x: net(x.float() / 32768))
    program = pillion.compile(module, (x,), target="cortex-m55")
    wanted = module(x).detach().numpy()
    (found,) = program.run(x)
    assert np.abs(found - wanted).max() < 0.05 * np.abs(wanted).max()
    for on in ON:
        assert np.array_equal(program.run(x, on=on)[0], found)


@pytest.mark.parametrize("dtype", TYPES)
def test_files_hold_them(dtype: torch.dtype, tmp_path: Path) -> None:
    """A `.tflite` file answers the same, here and in LiteRT; a `.pte` is refused with a way out."""
    x = drawn(dtype, 4)
    program = pillion.compile(Call(lambda x: (x + x, x.float() * 0.5, x > 3)), (x,), target="cortex-m33")
    file = tmp_path / "net.tflite"
    file.write_bytes(program.tflite())
    again = pillion.compile(file, target="cortex-m33")
    runtimes = [*ON, *(["litert"] if importlib.util.find_spec("ai_edge_litert") else [])]
    for on in runtimes:
        for wanted, found in zip(program.run(x), again.run(x, on=on), strict=True):
            assert np.array_equal(wanted, found), on
    with pytest.raises(PillionError) as refused:
        program.pte()
    assert "-o folder/" in refused.value.help


def test_places_of_the_largest_of_16_bits_are_refused() -> None:
    with pytest.raises(PillionError) as refused:
        pillion.compile(Call(lambda x: x.argmax(1)), (drawn(torch.int16, 5),), target="cortex-m33")
    assert ".float() makes it real" in refused.value.here
