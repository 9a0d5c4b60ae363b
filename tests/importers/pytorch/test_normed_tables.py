# SPDX-License-Identifier: Apache-2.0
"""A norm that alone reads the words of a table is in the table."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import pillion
from pillion.program import Program

ROWS, WIDTH = 101, 9


class Normed(nn.Module):
    """Words, their norm and a layer; rows differ a hundred times in size."""

    def __init__(self, norm: nn.Module, reads: str = "norm") -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table, self.norm, self.reads = nn.Embedding(ROWS, WIDTH), norm, reads
        self.head = nn.Linear(WIDTH, 5, bias=False)
        with torch.no_grad():
            self.table.weight.mul_(torch.logspace(-2, 0, ROWS)[:, None])
            for weight in norm.parameters():
                weight.uniform_(0.5, 1.5)

    def forward(self, x: Tensor) -> Tensor:
        rows = self.table(x)
        y = self.norm(rows)
        if self.reads == "both":
            y = y + rows
        if self.reads == "twice":
            y = y + self.table(x.flip(1))
        if self.reads == "tied":
            return y @ self.table.weight.T
        return self.head(y)


def samples(count: int) -> list[Tensor]:
    source = torch.Generator().manual_seed(1)
    return [torch.randint(0, ROWS, (2, 7), generator=source) for _ in range(count)]


def compiled(model: nn.Module) -> tuple[Program, float]:
    """The program, and its signal to noise against float in dB."""
    xs = samples(24)
    program = pillion.compile(model.eval(), xs[0], target="cortex-m33", calibrate=xs, progress=False)
    with torch.no_grad():
        real = [model(x).numpy() for x in xs]
    noise = sum(float(((y - program.run(x)[0]) ** 2).sum()) for y, x in zip(real, xs, strict=True))
    return program, float(10 * np.log10(sum(float((y**2).sum()) for y in real) / noise))


@pytest.mark.turns(3)
@pytest.mark.parametrize(
    "norm",
    [nn.LayerNorm(WIDTH), nn.RMSNorm(WIDTH, eps=1e-6), nn.LayerNorm(WIDTH, elementwise_affine=False)],
    ids=["layer", "rms", "plain"],
)
def test_small_rows_have_as_many_steps_as_large_ones(norm: nn.Module) -> None:
    program, decibels = compiled(Normed(norm))
    assert [op.kind for op in program.graph.ops] == ["gather", "linear", "dequantize"]
    assert decibels > 34
    assert program.verify(2).ok


@pytest.mark.parametrize("reads", ["both", "twice"])
def test_a_table_that_others_read_stays_as_it_is(reads: str) -> None:
    program, _ = compiled(Normed(nn.LayerNorm(WIDTH), reads))
    assert "normalize" in {op.kind for op in program.graph.ops}


def test_weights_of_the_last_layer_are_other_bytes_anyway() -> None:
    program, decibels = compiled(Normed(nn.LayerNorm(WIDTH), "tied"))
    assert "normalize" not in {op.kind for op in program.graph.ops}
    assert decibels > 34


def test_in_training_the_norm_stays_a_norm() -> None:
    trained = pillion.prepare_qat(Normed(nn.LayerNorm(WIDTH)), samples(1)[0], "cortex-m33")
    trained(samples(1)[0]).square().mean().backward()
    assert {name for name, p in trained.named_parameters() if p.grad is not None} == {
        *("table.weight", "norm.weight", "norm.bias", "head.weight")
    }
    program = pillion.compile(trained.eval(), samples(1)[0], target="cortex-m33", progress=False)
    assert "normalize" in {op.kind for op in program.graph.ops}
