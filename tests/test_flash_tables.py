# SPDX-License-Identifier: Apache-2.0
"""`--max-flash` with tables of embeddings: rows get 4 bits and a scale each, and programs keep the bytes of the reference."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import pillion
from pillion.errors import PillionError
from pillion.ir.types import DType
from pillion.program import Program


class Words(nn.Module):
    """Words as rows of odd length, one after the other or as bags, and a layer behind them."""

    def __init__(self, is_bag: bool, length: int = 33) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.is_bag = is_bag
        self.table = nn.Embedding(211, length)
        with torch.no_grad():
            self.table.weight *= torch.logspace(-1, 1, 211)[:, None]
        self.last = nn.Linear(length, 5)

    def forward(self, words: Tensor) -> Tensor:
        rows = self.table(words)
        y: Tensor = self.last(rows.mean(1) if self.is_bag else rows)
        return y


SAMPLES = [
    torch.randint(0, 211, (2, 7), generator=torch.Generator().manual_seed(n), dtype=torch.int32)
    for n in range(24)
]


@cache
def compiled(is_bag: bool, max_flash: int | None = None, target: str = "cortex-m33", **more: Any) -> Program:
    net = Words(is_bag).eval()
    given = {"target": target, "calibrate": SAMPLES, "progress": False, "max_flash": max_flash, **more}
    return pillion.compile(net, (SAMPLES[0],), **given)


@pytest.mark.slow
@pytest.mark.qemu
@pytest.mark.parametrize("is_bag", [False, True])
def test_tables_get_4_bits_and_keep_the_bytes_of_the_reference(is_bag: bool, tmp_path: Path) -> None:
    whole = compiled(is_bag)
    small = compiled(is_bag, whole.flash.bytes - 1500)
    choice = small.four_bits
    assert choice is not None
    assert small.flash.bytes == choice.after_bytes <= whole.flash.bytes - 1500
    (op,) = (op for op in small.graph.ops if op.kind == "embedding_bag")
    assert op.operands[0].dtype is DType.INT4
    assert len(set(op.operands[0].channel_scales)) > 50
    assert choice.before > choice.after > 15
    words = np.random.default_rng(1).integers(-2, 213, (2, 7)).astype(np.int32)
    wanted = small.run(words)[0]
    for on in ("host", small.target.core.board):
        assert small.run(words, on=on)[0].tobytes() == wanted.tobytes()
    words = np.clip(words, 0, 210)
    real = Words(is_bag).eval()(torch.from_numpy(words)).detach().numpy()
    got = small.run(words)[0]
    assert 10 * np.log10(np.square(real).sum() / np.square(got - real).sum()) > choice.after - 6
    small.save(tmp_path / "net.plm")
    for name in ("net.tflite", "net.pte"):
        with pytest.raises(PillionError, match="has 4 bits, and a scale for each row") as refused:
            small.save(tmp_path / name)
        assert "--kernels pillion for a .pte" in str(refused.value.help)
    small.save(tmp_path / "net.pte", kernels="pillion")


def test_rows_that_multipliers_outweigh_keep_8_bits() -> None:
    net = Words(False, length=8).eval()
    with pytest.raises(PillionError, match="does not fit 100 bytes") as refused:
        pillion.compile(
            net, (SAMPLES[0],), target="cortex-m33", calibrate=SAMPLES, progress=False, max_flash=100
        )
    assert "all 0 layers" in str(refused.value.here)


def test_tables_keep_8_bits_in_the_arithmetic_of_litert() -> None:
    with pytest.raises(PillionError, match="does not fit 100 bytes") as refused:
        compiled(True, 100, arithmetic="tflite")
    assert "all 1 layers" in str(refused.value.here)
