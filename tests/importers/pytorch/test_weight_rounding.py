# SPDX-License-Identifier: Apache-2.0
"""Weights that are rounded for the samples that calibrate: errors of inputs that go together cancel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import pillion
from pillion import compensated_rounding
from pillion.compensated_rounding import BLOCK, compensated, nearest
from pillion.errors import PillionWarning
from pillion.importers.torch.export import export
from pillion.importers.torch.fx_nodes import calls
from pillion.importers.torch.quantize.bias_correction import LAYERS
from pillion.importers.torch.quantize.weight_rounding import MOST_WINDOWS, layer_windows
from pillion.ops import Linear

TARGET = "cortex-m55"


def smooth(*shape: int, count: int = 16, seed: int = 0, width: int = 9) -> list[Tensor]:
    """Inputs whose neighbours along the last axis are nearly equal, as in pictures and sounds."""
    made = torch.Generator().manual_seed(seed)
    drawn = torch.randn(count, *shape[:-1], shape[-1] + width - 1, generator=made)
    return list(drawn.unfold(-1, width, 1).mean(-1) * width**0.5 + 0.5)


def compiled(
    model: nn.Module,
    data: Sequence[Tensor],
    rounding: str = "fitted",
    precision: str = "int16",
    **tuning: Any,
) -> pillion.Program:
    options: Any = {"weight_rounding": rounding, "precision": precision, **tuning}
    torch.set_num_threads(1)
    return pillion.compile(
        model.eval(),
        data[0],
        target=TARGET,
        calibrate=list(data),
        tuning=pillion.Tuning(**options),
        progress=False,
    )


def noise(model: nn.Module, program: pillion.Program, data: Sequence[Tensor]) -> float:
    with torch.no_grad():
        return sum(float(((program.run(x)[0] - model(x).numpy()) ** 2).sum()) for x in data)


def weights_of(program: pillion.Program) -> list[list[int]]:
    return [op.weights.constant.ravel().tolist() for op in program.graph.ops if hasattr(op, "weights")]


def test_a_program_says_whose_weights_are_fitted() -> None:
    torch.manual_seed(0)
    net, data = nn.Sequential(nn.Linear(60, 6), nn.ReLU(), nn.Linear(6, 4)), smooth(1, 60)
    program, plain = compiled(net, data, "auto"), compiled(net, data, "nearest")
    assert [one.fitted_layers for one in (program, plain)] == [1, 0]
    assert "weights of 1 layer rounded for the calibration samples" in program.precision_texts
    assert plain.precision_texts == ()


def are_nearest(model: nn.Module, program: pillion.Program) -> bool:
    """Whether the levels of all linear layers, which share one weight if they are several, are the nearest in their steps."""
    (real,) = (one.weight.detach().double().numpy() for one in model.modules() if isinstance(one, nn.Linear))
    return all(
        np.array_equal(op.weights.constant, np.rint(real / np.reshape(op.weights.channel_scales, (-1, 1))))
        for op in program.graph.ops
        if isinstance(op, Linear)
    )


def test_equal_inputs_share_their_rounding_error() -> None:
    """Three inputs that are always equal have the sum of their weights, to a step; those of another group have theirs."""
    real = np.array([[[0.4, 0.4, 0.4], [-1.4, 0.3, 0.3]], [[2.4, 0.4, 0.3], [5.0, 5.0, 5.0]]])
    scales = np.array([[1.0, 1.0], [1.0, 2.0]])
    products = np.ones((2, 3, 3))
    rounded = compensated(real, scales, products, (-127, 127), 0.01)
    sums = (rounded * scales[..., None]).sum(axis=2)
    assert (np.abs(sums - real.sum(axis=2)) <= scales / 2).all()
    assert np.abs(nearest(real, scales, (-127, 127)).sum(axis=2)[0] - real.sum(axis=2)[0]).max() > 1
    assert np.abs(rounded * scales[..., None] - real).max() <= 2.0


@pytest.mark.parametrize("inputs", [7, BLOCK, BLOCK + 1, 2 * BLOCK + 3])
def test_results_come_nearer_over_blocks_of_inputs(inputs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    made = np.random.default_rng(0)
    x = np.cumsum(made.standard_normal((4000, inputs)), axis=1) + made.standard_normal((4000, 1))
    real, scales = made.standard_normal((1, 5, inputs)), np.full((1, 5), 0.05)
    products = (x.T @ x)[None]

    def error(levels: Any) -> float:
        errors = levels * scales[..., None] - real
        return float(((errors @ products) * errors).sum())

    plain, better = nearest(real, scales, (-60, 60)), compensated(real, scales, products, (-60, 60), 0.01)
    monkeypatch.setattr(compensated_rounding, "BLOCK", inputs)
    at_once = compensated(real, scales, products, (-60, 60), 0.01)
    assert error(better) < min(error(plain) / 4, 1.01 * error(at_once))
    assert np.abs(better).max() <= 60


def test_uncorrelated_inputs_have_the_nearest_weights() -> None:
    real = np.random.default_rng(1).standard_normal((2, 3, 9))
    scales = np.full((2, 3), 0.1)
    products = np.stack([np.eye(9), 3 * np.eye(9)])
    levels = (-127, 127)
    assert (compensated(real, scales, products, levels, 0.1) == nearest(real, scales, levels)).all()


LAYERS_TO_READ: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "1x1": (nn.Conv2d(5, 7, 1, bias=False), (2, 5, 6, 7)),
    "3x3": (nn.Conv2d(3, 4, 3, padding=1, bias=False), (1, 3, 5, 9)),
    "strides and dilation": (
        nn.Conv2d(4, 6, (3, 2), stride=(2, 1), dilation=(1, 2), padding=(2, 0), bias=False),
        (1, 4, 9, 8),
    ),
    "groups": (nn.Conv2d(6, 9, 3, groups=3, bias=False), (2, 6, 5, 5)),
    "depthwise": (nn.Conv2d(5, 10, 3, groups=5, padding=1, bias=False), (1, 5, 4, 3)),
    "signals": (nn.Conv1d(3, 5, 4, stride=2, padding=1, bias=False), (2, 3, 11)),
    "signals in groups": (nn.Conv1d(4, 4, 3, dilation=2, groups=4, bias=False), (1, 4, 13)),
    "linear": (nn.Linear(6, 4, bias=False), (3, 6)),
    "linear of rows": (nn.Linear(6, 4, bias=False), (2, 5, 6)),
}


@pytest.mark.parametrize("name", LAYERS_TO_READ)
def test_weight_rounding_sees_the_windows_of_a_layer(name: str) -> None:
    """Windows times weights have the squares of all results of the layer, for each output."""
    layer, shape = LAYERS_TO_READ[name]
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    graph = export(layer, (x,)).module(check_guards=False).graph
    (node,) = calls(graph, LAYERS)
    weights = next(layer.parameters()).detach()
    windows = layer_windows(node, x, weights)
    results = weights.reshape(windows.shape[0], -1, windows.shape[1]) @ windows
    axis = LAYERS[node.target]
    expected = layer(x).detach().movedim(axis, 0).flatten(1)
    assert torch.allclose(results.flatten(0, 1).square().sum(1), expected.square().sum(1), rtol=1e-4)
    assert results.shape[2] == expected.shape[1]


def test_a_large_image_is_looked_at_in_some_windows() -> None:
    layer, x = nn.Conv2d(2, 3, 3), torch.randn(1, 2, 60, 60)
    (node,) = calls(export(layer, (x,)).module(check_guards=False).graph, LAYERS)
    windows = layer_windows(node, x, layer.weight)
    assert windows.shape == (1, 18, MOST_WINDOWS)
    assert len({tuple(one) for one in windows[0].T.tolist()}) == MOST_WINDOWS


class Steps(nn.Module):
    """A recurrent layer and a layer behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = nn.GRU(8, 8, batch_first=True), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.cell(x)[0])


def images() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(2, 8, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(8, 8, 5, padding=2, groups=8),
        nn.ReLU(),
        nn.Conv2d(8, 6, 1),
    )


def signals() -> nn.Module:
    return nn.Sequential(nn.Conv1d(3, 8, 7), nn.ReLU(), nn.Conv1d(8, 4, 9))


NETS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], float]] = {
    "images": (images, (1, 2, 9, 16), 1.5),
    "signals": (signals, (1, 3, 40), 3.0),
    "rows": (lambda: nn.Sequential(nn.Linear(24, 16), nn.ReLU(), nn.Linear(16, 5)), (1, 11, 24), 2.0),
    "steps": (Steps, (1, 9, 8), 1.2),
}


@pytest.mark.parametrize("name", NETS)
def test_samples_that_did_not_calibrate_come_nearer_to_float(name: str) -> None:
    make, shape, factor = NETS[name]
    torch.manual_seed(0)
    model, judged = make().eval(), smooth(*shape, seed=1)
    data = smooth(*shape)
    plain, fitted = (noise(model, compiled(model, data, way), judged) for way in ("nearest", "fitted"))
    assert fitted < plain / factor, plain / fitted


def test_weights_are_fitted_beside_16_bits_unless_asked_otherwise() -> None:
    torch.manual_seed(0)
    model, data = images(), smooth(1, 2, 9, 16)
    found = {
        (way, precision): weights_of(compiled(model, data, way, precision))
        for way in ("auto", "nearest", "fitted")
        for precision in ("int8", "int16")
    }
    for precision, like in (("int8", "nearest"), ("int16", "fitted")):
        other = {"nearest": "fitted", "fitted": "nearest"}[like]
        assert found["auto", precision] == found[like, precision] != found[other, precision]


class Shared(nn.Module):
    """Two layers with one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Linear(64, 64)

    def forward(self, x: Tensor) -> Tensor:
        return self.one(self.one(x).relu())


def pairs(count: int, opposite: int = 0) -> list[Tensor]:
    """Inputs of 64 numbers around 1 of which every two are equal; in every second of the `opposite` first, negative."""
    made = torch.Generator().manual_seed(0)
    drawn = [torch.randn((1, 32, 1), generator=made) + 1 for _ in range(count)]
    signs = [(-1) ** number if number < opposite else 1 for number in range(count)]
    return [torch.cat((x, x * sign), 2).flatten(1) for x, sign in zip(drawn, signs, strict=True)]


@pytest.mark.parametrize(
    ("make", "data", "changes"),
    [
        (lambda: nn.Linear(64, 32), pairs(16), True),
        (lambda: nn.Linear(64, 32), pairs(4), True),
        (lambda: nn.Linear(64, 32), pairs(3), False),
        (lambda: nn.Linear(64, 32), pairs(16, opposite=16), False),
        (Shared, pairs(16), False),
    ],
    ids=["pairs", "four samples", "three samples", "samples that contradict each other", "shared weights"],
)
def test_weights_change_where_samples_agree(
    make: Callable[[], nn.Module], data: list[Tensor], changes: bool
) -> None:
    torch.manual_seed(0)
    model = make()
    assert are_nearest(model, compiled(model, data, "nearest", correct_biases=False))
    assert are_nearest(model, compiled(model, data, correct_biases=False)) is not changes


def test_fitted_weights_of_few_samples_are_warned_of() -> None:
    torch.manual_seed(0)
    with pytest.warns(PillionWarning, match="needs 4 calibration samples, here 3"):
        compiled(nn.Linear(64, 32), pairs(3))


def test_a_common_offset_of_inputs_is_left_to_biases() -> None:
    """Inputs that lie around 5 go together in nothing else, so weights change only if biases do not."""
    torch.manual_seed(0)
    model, made = nn.Linear(64, 64), torch.Generator().manual_seed(0)
    data = [torch.randn((1, 64), generator=made) + 5 for _ in range(8)]
    assert are_nearest(model, compiled(model, data, correct_biases=True))
    assert not are_nearest(model, compiled(model, data, correct_biases=False))


def test_a_choice_of_16_bits_may_be_better_than_the_nearest_weights() -> None:
    """What is refused with the nearest weights is reached, as samples say that neither calibrated nor rounded for."""
    torch.manual_seed(0)
    model, data = images(), smooth(1, 2, 9, 16, count=32)
    options: Any = {"target": TARGET, "calibrate": data, "progress": False, "min_quality": "53dB"}
    with pytest.raises(pillion.PillionError, match="53 dB"):
        pillion.compile(model.eval(), data[0], **options, weight_rounding="nearest")
    program = pillion.compile(model.eval(), data[0], **options)
    assert program.precision is not None
    assert program.precision.after >= 53


def test_a_choice_of_no_tensors_is_the_program_in_8_bits() -> None:
    """Weights are fitted beside 16-bit tensors only, so that a wish which 8 bits keep changes nothing."""
    torch.manual_seed(0)
    model, data = images(), smooth(1, 2, 9, 16)
    options: Any = {"target": TARGET, "calibrate": data, "progress": False}
    plain = pillion.compile(model.eval(), data[0], **options)
    chosen = pillion.compile(model.eval(), data[0], **options, min_quality="10dB")
    asked = pillion.compile(model.eval(), data[0], **options, min_quality="10dB", weight_rounding="fitted")
    wide = pillion.compile(model.eval(), data[0], **options, min_quality="40dB")
    assert chosen.precision is not None
    assert wide.precision is not None
    assert (chosen.precision.tensors, chosen.fitted_layers) == ((), 0)
    assert wide.precision.tensors
    assert wide.fitted_layers
    assert chosen.image() == plain.image()
    assert asked.fitted_layers
