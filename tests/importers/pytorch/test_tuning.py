# SPDX-License-Identifier: Apache-2.0
"""What helps where quantization costs much: ranges that leave out rare values, channels of one range, biases that take back shifts."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import pillion
from pillion import zoo
from pillion.errors import PillionError
from pillion.importers.torch.export import export
from pillion.importers.torch.quantize.bias_correction import _shrunk_mean_error
from pillion.importers.torch.quantize.equalize import equalize
from pillion.importers.torch.quantize.outlier_clipping import (
    BINS,
    KEPT,
    HistogramRange,
    _least_error,
    _percentile_range,
    _squared_errors,
    choose_ranges,
)
from pillion.importers.torch.rewrite.pipeline import rewrite_for_quantization
from pillion.importers.torch.train.trained_ranges import SMALLEST_SCALE
from pillion.program import Program

TARGET = "cortex-m33"


def samples(*shape: int, count: int = 16, seed: int = 0) -> list[Tensor]:
    made = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=made) for _ in range(count)]


def compiled(model: nn.Module, data: list[Tensor], calibrate: Any = None, **tuning: Any) -> Program:
    return pillion.compile(
        model.eval(),
        data[0],
        target=TARGET,
        calibrate=data if calibrate is None else calibrate,
        tuning=pillion.Tuning(**tuning),
        progress=False,
    )


def decibels(model: nn.Module, program: Program, data: list[Tensor]) -> float:
    with torch.no_grad():
        real = [model(x).numpy() for x in data]
    noise = sum(float(((program.run(x)[0] - y) ** 2).sum()) for x, y in zip(data, real, strict=True))
    return float(10 * np.log10(sum(float((y**2).sum()) for y in real) / noise))


class Branches(nn.Module):
    """A result that two layers read, and weights that two layers share: nothing can be shared out here."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = nn.Conv2d(3, 8, 1), nn.Conv2d(8, 8, 1), nn.Conv2d(8, 8, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x).relu()
        x = self.second(x) + x
        return self.third(self.third(x).relu())


def conv(*args: int, **options: Any) -> nn.Conv2d:
    return nn.Conv2d(*args, **options)


CHAINS: dict[str, tuple[nn.Module, tuple[int, ...], int]] = {
    "depthwise": (
        nn.Sequential(conv(3, 8, 1), nn.ReLU(), conv(8, 8, 3, groups=8), nn.LeakyReLU(), conv(8, 5, 1)),
        (1, 3, 7, 9),
        2,
    ),
    "groups": (nn.Sequential(conv(3, 8, 3), nn.ReLU(), conv(8, 6, 3, groups=2)), (2, 3, 7, 9), 1),
    "multiplier": (nn.Sequential(conv(3, 4, 3), conv(4, 12, 3, groups=4)), (1, 3, 7, 9), 1),
    "signals": (nn.Sequential(nn.Conv1d(3, 8, 3), nn.ReLU(), nn.Conv1d(8, 5, 3)), (1, 3, 17), 1),
    "rows": (nn.Sequential(nn.Linear(7, 9), nn.ReLU(), nn.Linear(9, 5)), (2, 3, 7), 1),
    "pools": (
        nn.Sequential(conv(3, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.AvgPool2d(2), conv(8, 5, 1)),
        (1, 3, 11, 13),
        1,
    ),
    "flattened": (
        nn.Sequential(conv(3, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(24, 5)),
        (1, 3, 7, 9),
        1,
    ),
    "mean": (
        nn.Sequential(conv(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 5)),
        (1, 3, 7, 9),
        1,
    ),
    "without bias": (nn.Sequential(conv(3, 8, 3, bias=False), nn.ReLU(), conv(8, 5, 1)), (1, 3, 7, 9), 1),
    "a bound": (nn.Sequential(conv(3, 8, 3), nn.ReLU6(), conv(8, 5, 1)), (1, 3, 7, 9), 0),
    "no such function": (nn.Sequential(conv(3, 8, 3), nn.Sigmoid(), conv(8, 5, 1)), (1, 3, 7, 9), 0),
    "branches": (Branches(), (1, 3, 7, 9), 0),
}


@pytest.mark.parametrize("name", CHAINS)
def test_equalization_keeps_float_results(name: str) -> None:
    model, shape, count = CHAINS[name]
    model = copy.deepcopy(model).eval()
    with torch.no_grad():
        for index, parameter in enumerate(model.parameters()):
            parameter.copy_(
                torch.randn(parameter.shape, generator=torch.Generator().manual_seed(index))
                * torch.logspace(-3, 1, parameter.shape[0]).reshape(-1, *[1] * (parameter.dim() - 1))
            )
        before = {key: value.clone() for key, value in model.state_dict().items()}
        data = samples(*shape)
        graph = rewrite_for_quantization(export(model, (data[0],)).module(check_guards=False))
        assert equalize(graph, [(x,) for x in data]) == count
        for x in data:
            wanted = model(x)
            assert torch.allclose(graph(x), wanted, rtol=1e-4, atol=1e-5 * float(wanted.abs().max()))
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


class Hostile(nn.Module):
    """Depthwise layers whose channels reach up to 1024 times as far as others, which the layers behind take back."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(4)
        parts: list[nn.Module] = [conv(3, 16, 3, padding=1), nn.ReLU()]
        for _ in range(2):
            parts += [conv(16, 16, 3, padding=1, groups=16), nn.ReLU(), conv(16, 16, 1), nn.ReLU()]
        self.parts, self.head = nn.Sequential(*parts), nn.Linear(16, 10)
        layers = [part for part in parts if isinstance(part, nn.Conv2d)]
        with torch.no_grad():
            for maker, reader in zip(layers[1::2], layers[2::2], strict=True):
                gains = 2.0 ** (-10 * torch.rand(16))
                maker.weight *= gains.reshape(-1, 1, 1, 1)
                assert maker.bias is not None
                maker.bias *= gains
                reader.weight /= gains.reshape(1, -1, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.parts(x).mean((2, 3)))


def test_channels_of_very_different_ranges() -> None:
    model, data = Hostile(), samples(1, 3, 9, 11, count=8)
    neither, equal, both = (
        compiled(model, data, equalize=equalize, correct_biases=correct)
        for equalize, correct in ((False, False), (True, False), (True, True))
    )
    found = [decibels(model, program, data) for program in (neither, equal, both)]
    assert found[1] > found[0] + 8
    assert found[2] > found[0] + 8


class Recurrent(nn.Module):
    """Steps of a layer that reads what it has made, with weights of few levels beside a large one."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.x, self.h = nn.Linear(6, 16), nn.Linear(16, 16, bias=False)
        with torch.no_grad():
            self.x.weight += 0.5
            self.x.weight[:, 0] *= 40

    def forward(self, x: Tensor) -> Tensor:
        h = x.new_zeros(1, 16)
        for t in range(12):
            h = torch.relu(self.x(x[:, t]) + self.h(h)) * 0.5
        return h


def mean_shift(model: nn.Module, data: list[Tensor], **tuning: bool) -> float:
    """How far the outputs of a program are from float in the mean over samples."""
    program = compiled(model, data, **tuning)
    with torch.no_grad():
        off = [program.run(x)[0] - model(x).numpy() for x in data]
    return float(np.abs(np.mean(off, axis=0)).mean())


@pytest.mark.turns(2)
@pytest.mark.parametrize(
    ("model", "shape", "part"), [(Hostile, (1, 3, 9, 11), 1 / 3), (Recurrent, (1, 12, 6), 2 / 3)]
)
def test_bias_correction_restores_channel_means(
    model: type[nn.Module], shape: tuple[int, ...], part: float
) -> None:
    """The means of the channels, which rounded weights shift, come back; also in loops, and of layers without biases."""
    net, data = model(), samples(*shape)
    data = [x.abs() for x in data] if model is Recurrent else data
    assert mean_shift(net, data) < part * mean_shift(net, data, correct_biases=False)
    before = net.state_dict()
    assert all(torch.equal(value, before[key]) for key, value in model().state_dict().items())


@pytest.mark.turns(3)
def test_biases_stay_where_a_correction_moves_other_samples_away() -> None:
    """Of eight inputs of noise, each half would correct a narrow MobileNet so that the other half has twice the error."""
    net, (x,) = zoo.build("mobilenet_v1_025", None)
    made = torch.Generator().manual_seed(0)
    data = [
        nn.functional.avg_pool2d(torch.randn(tuple(x.shape), generator=made), 3, 1, 1) * 3 for _ in range(8)
    ]
    assert compiled(net, data).text() == compiled(net, data, correct_biases=False).text()


def test_biases_stay_where_samples_are_few_or_errors_are_chance() -> None:
    model, data = Hostile(), samples(1, 3, 9, 11, count=3)
    assert compiled(model, data).text() == compiled(model, data, correct_biases=False).text()
    errors = torch.tensor([[1.0, 5.0], [-1.0, 5.5], [0.9, 4.5], [-1.0, 5.0]], dtype=torch.float64)
    shift = _shrunk_mean_error(errors)
    assert shift[0] == 0
    assert 4.9 < shift[1] < 5


def test_far_outliers_are_clipped() -> None:
    """One number in 20,000 is forty times as large as the others; what is judged are the others."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(100, 32), nn.ReLU(), nn.Linear(32, 8))
    data, judged = samples(1, 100, count=200), samples(1, 100, count=20, seed=9)
    data[7][0, 3] = 150.0
    usual, kept = (
        decibels(model, compiled(model, data, ranges=ranges), judged) for ranges in ("minmax", "percentile")
    )
    assert kept > usual + 6


def observer(symmetric: bool = False) -> HistogramRange:
    scheme = torch.per_tensor_symmetric if symmetric else torch.per_tensor_affine
    low = -127 if symmetric else -128
    return HistogramRange(dtype=torch.int8, qscheme=scheme, quant_min=low, quant_max=127, eps=SMALLEST_SCALE)


def test_bins_grow_without_losing_a_value() -> None:
    counted, total = observer(), 0
    for number, width in enumerate((0.01, 3.0, 0.2, 1000.0, 7.0)):
        x = torch.randn(1000 + number) * width
        assert counted(x) is x
        total += x.numel()
    counted(torch.zeros(0))
    counted(torch.zeros(5))
    assert int(counted.counts.sum()) == total + 5
    assert counted.reach >= float(counted.max_val.abs())
    assert counted.counts.numel() == BINS


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("shape", ["bell", "one side", "spikes"])
def test_the_least_error_is_no_larger_than_that_of_all_values(symmetric: bool, shape: str) -> None:
    x = torch.randn(20_000, generator=torch.Generator().manual_seed(1))
    x = {"bell": x, "one side": x.relu(), "spikes": torch.where(x > 3.5, x * 40, x)}[shape]
    counted = observer(symmetric)
    counted(x)
    low, high = min(0.0, float(x.min())), float(x.max())
    found = _least_error(counted, low, high)
    assert low <= found[0] <= 0 <= found[1] <= high
    ends = torch.tensor([[low, found[0]], [high, found[1]]], dtype=torch.float64)
    errors = _squared_errors(counted, ends[0], ends[1])
    assert float(errors[1]) <= float(errors[0])
    if shape == "bell" and not symmetric:
        assert found[1] < high


def test_percentiles_contain_their_share() -> None:
    x = torch.randn(200_000, generator=torch.Generator().manual_seed(1))
    counted = observer()
    counted(x)
    low, high = _percentile_range(counted, float(x.min()), float(x.max()))
    outside = float(((x < low) | (x > high)).float().mean())
    assert outside <= 1 - KEPT
    assert high < float(x.max())
    one_sided = observer()
    one_sided(x.relu())
    assert _percentile_range(one_sided, 0.0, float(x.max()))[0] == 0.0


def test_a_generator_is_gone_through_once_and_wholly() -> None:
    data, given = samples(1, 6, count=70), []
    model = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))

    def generator() -> Iterator[tuple[Tensor, int]]:
        for number, x in enumerate(data):
            given.append(number)
            yield x, 3

    everything: dict[str, Any] = {"equalize": True, "ranges": "mse"}
    from_generator = compiled(model, data, generator(), **everything)
    assert given == list(range(70))
    assert from_generator.text() == compiled(model, data, **everything).text()


def test_tuning_is_off_by_default() -> None:
    data = samples(1, 3, 9, 11, count=3)
    usual = pillion.compile(Hostile().eval(), data[0], target=TARGET, calibrate=data, progress=False)
    assert usual.text() == compiled(Hostile(), data).text()


def test_refusals(tmp_path: Path) -> None:
    with pytest.raises(PillionError, match="ranges"):
        pillion.Tuning(ranges="best")  # type: ignore[arg-type]  # on purpose
    prepared = pillion.prepare_qat(nn.Linear(3, 2), torch.ones(1, 3), TARGET)
    prepared(torch.ones(1, 3))
    with pytest.raises(PillionError, match="prepared for training"):
        compiled(prepared, samples(1, 3), equalize=True)
    layer = pillion.compile(
        nn.Linear(3, 2), torch.ones(1, 3), target=TARGET, io_dtype="int8", arithmetic="tflite"
    )
    (tmp_path / "m.tflite").write_bytes(layer.tflite())
    with pytest.raises(PillionError, match="ranges, weights and inputs inside"):
        pillion.compile(tmp_path / "m.tflite", target=TARGET, tuning=pillion.Tuning(equalize=True))


def test_channels_in_loops_over_time_are_left_as_they_are() -> None:
    class Loop(nn.Module):
        """A layer that is run for each element of a sequence."""

        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.head = nn.LSTM(4, 6, batch_first=True), nn.Linear(6, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.lstm(x)[0][:, -1])

    data = samples(1, 5, 4, count=3)
    with pytest.warns(UserWarning, match="left out: the model has a loop"):
        program = compiled(Loop(), data, equalize=True, ranges="mse")
    assert decibels(Loop(), compiled(Loop(), data), data) > -100
    assert program.graph.ops


def with_tails(count: int) -> Tensor:
    made = torch.Generator().manual_seed(3)
    signs = torch.randn(count, generator=made).sign()
    return signs * -torch.rand(count, generator=made).clamp(min=1e-9).log()


@pytest.mark.parametrize(
    ("x", "narrowed"),
    [
        (with_tails(200_000), True),
        (with_tails(4000), False),
        (torch.linspace(-3, 5, 50_000), False),
        (torch.tensor([0.001, 100.0] * 2000), False),
    ],
    ids=["tails", "few values", "even", "two values"],
)
def test_by_itself_a_range_is_narrowed_where_that_is_worth_it(x: Tensor, narrowed: bool) -> None:
    counted = observer()
    counted(x)
    choose_ranges(nn.Sequential(counted), "auto")  # type: ignore[arg-type]  # observers are looked for in any module
    whole = float(x.min()), float(x.max())
    assert ((float(counted.min_val), float(counted.max_val)) != pytest.approx(whole)) is narrowed


def test_without_data_the_whole_range_of_the_example_counts() -> None:
    torch.manual_seed(0)
    model, x = nn.Linear(64, 4), with_tails(200_000)[:199_680].reshape(-1, 64)
    usual, whole, narrowed = (
        pillion.compile(model, x, target=TARGET, progress=False, **options)
        for options in (
            {},
            {"tuning": pillion.Tuning(ranges="minmax"), "calibrate": [x]},
            {"calibrate": [x]},
        )
    )
    assert usual.text() == whole.text()
    assert narrowed.text() != whole.text()
