# SPDX-License-Identifier: Apache-2.0
"""Sigmoids and tanh have the range that calibration saw where it saw both answers, and otherwise the function's whole range."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import pillion
from pillion.errors import PillionWarning
from pillion.ops import Lut
from pillion.program import Program

pytestmark = pytest.mark.torch
USUAL = {"sigmoid": (1 / 256, -128), "tanh": (1 / 128, 0)}


class Scores(nn.Module):
    """Answers a function of a layer; `bias` moves it to one side, `gain` says how sure it is."""

    def __init__(self, function: str, gain: float = 0.3, bias: float = 0.0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.function = nn.Linear(11, 7), function
        with torch.no_grad():
            self.layer.weight *= gain
            self.layer.bias.fill_(bias)

    def forward(self, x: Tensor) -> Tensor:
        return getattr(torch, self.function)(self.layer(x))  # type: ignore[no-any-return]


class Gated(Scores):
    """The function inside a net."""

    def forward(self, x: Tensor) -> Tensor:
        return x[:, :7] * super().forward(x)


def data(count: int, seed: int = 0) -> list[Tensor]:
    made = torch.Generator().manual_seed(seed)
    return [torch.randn(1, 11, generator=made) for _ in range(count)]


def compiled(net: nn.Module, target: str = "cortex-m55", count: int = 12, **options: object) -> Program:
    samples = data(count)
    return pillion.compile(
        net.eval(),
        samples[0],
        target=target,
        calibrate=samples,
        progress=False,
        **options,  # type: ignore[arg-type]
    )


def parameters(program: Program) -> tuple[float, int]:
    """Scale and zero point of the function's result."""
    (op,) = [op for op in program.graph.ops if isinstance(op, Lut)]
    return op.y.scale, op.y.zero_point


def decibels(net: nn.Module, program: Program) -> float:
    samples = data(20, seed=1)
    with torch.no_grad():
        wanted = np.concatenate([net(x).double().numpy() for x in samples])
    found = np.concatenate([program.run(x)[0] for x in samples])
    return float(10 * np.log10(np.square(wanted).sum() / np.square(wanted - found).sum()))


CALIBRATED = (Scores("sigmoid"), Gated("sigmoid"), Gated("tanh"))
WHOLE = (
    Scores("sigmoid", bias=-4),
    Gated("sigmoid", bias=-4),
    Scores("tanh"),
    Scores("tanh", bias=2),
)


@pytest.mark.parametrize("net", CALIBRATED, ids=lambda net: f"{type(net).__name__} {net.function}")
def test_both_answers_in_calibration_give_finer_steps(net: Scores) -> None:
    assert parameters(compiled(net))[0] < 0.9 * USUAL[net.function][0]


def test_softmax_scores_near_one_half_gain_by_finer_steps() -> None:
    """Measured: 55.3 dB; with the usual steps 52.6."""
    net = Scores("sigmoid", 0.05)
    assert (
        decibels(net, compiled(net, count=30))
        >= decibels(net, compiled(net, count=30, arithmetic="tflite")) + 2.5
    )


@pytest.mark.parametrize("net", WHOLE, ids=lambda net: f"{type(net).__name__} {net.function}")
def test_data_without_a_hit_leave_the_whole_range(net: Scores) -> None:
    assert parameters(compiled(net)) == USUAL[net.function]


class Fused(Scores):
    """The function of a scaled and shifted number: one table."""

    def forward(self, x: Tensor) -> Tensor:
        return x[:, :7] * getattr(torch, self.function)(self.layer(x) * 0.5 + 0.1)  # type: ignore[no-any-return]


def test_fused_functions_follow_the_same_rule() -> None:
    for function, one_sided in (("sigmoid", -8.0), ("tanh", 4.0)):
        assert parameters(compiled(Fused(function)))[0] < 0.9 * USUAL[function][0]
        without_hit = Fused(function, bias=one_sided)
        assert parameters(compiled(without_hit)) == USUAL[function]
        assert parameters(compiled(without_hit, arithmetic="tflite")) == USUAL[function]


def test_outputs_have_room_and_end_with_the_function() -> None:
    """A few samples say how far others reach; fewer say nothing."""
    net = Scores("sigmoid", 0.8)
    with torch.no_grad():
        most = max(float(net(x).max()) for x in data(12))
    scale, zero_point = parameters(compiled(net))
    assert 1.03 * most < 255 * scale <= 1
    assert zero_point == -128
    assert parameters(compiled(net, count=3)) == USUAL["sigmoid"]


def test_npus_and_litert_get_the_whole_range() -> None:
    targets = ("cortex-m55+ethos-u55-128", "imxrt700")
    for options in (*({"target": name} for name in targets), {"arithmetic": "tflite"}):
        assert parameters(compiled(Gated("sigmoid"), **options)) == USUAL["sigmoid"]  # type: ignore[arg-type]


def test_ranges_that_are_asked_for_leave_it() -> None:
    for ranges in ("minmax", "mse"):
        tuning = pillion.Tuning(ranges=ranges)  # type: ignore[arg-type]
        assert parameters(compiled(Scores("sigmoid"), tuning=tuning)) == USUAL["sigmoid"]


class Remembered(nn.Module):
    """A state that a sigmoid computes, and a loop with gates."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.x = nn.Linear(5, 5), nn.Linear(11, 5)
        self.register_buffer("state", torch.zeros(1, 5))

    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros(1, 5)
        for _ in range(3):
            h = torch.sigmoid(self.layer(h) * 0.3 + self.x(x) * 0.3)
        self.state.copy_(torch.sigmoid(self.layer(self.state) * 0.3 + h))
        return self.state.clone()


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
@pytest.mark.nightly
def test_c_and_files_answer_the_same(tmp_path: Path) -> None:
    for net in (Gated("sigmoid"), Gated("tanh"), Remembered()):
        program, samples = compiled(net), data(3, seed=2)
        here, there = program.stream("reference"), program.stream("host")
        for x in samples:
            assert here.step(x)[0].tobytes() == there.step(x)[0].tobytes()
        program.save(tmp_path / "net.pte")
        again = pillion.load(tmp_path / "net.pte")
        for x in samples:
            assert program.run(x)[0].tobytes() == again.run(x)[0].tobytes()
        with pytest.warns(PillionWarning, match="steps of 1/256"):
            program.save(tmp_path / "net.tflite")
        coarse = pillion.compile(tmp_path / "net.tflite", target="cortex-m55")
        for x in samples:
            assert abs(coarse.run(x)[0] - program.run(x)[0]).max() <= 0.03
