# SPDX-License-Identifier: Apache-2.0
"""Power and magnitude of spectra, as models write them, are one op that is near the float model."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import pillion
from pillion.importers.torch.rewrite.fuse_magnitudes import is_monotonic
from pillion.ops import Add, Lut, Magnitude

Join = Callable[[Tensor, Tensor], Tensor]


class Spectrum(nn.Module):
    """Windowed sines and cosines over frames, and what is made of both."""

    def __init__(self, join: Join, bins: int = 17) -> None:
        super().__init__()
        angles = torch.arange(bins)[:, None] * torch.arange(32) * 2 * math.pi / 32
        window = torch.hann_window(32)
        self.register_buffer("cosines", (torch.cos(angles) * window)[:, None])
        self.register_buffer("sines", (torch.sin(angles) * window)[:, None])
        self.join = join

    def forward(self, x: Tensor) -> Tensor:
        real, imaginary = (F.conv1d(x, held, stride=16) for held in (self.cosines, self.sines))
        return self.join(real, imaginary)


def sounds(count: int, seed: int) -> list[Tensor]:
    made = torch.Generator().manual_seed(seed)
    noise = [torch.randn(1, 1, 512, generator=made) for _ in range(count)]
    return [x + x.roll(1, -1) + x.roll(2, -1) for x in noise]


def compiled(net: nn.Module, target: str = "cortex-m55", **options: object) -> pillion.Program:
    data = sounds(8, 0)
    return pillion.compile(net, data[0], target=target, calibrate=data, progress=False, **options)  # type: ignore[arg-type]


def decibels(net: nn.Module, program: pillion.Program) -> float:
    judged = sounds(3, 1)
    with torch.no_grad():
        real = np.concatenate([net(x).numpy() for x in judged])
    noise = np.concatenate([program.run(x)[0] for x in judged]) - real
    return float(10 * np.log10((real**2).sum() / (noise**2).sum()))


WRITTEN: dict[str, tuple[Join, float]] = {
    "log of squares": (lambda a, b: torch.log(a**2 + b**2 + 1e-3), 21),
    "decibels": (lambda a, b: 10 * torch.log10((a.square() + b.square()).clamp(min=1e-3)), 22),
    "magnitude": (lambda a, b: torch.sqrt(a * a + b * b + 1e-9), 33),
    "a power of it": (lambda a, b: (a.pow(2) + b.pow(2)) ** 0.3, 30),
    "power within bounds": (lambda a, b: (a * a + b * b).clamp(0.5, 40), 25),
    "power": (lambda a, b: a * a + b * b, 25),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_each_way_of_writing_it_is_one_op(name: str) -> None:
    join, least = WRITTEN[name]
    program = compiled(Spectrum(join))
    assert [type(op) for op in program.graph.ops if isinstance(op, (Add, Lut, Magnitude))] == [Magnitude]
    assert decibels(Spectrum(join), program) > least


def test_magnitudes_equal_on_the_host_and_tflite_warns() -> None:
    program = compiled(Spectrum(WRITTEN["log of squares"][0]))
    for x in sounds(2, 2):
        assert np.array_equal(program.run(x)[0], program.run(x, on="host")[0])
    program = compiled(Spectrum(lambda a, b: torch.sqrt(a * a + b * b)))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert program.tflite()[4:8] == b"TFL3"
        assert program.pte()
    assert sum("squares that are added up have 8 bits there" in str(one.message) for one in said) == 2


@pytest.mark.parametrize("options", [{"target": "imxrt700"}, {"arithmetic": "tflite"}])
def test_npu_targets_keep_products_instead_of_magnitudes(options: dict[str, str]) -> None:
    program = compiled(Spectrum(WRITTEN["magnitude"][0]), **options)  # type: ignore[arg-type]
    assert not any(isinstance(op, Magnitude) for op in program.graph.ops)


@pytest.mark.parametrize(
    "join",
    [
        lambda a, b: a * a + torch.cat([b, b], 1)[:, :1] ** 2,
        lambda a, b: a * b + b * b,
        lambda a, b: 2 * (a * a) + b * b,
    ],
    ids=["other shapes", "a product", "a factor"],
)
def test_other_sums_of_products_are_left(join: Join) -> None:
    program = compiled(Spectrum(join))
    assert not any(isinstance(op, Magnitude) for op in program.graph.ops)


def test_a_function_that_turns_is_a_table_behind_the_power() -> None:
    program = compiled(Spectrum(lambda a, b: torch.cos(0.01 * (a * a + b * b))))
    assert [type(op) for op in program.graph.ops if isinstance(op, (Magnitude, Lut))] == [Magnitude, Lut]


def test_powers_with_other_readers_stay() -> None:
    def join(a: Tensor, b: Tensor) -> Tensor:
        power = a * a + b * b
        return torch.cat([torch.log(power + 0.01), power], 1)

    assert sum(isinstance(op, Magnitude) for op in compiled(Spectrum(join)).graph.ops) == 1


def test_monotonic_functions_are_recognized() -> None:
    def step(name: str, *args: float) -> tuple[tuple[str, tuple[object, ...], tuple[()]], ...]:
        return ((name, (("result", 0), *args), ()),)

    assert is_monotonic(step("log.default"))
    assert is_monotonic(step("reciprocal.default"))
    assert not is_monotonic(step("sin.default"))
    assert not is_monotonic(step("acos.default"))  # of most numbers it has no value
