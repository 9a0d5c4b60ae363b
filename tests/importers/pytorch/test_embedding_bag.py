# SPDX-License-Identifier: Apache-2.0
"""Words that are looked up and added: in C each row of the table has a scale of its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import pillion
from nightly import in_turn, part_of
from pillion.errors import PillionError, PillionWarning
from pillion.option_values import ArithmeticName
from pillion.program import Program

ROWS, WIDTH, WORDS = 101, 9, 5


class Bags(nn.Module):
    """An embedding bag, or the sum or mean of an embedding, of rows that differ a hundred times in size."""

    def __init__(self, mode: str, form: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.mode, self.form = mode, form
        self.table = nn.EmbeddingBag(ROWS, WIDTH, mode=mode) if form == "bag" else nn.Embedding(ROWS, WIDTH)
        with torch.no_grad():
            self.table.weight.mul_(torch.logspace(-2, 0, ROWS)[:, None])

    def forward(self, x: Tensor) -> Tensor:
        if self.form == "bag":
            return self.table(x)
        reduce = torch.sum if self.mode == "sum" else torch.mean
        return reduce(self.table(x), dim=-2, keepdim=self.form == "kept")


def samples(count: int, bags: int = 2) -> list[Tensor]:
    source = torch.Generator().manual_seed(1)
    return [torch.randint(0, ROWS, (bags, WORDS), generator=source) for _ in range(count)]


def compiled(model: nn.Module, arithmetic: ArithmeticName | None = None) -> Program:
    xs = samples(24)
    return pillion.compile(
        model, xs[0], target="cortex-m33", calibrate=xs, progress=False, arithmetic=arithmetic
    )


def decibels(model: nn.Module, program: Program) -> float:
    xs = samples(24)
    with torch.no_grad():
        real = [model(x).numpy() for x in xs]
    noise = sum(float(((y - program.run(x)[0]) ** 2).sum()) for y, x in zip(real, xs, strict=True))
    return float(10 * np.log10(sum(float((y**2).sum()) for y in real) / noise))


@pytest.mark.turns(3)
@pytest.mark.parametrize(("form", "mode"), in_turn(["bag", "embedding", "kept"], ["sum", "mean"]))
def test_each_row_has_a_scale(mode: str, form: str) -> None:
    model = Bags(mode, form).eval()
    program = compiled(model)
    assert [op.kind for op in program.graph.ops if op.kind not in ("reshape", "dequantize")] == [
        "embedding_bag"
    ]
    assert program.verify(2).ok
    plain = compiled(model, "tflite")
    assert "embedding_bag" not in {op.kind for op in plain.graph.ops}
    assert decibels(model, program) > 36
    assert decibels(model, program) > decibels(model, plain) + 3


def test_files_of_others_have_one_scale_and_say_so(tmp_path: Path) -> None:
    program = compiled(Bags("mean", "bag").eval())
    with pytest.warns(PillionWarning, match="tables of embeddings have one scale there"):
        program.save(tmp_path / "bags.tflite")
    read = pillion.compile(str(tmp_path / "bags.tflite"), target="cortex-m33", progress=False)
    assert [op.kind for op in read.graph.ops if op.kind != "dequantize"] == ["gather", "mean"]


class Twice(nn.Module):
    """Words that are read twice are looked up once, as they are; those of a computed table too."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Embedding(ROWS, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        rows = self.table(x)
        return rows.sum(-2) * rows.amax(-2)


def test_lookups_with_other_readers_are_not_fused() -> None:
    kinds = {op.kind for op in compiled(Twice().eval()).graph.ops}
    assert "embedding_bag" not in kinds
    assert {"gather", "reduce_sum"} <= kinds


@pytest.mark.parametrize("form", ["bag", "embedding"])
def test_a_trained_table_is_the_one_of_the_program(form: str) -> None:
    torch.manual_seed(2)
    trained = pillion.prepare_qat(
        nn.Sequential(Bags("mean", form), nn.Linear(WIDTH, 3)), samples(1)[0], "cortex-m33"
    )
    before = {name: weight.clone() for name, weight in pillion.float_weights(trained).items()}
    optimizer = torch.optim.SGD(trained.parameters(), 0.5)
    for x in samples(12):
        optimizer.zero_grad()
        trained(x).square().mean().backward()
        optimizer.step()
    after = pillion.float_weights(trained)
    assert not torch.equal(after["0.table.weight"], before["0.table.weight"])
    program = pillion.compile(trained.eval(), samples(1)[0], target="cortex-m33", progress=False)
    assert "embedding_bag" in {op.kind for op in program.graph.ops}
    step = program.graph.ops[-1].operands[0].scale
    for x in samples(6):
        with torch.no_grad():
            wanted = trained(x).numpy()
        assert np.abs(program.run(x)[0] - wanted).max() <= 1.01 * step


class Weighted(nn.Module):
    """Bags as recommenders have them: words with factors, a word that fills up, bags that `offsets` says."""

    def __init__(self, mode: str, padding: int | None = None, begins: list[int] | None = None) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.EmbeddingBag(ROWS, WIDTH, mode=mode, padding_idx=padding)
        self.begins = None if begins is None else torch.tensor(begins)

    def forward(self, x: Tensor, factors: Tensor | None = None) -> Tensor:
        if self.begins is not None:
            return self.table(x.reshape(-1), self.begins)
        return self.table(x, per_sample_weights=factors)


def filled(count: int, padding: int, weighted: bool) -> list[tuple[Tensor, ...]]:
    """Words and factors; some bags are filled up, and one is empty."""
    source = torch.Generator().manual_seed(2)
    found: list[tuple[Tensor, ...]] = []
    for words in samples(count, 3):
        words[1, 3:] = padding
        words[2] = padding
        found.append((words, torch.randn(3, WORDS, generator=source)) if weighted else (words,))
    return found


FILLED = {
    "sum with factors": (Weighted("sum"), True),
    "sum with factors, filled up": (Weighted("sum", 3), True),
    "sum, filled up": (Weighted("sum", 3), False),
    "mean, filled up": (Weighted("mean", 3), False),
    "largest, filled up": (Weighted("max", 3), False),
    "largest, filled up with the last word": (Weighted("max", -1), False),
    "places where bags begin": (Weighted("mean", begins=[0, WORDS, 2 * WORDS]), False),
}


@pytest.mark.turns(3)
@pytest.mark.parametrize("name", part_of(FILLED, 3))
def test_bags_with_factors_and_words_that_fill_them_up(name: str) -> None:
    model, weighted = FILLED[name]
    xs = filled(16, ROWS - 1 if name.endswith("last word") else 3, weighted)
    program = pillion.compile(model.eval(), xs[0], target="cortex-m33", calibrate=xs, progress=False)
    with torch.no_grad():
        wanted = [model(*x).numpy() for x in xs]
    noise = sum(float(((y - program.run(*x)[0]) ** 2).sum()) for y, x in zip(wanted, xs, strict=True))
    assert 10 * np.log10(sum(float((y**2).sum()) for y in wanted) / noise) > 31
    assert program.verify(2).ok


def test_bags_of_other_sizes_are_refused() -> None:
    with pytest.raises(PillionError, match="bags hold as many words each"):
        pillion.compile(Weighted("sum", begins=[0, 3]).eval(), (samples(1, 2)[0],), target="cortex-m33")
