# SPDX-License-Identifier: Apache-2.0
"""What runs through all blocks of a transformer has 16 bits where a norm reads a row that is small: that of a class token."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import pillion
from pillion.ir.types import DType
from pillion.ops import Add, Normalize, Requantize


class Block(nn.Module):
    """Attention and two layers, each before a norm of its own."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
        self.layers = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        y = self.before(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.layers(self.between(x))


class Vit(nn.Module):
    """Patches of very different size beside a class token of which the place alone is known, which is `small`; with `bounded`, sums are cut at zero."""

    def __init__(self, small: float, *, bounded: bool = False) -> None:
        super().__init__()
        self.token = nn.Parameter(torch.zeros(1, 1, 24))
        self.places = nn.Parameter(small * torch.randn(1, 8, 24))
        self.blocks = nn.Sequential(*(Block(24) for _ in range(2)))
        self.norm, self.head, self.bounded = nn.LayerNorm(24), nn.Linear(24, 5), bounded

    def forward(self, x: Tensor) -> Tensor:
        x = torch.cat((self.token, x), 1) + self.places
        x = self.blocks(x.relu() if self.bounded else x)
        return self.head(self.norm(x)[:, 0])


def samples(count: int, seed: int) -> list[Tensor]:
    made = torch.Generator().manual_seed(seed)
    return [3 * torch.randn(1, 7, 24, generator=made) for _ in range(count)]


def compiled(net: nn.Module, target: str = "cortex-m55", **options: object) -> pillion.Program:
    data = samples(8, 0)
    return pillion.compile(net, data[0], target=target, calibrate=data, progress=False, **options)  # type: ignore[arg-type]


def decibels(net: nn.Module, program: pillion.Program, judged: Sequence[Tensor]) -> float:
    with torch.no_grad():
        real = np.concatenate([net(x).numpy() for x in judged])
    noise = np.concatenate([program.run(x)[0] for x in judged]) - real
    return float(10 * np.log10((real**2).sum() / (noise**2).sum()))


@pytest.fixture(scope="module")
def net() -> nn.Module:
    torch.manual_seed(0)
    return Vit(0.01).eval()


@pytest.fixture(scope="module")
def program(net: nn.Module) -> pillion.Program:
    return compiled(net)


def wide_sums(program: pillion.Program) -> list[Add]:
    return [op for op in program.graph.ops if isinstance(op, Add) and op.is_wide]


@pytest.mark.turns(3)
def test_a_small_class_token_is_held(net: nn.Module, program: pillion.Program) -> None:
    wide = wide_sums(program)
    assert len(wide) == 5
    assert {op.y.dtype for op in wide} == {DType.INT16}
    norms = [op for op in program.graph.ops if isinstance(op, Normalize)]
    assert [op.x.dtype for op in norms] == [DType.INT16] * 5
    assert decibels(net, program, samples(8, 0)) > 28
    as_in_litert = compiled(net, arithmetic="tflite")
    assert not wide_sums(as_in_litert)
    assert decibels(net, as_in_litert, samples(8, 0)) < 20


def test_the_host_agrees(program: pillion.Program) -> None:
    for x in samples(3, 2):
        assert np.array_equal(program.run(x)[0], program.run(x, on="host")[0])


def test_files_for_other_runtimes_have_8_bits_and_say_so(program: pillion.Program) -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        raw = program.tflite()
    assert any("sums between norms and states of loops have 8 bits there" in str(one.message) for one in said)
    assert raw[4:8] == b"TFL3"


def test_rows_of_one_size_keep_8_bits() -> None:
    torch.manual_seed(0)
    program = compiled(Vit(3.0).eval())
    assert all(v.dtype is not DType.INT16 for v in program.graph.values.values())


def test_chips_with_an_npu_keep_8_bits(net: nn.Module) -> None:
    program = compiled(net, target="imxrt700")
    assert all(v.dtype is not DType.INT16 for v in program.graph.values.values())


def test_sums_that_others_read_keep_8_bits(net: nn.Module) -> None:
    """The first sum is cut at zero, and so a ReLU, too, reads it."""
    torch.manual_seed(0)
    program = compiled(Vit(0.01, bounded=True).eval())
    sums = [op for op in program.graph.ops if isinstance(op, Add)]
    assert not sums[0].is_wide
    assert sums[-1].is_wide


class PostNorm(nn.Module):
    """Norms behind the sums: what they read is a sum with a tensor that a layer reads, too."""

    def __init__(self) -> None:
        super().__init__()
        self.places = nn.Parameter(0.01 * torch.randn(1, 7, 24))
        self.layer, self.norm, self.head = nn.Linear(24, 24), nn.LayerNorm(24), nn.Linear(24, 5)
        self.register_buffer("sizes", torch.tensor([0.0, 1, 1, 1, 1, 1, 1])[:, None])

    def forward(self, x: Tensor) -> Tensor:
        x = x * self.sizes + self.places
        return self.head(self.norm(x + 0.002 * self.layer(x)))[:, 0]


def test_a_sum_that_a_layer_reads_is_added_to_in_16_bits() -> None:
    torch.manual_seed(0)
    net = PostNorm().eval()
    program = compiled(net)
    sums = wide_sums(program)
    assert [op.y.dtype for op in sums] == [DType.INT16] * 2
    first, second = sums
    (narrow,) = (op for op in program.graph.ops if isinstance(op, Requantize))
    assert (narrow.x, narrow.y.dtype) == (first.y, DType.INT8)  # for the layer
    assert first.y in (second.a, second.b)
    assert decibels(net, program, samples(8, 1)) > 24
    x = samples(1, 2)[0]
    assert np.array_equal(program.run(x)[0], program.run(x, on="host")[0])
    assert decibels(net, compiled(net, arithmetic="tflite"), samples(8, 1)) < 10


def test_sums_beyond_those_that_calibrated_are_not_clipped() -> None:
    """Sums of 16 bits have room for twice the range, as other tensors of 16 bits have."""
    torch.manual_seed(0)
    net = Vit(0.05).eval()
    program = compiled(net, precision="int16")
    assert wide_sums(program)
    assert decibels(net, program, [1.7 * x for x in samples(8, 1)]) > 35
