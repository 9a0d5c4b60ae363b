# SPDX-License-Identifier: Apache-2.0
"""Ops in 16 bits on Ethos-U55 and U65: streams give the bytes of LiteRT's arithmetic, and other ops stay on the core."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from edges import retyped
from torch import nn

import pillion
from ethos_streams import compiled, differing, graph_of, needs_vela, tflite_of
from pillion.devices.ethos_u import ETHOS_U
from pillion.devices.ethos_u.rules import SIXTEEN_BITS
from pillion.ir.op import Op
from pillion.ir.types import DType
from pillion.ops.movement import Movement
from pillion.program import Program

pytestmark = [needs_vela, pytest.mark.slow]


def ops_in_16_bits(kind: type[Op]) -> Iterator[Op]:
    """Examples of an op in 16 bits; those of moves are made of their int8 forms."""
    for example in kind.examples():
        op = retyped(example, DType.INT16) if issubclass(kind, Movement) else example
        if all(v.dtype is DType.INT16 for v in (*op.activations, *op.results)):
            yield op


@pytest.mark.parametrize("accelerator", ["ethos-u55-32", "ethos-u55-128", "ethos-u65-256"])
@pytest.mark.parametrize("kind", SIXTEEN_BITS, ids=lambda kind: kind.kind)
def test_what_the_rules_take_is_computed_exactly(kind: type[Op], accelerator: str) -> None:
    taken = 0
    for op in ops_in_16_bits(kind):
        file = tflite_of(op)
        if file is None or not all(v.ok for v in ETHOS_U[accelerator].judge(op)):
            continue
        assert differing(graph_of(op), compiled(file, accelerator), 3) == 0, op
        taken += 1
    assert taken


class Net(nn.Module):
    """Convolutions, a sum, a product, a pool and a fully connected layer; a mean, which stays on the core."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Conv2d(3, 16, 3)
        self.depthwise, self.last = nn.Conv2d(16, 16, 3, groups=16, padding=1), nn.Linear(16, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Returns five scores."""
        y = torch.relu(self.first(x))
        z = y + self.depthwise(y) * y
        return self.last(torch.max_pool2d(z, 2).mean((2, 3)))


def wide(target: str) -> Program:
    samples = [torch.randn(1, 3, 19, 17, generator=torch.Generator().manual_seed(n)) for n in range(8)]
    return pillion.compile(Net().eval(), (samples[0],), target=target, calibrate=samples, precision="int16")


@pytest.mark.parametrize("target", ["cortex-m55+ethos-u55-128", "cortex-m55+ethos-u65-256"])
def test_all_executors_give_the_same_bytes(target: str) -> None:
    program = wide(target)
    shown = program.explain()
    for kind in ("conv2d", "depthwise_conv2d", "mul", "add", "max_pool2d"):
        assert any(line.startswith(f"{kind} ") and ": npu, " in line for line in shown.splitlines()), shown
    assert "cpu, mean.dtype: wanted int8, got int16" in shown
    verified = pillion.verify(program)
    assert {run.executor for run in verified.runs if run.outputs} >= {"reference", "host", "npu"}
    assert all(pair.bytes_different == 0 for pair in verified.pairs)


@pytest.mark.parametrize("target", ["imxrt700", "cortex-m55+ethos-u85-256"])
def test_other_npus_leave_16_bits_to_the_core(target: str) -> None:
    shown = wide(target).explain()
    assert "cpu, conv2d.dtype: wanted int8, got int16, int8" in shown
    assert ": npu, " not in shown
