# SPDX-License-Identifier: Apache-2.0
"""Scales of weights beside 16-bit tensors: some larger than the largest weight needs, where they round the others better."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import pillion
from pillion.importers.torch.quantize.weight_scales import LARGEST_FACTOR, MOST_INPUTS

LEVELS = 127


def compiled(model: nn.Module, x: Tensor, rounding: str, samples: int = 1, **options: Any) -> pillion.Program:
    torch.set_num_threads(1)
    made = torch.Generator().manual_seed(1)
    data = [torch.randn(x.shape, generator=made) for _ in range(samples)]
    tuning: Any = {"precision": "int16", "weight_rounding": rounding}
    return pillion.compile(
        model.eval(), x, target="cortex-m55", calibrate=data, tuning=pillion.Tuning(**tuning), progress=False
    )


def channels_of(program: pillion.Program) -> tuple[np.ndarray, np.ndarray]:
    """Returns the real weights [outputs, inputs] of a program with one layer, each row sorted, and the scales."""
    (op,) = (op for op in program.graph.ops if hasattr(op, "weights"))
    scales = np.array(op.weights.channel_scales)
    levels = np.moveaxis(op.weights.constant, op.weights.type.quant.axis, 0).reshape(len(scales), -1)
    return np.sort(levels * scales[:, None], axis=1), scales


LAYERS: dict[str, tuple[nn.Module, tuple[int, ...], int]] = {
    "depthwise": (nn.Conv2d(13, 13, 3, groups=13, padding=1), (1, 13, 7, 5), 0),
    "1x1": (nn.Conv2d(8, 11, 1), (1, 8, 3, 5), 0),
    "3x3 in groups": (nn.Conv2d(6, 10, 3, groups=2), (1, 6, 5, 5), 0),
    "signals": (nn.Conv1d(3, 7, 5), (1, 3, 19), 0),
    "linear": (nn.Linear(17, 9), (2, 17), 0),
    "transposed": (nn.ConvTranspose2d(5, 6, 3, stride=2), (1, 5, 4, 3), 1),
}


@pytest.mark.parametrize("name", LAYERS)
def test_each_channel_has_the_steps_that_round_it_best(name: str) -> None:
    """No channel loses more than with the steps of its largest weight, and all together lose much less."""
    layer, shape, axis = LAYERS[name]
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    weights: Any = layer.weight
    real = np.sort(weights.detach().double().movedim(axis, 0).flatten(1).numpy(), axis=1)
    chosen, scales = channels_of(compiled(layer, x, "auto"))
    largest, plain = channels_of(compiled(layer, x, "nearest"))
    assert np.allclose(plain, np.abs(real).max(axis=1) / LEVELS)
    assert ((scales >= plain) & (scales <= 1.0001 * LARGEST_FACTOR * plain)).all()
    error, before = (np.square(some - real).sum(axis=1) for some in (chosen, largest))
    assert (error <= before * 1.0001).all()
    assert error.sum() < 0.9 * before.sum()


def test_8_bit_programs_keep_the_steps_of_the_largest_weight() -> None:
    layer, x = nn.Conv2d(4, 4, 3, groups=4), torch.randn(1, 4, 5, 5)
    program = pillion.compile(layer, x, target="cortex-m55", calibrate=[x], progress=False)
    assert np.allclose(channels_of(program)[1], layer.weight.detach().abs().amax((1, 2, 3)).numpy() / LEVELS)


def test_channels_of_zeros_and_of_one_weight_keep_their_steps() -> None:
    layer, x = nn.Conv2d(3, 3, 1, groups=3, bias=False), torch.randn(1, 3, 4, 4)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([0.0, -0.3, 7.0]).reshape(3, 1, 1, 1))
    for rounding in ("auto", "nearest"):
        found, _ = channels_of(compiled(layer, x, rounding))
        assert np.allclose(found.ravel(), [0.0, -0.3, 7.0], rtol=1e-6)


@pytest.mark.parametrize(("inputs", "changes"), [(MOST_INPUTS // 2, True), (MOST_INPUTS + 1, False)])
def test_layers_of_many_inputs_keep_theirs(inputs: int, *, changes: bool) -> None:
    layer, x = nn.Linear(inputs, 3), torch.randn(1, inputs)
    scales = [channels_of(compiled(layer, x, rounding))[1] for rounding in ("auto", "nearest")]
    assert (not np.array_equal(*scales)) == changes


class Separable(nn.Module):
    """Depthwise layers, whose filters have few weights."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for _ in range(4):
            layers += [nn.Conv2d(16, 16, 3, padding=1, groups=16), nn.Conv2d(16, 16, 1), nn.ReLU()]
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


def test_depthwise_networks_gain_and_all_executors_agree() -> None:
    torch.manual_seed(0)
    model, x = Separable().eval(), torch.randn(1, 16, 9, 7, generator=torch.Generator().manual_seed(5))
    with torch.no_grad():
        real = model(x).numpy()

    def noise(rounding: str) -> float:
        program = compiled(model, x, rounding, samples=8)
        found = program.run(x)[0]
        assert np.array_equal(found, program.run(x, on="host")[0])
        return float(np.square(found - real).sum())

    assert noise("auto") < 0.7 * noise("nearest")
