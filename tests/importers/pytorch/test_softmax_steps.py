# SPDX-License-Identifier: Apache-2.0
"""The steps of softmaxes: what is multiplied on has those that its largest share needs, and so has what leaves the model."""

from __future__ import annotations

import math
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import pillion
from pillion.errors import PillionWarning
from pillion.importers.torch.train.trained_ranges import HEADROOM
from pillion.ir.graph import Graph
from pillion.ops import Softmax
from pillion.ops.softmax import OUTPUT
from pillion.passes import legalize_softmax
from pillion.program import Program

pytestmark = pytest.mark.torch
FINER = pytest.mark.filterwarnings("ignore:.*steps of 1/256:pillion.errors.PillionWarning")


class Attention(nn.Module):
    """One head over some keys; with a way, what is done to the shares on the way to the values."""

    def __init__(self, way: str = "", sharpness: float = 1.0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.q, self.k, self.v = (nn.Linear(32, 32) for _ in range(3))
        self.way, self.sharpness = way, sharpness

    def forward(self, x: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        shares = torch.softmax(self.q(x) @ self.k(x).transpose(1, 2) * self.sharpness / 32**0.5, -1)
        if self.way == "moved":
            shares = shares[:, 1:].transpose(1, 2).reshape(1, -1, x.shape[1] - 1).transpose(1, 2)
        if self.way == "dropped":
            shares = nn.functional.dropout(shares, 0.1, self.training)
        if self.way == "joined":
            shares = torch.cat([shares, shares.relu()], 1)
        return (shares @ self.v(x), shares) if self.way == "shown" else shares @ self.v(x)


def data(keys: int, count: int, seed: int) -> list[Tensor]:
    made = torch.Generator().manual_seed(seed)
    return [torch.randn(1, keys, 32, generator=made) for _ in range(count)]


def compiled(net: nn.Module, keys: int, target: str = "cortex-m33") -> Program:
    samples = data(keys, max(8, 512 // keys), 0)
    return pillion.compile(net.eval(), samples[0], target=target, calibrate=samples, progress=False)


def decibels(net: nn.Module, graph: Graph, keys: int) -> float:
    signal = noise = 0.0
    for x in data(keys, 4, 1):
        with torch.no_grad():
            wanted = net(x).numpy().astype(float)
        signal += float((wanted**2).sum())
        noise += float(((wanted - graph.reference(x.numpy())[0]) ** 2).sum())
    return 10 * math.log10(signal / noise)


def largest_shares(program: Program) -> list[float]:
    """The largest share that each softmax can answer."""
    return [255 * op.y.scale for op in program.graph.ops if isinstance(op, Softmax)]


def seen(net: Attention, keys: int) -> float:
    """The largest share that data for calibration ask for."""
    with torch.no_grad():
        shares = [
            torch.softmax(net.q(x) @ net.k(x).transpose(1, 2) * net.sharpness / 32**0.5, -1)
            for x in data(keys, max(8, 512 // keys), 0)
        ]
    return HEADROOM * max(float(share.max()) for share in shares)


ONE = 255 / 256


@pytest.mark.parametrize(("keys", "least", "gain"), [(16, 34.5, 1), (64, 35, 8), (256, 37, 18)])
def test_attention_over_many_keys_keeps_its_shares(keys: int, least: float, gain: float) -> None:
    """Measured: 34.0, 28.1 and 18.0 dB with the usual steps, 35.5, 36.6 and 38.7 with these."""
    net = Attention()
    program = compiled(net, keys)
    fine, usual = (decibels(net, graph, keys) for graph in (program.graph, legalize_softmax(program.graph)))
    assert largest_shares(program) == pytest.approx([seen(net, keys)], rel=1e-5)
    assert fine >= least
    assert fine - usual >= gain


class SoftArgmax(nn.Module):
    """The place of the largest number of each heat map, from -1 to 1."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv2d(3, 4, 3)
        self.register_buffer("places", torch.linspace(-1, 1, 256))

    def forward(self, x: Tensor) -> Tensor:
        return (self.conv(x).flatten(2).softmax(-1) * self.places).sum(-1)


def test_a_soft_argmax_finds_its_place() -> None:
    """Measured: 29.9 dB, with the usual steps 10.8."""
    samples: list[Tensor] = []
    for seed, count in ((0, 100), (1, 6)):
        made = torch.Generator().manual_seed(seed)
        samples += [torch.randn(1, 3, 18, 18, generator=made) for _ in range(count)]
    net = SoftArgmax().eval()
    program = pillion.compile(net, samples[0], target="cortex-m33", calibrate=samples[:100], progress=False)
    with torch.no_grad():
        wanted = [net(x).double() for x in samples[100:]]
    noise = [
        sum(
            float((y - torch.from_numpy(graph.reference(x.numpy())[0])).square().sum())
            for x, y in zip(samples[100:], wanted, strict=True)
        )
        for graph in (program.graph, legalize_softmax(program.graph))
    ]
    assert 10 * math.log10(float(sum(y.square().sum() for y in wanted)) / noise[0]) >= 27
    assert noise[1] > 30 * noise[0]


class PoseHead(SoftArgmax):
    """The place in each heat map, and how sure it is."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]  # two answers
        shares = self.conv(x).flatten(2).softmax(-1)
        return (shares * self.places).sum(-1), shares.view(1, 4, 16, 16).amax((2, 3))


def test_each_reader_of_shares_has_the_bits_that_it_needs() -> None:
    """Measured: 29.5 and 41.7 dB; where the largest share puts them all on 1/256, 7 and 24."""
    made = torch.Generator().manual_seed(0)
    samples = [torch.randn(1, 3, 18, 18, generator=made) for _ in range(40)]
    net = PoseHead().eval()
    program = pillion.compile(net, samples[0], target="cortex-m33", calibrate=samples, progress=False)
    with torch.no_grad():
        wanted = [[y.double().numpy() for y in net(x)] for x in samples[:6]]
    found = [program.run(x) for x in samples[:6]]
    for at, least in enumerate((26, 38)):
        signal = sum(np.square(y[at]).sum() for y in wanted)
        noise = sum(np.square(y[at] - z[at]).sum() for y, z in zip(wanted, found, strict=True))
        assert 10 * math.log10(signal / noise) >= least
    for one, ys in zip(samples[:2], found, strict=False):
        assert [y.tobytes() for y in program.run(one, on="host")] == [y.tobytes() for y in ys]
    with pytest.warns(PillionWarning, match="steps of 1/256"):
        assert program.tflite()


def test_a_share_of_one_needs_the_usual_steps() -> None:
    program = compiled(Attention(sharpness=60.0), 9)
    assert largest_shares(program) == [ONE]
    assert legalize_softmax(program.graph) is program.graph


@pytest.mark.nightly
def test_hardly_finer_scales_are_not_used() -> None:
    """One of 256 or less in ten is no gain; other runtimes know these."""
    for sharpness, is_usual in ((2.0, False), (9.0, True)):
        net = Attention(sharpness=sharpness)
        largest = seen(net, 9)
        assert (largest > 0.9) == is_usual
        assert largest_shares(compiled(net, 9)) == pytest.approx([ONE if is_usual else largest], rel=1e-5)


@pytest.mark.parametrize(
    ("way", "is_finer"), [("moved", True), ("dropped", True), ("joined", False), ("shown", True)]
)
def test_all_but_joins_take_finer_steps(way: str, is_finer: bool) -> None:
    net = Attention(way)
    assert largest_shares(compiled(net, 64)) == pytest.approx([seen(net, 64) if is_finer else ONE], rel=1e-5)


@pytest.mark.parametrize("target", ["imxrt700", "cortex-m55+ethos-u55-128"])
def test_npus_keep_the_usual_steps(target: str) -> None:
    program = compiled(Attention(), 64, target)
    assert legalize_softmax(program.graph) is program.graph


def test_in_litert_s_arithmetic_steps_are_litert_s() -> None:
    samples = data(64, 2, 0)
    program = pillion.compile(
        Attention().eval(), samples[0], target="cortex-m33", calibrate=samples, arithmetic="tflite"
    )
    assert largest_shares(program) == [ONE]


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
@pytest.mark.parametrize("keys", [37, 300])
def test_c_is_the_reference(keys: int) -> None:
    """With a table, and beyond what one vector, or a byte, counts."""
    program = compiled(Attention("moved"), keys)
    for x in data(keys, 2, 5):
        assert np.array_equal(program.run(x)[0], program.run(x, on="host")[0])


def test_softmax_steps_of_files_are_the_runtimes_own(tmp_path: Path) -> None:
    program = compiled(Attention("moved"), 37)
    for name in ("net.pte", "net.tflite"):
        with pytest.warns(PillionWarning, match="steps of 1/256"):
            program.save(tmp_path / name)
    again = pillion.load(tmp_path / "net.pte")
    assert {op.y.quant for op in again.graph.ops if isinstance(op, Softmax)} == {OUTPUT}
    usual = legalize_softmax(program.graph)
    for x in data(37, 2, 5):
        assert np.array_equal(again.run(x)[0], usual.reference(x.numpy())[0])
    from_tflite = pillion.compile(tmp_path / "net.tflite", target="cortex-m33")
    assert {op.y.quant for op in from_tflite.graph.ops if isinstance(op, Softmax)} == {OUTPUT}


@FINER
def test_bundles_expect_the_outputs_of_the_pte_file(tmp_path: Path) -> None:
    program = compiled(Attention(), 64)
    x = data(64, 1, 5)
    wanted = legalize_softmax(program.graph).reference(x[0].numpy())[0]
    assert not np.array_equal(wanted, program.run(x[0])[0])
    assert wanted.tobytes() in program.bundled([x])


def test_trained_modules_are_the_programs_that_they_become() -> None:
    samples = data(64, 4, 0)
    qat = pillion.prepare_qat(Attention("dropped"), samples[0], "cortex-m33")
    for x in samples:
        qat(x).square().mean().backward()  # type: ignore[operator]  # a tensor
    program = pillion.compile(qat.eval(), samples[0], target="cortex-m33")
    assert largest_shares(program)[0] < 0.25
    with torch.no_grad():
        found, wanted = program.run(samples[0])[0], qat(samples[0]).numpy()
    step = float(np.diff(np.unique(found)).min())
    assert abs(found - wanted).max() <= 1.01 * step
