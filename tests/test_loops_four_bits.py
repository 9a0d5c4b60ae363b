# SPDX-License-Identifier: Apache-2.0
"""`--max-flash` with recurrent layers: gates get weights of 4 bits, and loops keep the bytes of the reference."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import pillion
from pillion.errors import PillionError
from pillion.ir.types import DType
from pillion.ops import flatten_ops
from pillion.program import Program


class Tagger(nn.Module):
    """A layer of gates of odd sizes, and a layer behind it."""

    def __init__(self, kind: Any) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.gates = kind(19, 33, batch_first=True)
        self.last = nn.Linear(33, 5)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.last(self.gates(x)[0])
        return y


KINDS: dict[str, Tagger] = {
    "lstm": Tagger(nn.LSTM).eval(),
    "gru": Tagger(nn.GRU).eval(),
}
SAMPLES = [torch.randn(2, 4, 19, generator=torch.Generator().manual_seed(n)) for n in range(4)]


def compiled(kind: str, target: str, **options: Any) -> Program:
    net = KINDS[kind]
    return pillion.compile(net, (SAMPLES[0],), target=target, calibrate=SAMPLES, progress=False, **options)


def gates_of_4_bits(program: Program) -> set[str]:
    ops = set(flatten_ops(program.graph.ops)) - set(program.graph.ops)
    return {op.name for op in ops if any(v.dtype is DType.INT4 for v in op.operands)}


@pytest.mark.slow
@pytest.mark.turns(2)
@pytest.mark.parametrize(("kind", "target"), [("lstm", "cortex-m55"), ("gru", "cortex-m33")])
@pytest.mark.qemu
def test_gates_get_4_bits_until_a_program_fits(kind: str, target: str) -> None:
    whole = compiled(kind, target)
    with pytest.raises(PillionError, match="does not fit 1000 bytes") as refused:
        compiled(kind, target, max_flash=1000)
    least = int(str(refused.value.help).split()[1].rstrip(","))
    assert least < 0.85 * whole.flash.bytes
    some = compiled(kind, target, max_flash=replace(whole, byte_price=inf).flash.bytes - 1)
    all_of_4 = compiled(kind, target, max_flash=least)
    assert 0 < len(gates_of_4_bits(some)) < len(gates_of_4_bits(all_of_4))
    for program in (some, all_of_4):
        choice = program.four_bits
        assert choice is not None
        assert gates_of_4_bits(program) <= set(choice.layers)
        assert program.flash.bytes == choice.after_bytes
        assert choice.after > 10
        x = SAMPLES[3].numpy()
        wanted = program.run(x)[0]
        for on in ("host", program.target.core.board):
            assert program.run(x, on=on)[0].tobytes() == wanted.tobytes()
        real = KINDS[kind](SAMPLES[3]).detach().numpy()
        assert 10 * np.log10(np.square(real).sum() / np.square(wanted - real).sum()) > choice.after - 6
