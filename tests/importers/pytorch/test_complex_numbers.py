# SPDX-License-Identifier: Apache-2.0
"""Complex numbers become pairs of real ones: the same in float, near in int8, and refused where there is no form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from complex_nets import NETS, GlobalFilter, Mixer, Spectrogram
from torch import Tensor, nn

import pillion
from nightly import part_of
from pillion.errors import PillionError
from pillion.importers.torch.export import export
from pillion.importers.torch.rewrite.pipeline import rewrite_for_quantization

pytestmark = pytest.mark.torch


def drawn(shapes: Sequence[tuple[int, ...]], seed: int = 0) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(shape, generator=generator) for shape in shapes)


def tensors(answer: Any) -> list[Tensor]:
    return [t.resolve_neg() for t in (answer if isinstance(answer, (tuple, list)) else [answer])]


@pytest.mark.turns(3)
@pytest.mark.parametrize("name", NETS)
def test_pairs_are_the_same_in_float(name: str) -> None:
    net, shapes = NETS[name]
    inputs = drawn(shapes)
    with torch.no_grad():
        wanted = tensors(net.eval()(*inputs))
        found = tensors(rewrite_for_quantization(export(net, inputs).module(check_guards=False))(*inputs))  # type: ignore[arg-type]  # a GraphModule
    assert len(wanted) == len(found)
    for one, other in zip(wanted, found, strict=True):
        torch.testing.assert_close(other, one, rtol=1e-4, atol=1e-4)


@pytest.mark.turns(4)
@pytest.mark.parametrize("name", part_of(NETS, 3))
def test_they_are_near_in_int8(name: str) -> None:
    net, shapes = NETS[name]
    samples = [drawn(shapes, seed) for seed in range(8)]
    program = pillion.compile(net.eval(), samples[0], target="cortex-m55", calibrate=samples)
    with torch.no_grad():
        wanted = [t.numpy().astype(np.float64) for t in tensors(net(*samples[3]))]
    for host, one, found in zip(
        program.run(*samples[3], on="host"), wanted, program.run(*samples[3]), strict=True
    ):
        np.testing.assert_array_equal(host, found)
        noise = np.square(one - found).sum() / np.square(one).sum()
        assert -10 * np.log10(noise) >= 28


def test_one_part_alone_is_all_that_is_computed() -> None:
    """Of the second transform the real part alone is read: its layer has a half of the outputs."""
    program = pillion.compile(Mixer().eval(), drawn([(2, 7, 8)]), target="cortex-m55")
    layers = [op for op in program.graph.ops if op.kind == "linear"]
    assert [op.results[0].shape[-1] for op in layers] == [16, 7, 5]


def test_rotations_are_products_with_constants() -> None:
    net, shapes = NETS["rotary"]
    program = pillion.compile(net, drawn(shapes), target="cortex-m55", io_dtype="int8")
    assert [op.kind for op in program.graph.ops if op.kind != "reshape"] == ["flip", "mul", "mul", "add"]


def test_a_magnitude_is_one_op() -> None:
    program = pillion.compile(Spectrogram(16, 5, center=True), drawn([(2, 67)]), target="cortex-m55")
    kinds = [op.kind for op in program.graph.ops]
    assert "magnitude" in kinds
    assert not {"mul", "add", "lut", "batch_matmul"} & set(kinds)


def test_filters_are_trained() -> None:
    net = nn.Sequential(GlobalFilter(4, 6, 3), nn.Flatten(), nn.Linear(72, 2))
    inputs = drawn([(2, 4, 6, 3)])
    prepared = pillion.prepare_qat(net, inputs, target="cortex-m33")
    optimizer = torch.optim.SGD(prepared.parameters(), 0.05)
    before = net[0].weight.detach().clone()
    losses = []
    for _ in range(5):
        loss = prepared(*inputs).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    assert losses[-1] < losses[0]
    weights = pillion.float_weights(prepared)
    assert any(w.shape == before.shape and not torch.equal(w, before) for w in weights.values())
    assert pillion.compile(prepared.eval(), inputs, target="cortex-m33").run(*inputs)[0].shape == (2, 2)


class Call(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Any:
        return self.function(x)


REFUSED: dict[str, tuple[Callable[[Tensor], Any], str, str]] = {
    "outputs": (lambda x: torch.fft.rfft(x), "complex numbers are no outputs", "torch.view_as_real"),
    "logarithms": (lambda x: torch.log(torch.complex(x, x)).real, "aten.log", "no form for complex numbers"),
    "windows that are computed": (
        lambda x: torch.stft(x, 16, 4, window=torch.sigmoid(x[0, :16]), return_complex=True).abs(),
        "its window is computed",
        "F.conv1d(x, cosine_windows",
    ),
    "large transforms": (
        lambda x: torch.fft.fft(torch.cat([x] * 32, 1)).abs(),
        "more than 2^21 weights",
        "torch.fft.rfft(x[..., :512])",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_unsupported_complex_operators_are_refused(name: str) -> None:
    function, *words = REFUSED[name]
    with pytest.raises(PillionError) as refused:
        pillion.compile(Call(function), drawn([(2, 64)]), target="cortex-m55")
    assert all(word in str(refused.value) for word in words)


@pytest.mark.qemu
def test_a_spectrogram_runs_on_a_board_with_the_same_bytes() -> None:
    net, inputs = Spectrogram(16, 5, center=True), drawn([(2, 67)])
    program = pillion.compile(net, inputs, target="cortex-m33", io_dtype="int8")
    x = np.random.default_rng(0).integers(-128, 128, (2, 67), np.int8)
    np.testing.assert_array_equal(program.run(x, on="mps2-an505")[0], program.run(x)[0])
