# SPDX-License-Identifier: Apache-2.0
"""Ops in 16 bits on Ethos-U: streams give the bytes of LiteRT's arithmetic, and other ops stay on the core."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
import torch
from edges import retyped
from torch import nn

import pillion
from ethos_streams import EXECUTED_U85, compiled, differing, graph_of, needs_vela, tflite_of
from nightly import in_turn
from pillion.devices.ethos_u import ETHOS_U
from pillion.devices.ethos_u.rules import SIXTEEN_BITS
from pillion.ir.op import Op
from pillion.ir.types import DType, constant_value
from pillion.ops import BatchMatmul, Conv2d, DepthwiseConv2d
from pillion.ops.example_values import conv_bias, conv_weights, in_16_bits, make_op, value
from pillion.ops.movement import Movement
from pillion.program import Program

pytestmark = [needs_vela, pytest.mark.slow]


def ops_in_16_bits(kind: type[Op]) -> Iterator[Op]:
    """Examples of an op in 16 bits; those of moves are made of their int8 forms."""
    for example in kind.examples():
        op = retyped(example, DType.INT16) if issubclass(kind, Movement) else example
        if all(v.dtype is DType.INT16 for v in (*op.activations, *op.results)):
            yield op


KINDS = (*SIXTEEN_BITS, BatchMatmul)
U55_AND_U65 = ("ethos-u55-32", "ethos-u55-128", "ethos-u65-256")


@pytest.mark.parametrize(
    ("kind", "accelerator"),
    [*in_turn(KINDS, U55_AND_U65), *in_turn(KINDS, EXECUTED_U85)],
    ids=lambda one: one if isinstance(one, str) else one.kind,
)
def test_accepted_ops_are_exact(kind: type[Op], accelerator: str) -> None:
    taken = 0
    for op in ops_in_16_bits(kind):
        file = tflite_of(op)
        if file is None or not all(v.ok for v in ETHOS_U[accelerator].judge(op)):
            continue
        assert differing(graph_of(op), compiled(file, accelerator), 3) == 0, op
        taken += 1
    assert bool(taken) == (kind is not BatchMatmul or accelerator in EXECUTED_U85)


@pytest.mark.parametrize("accelerator", EXECUTED_U85)
@pytest.mark.parametrize("shape", [(5, 9, 16), (7, 2, 64), (8, 5, 33), (1, 1, 96), (4, 9, 1)], ids=str)
def test_weights_of_a_u85_lie_in_the_order_of_16_bit_operands(
    shape: tuple[int, int, int], accelerator: str
) -> None:
    """Kernels in several parts, inputs in several slices, results in several blocks; dense, sparse and small weights."""
    *window, inputs = shape
    x = in_16_bits(value("x", (1, 9, 13, inputs), 0.25))
    for number, outputs in enumerate((1, 24, 70)):
        for kind, filters in ((Conv2d, (outputs, *window, inputs)), (DepthwiseConv2d, (1, *window, inputs))):
            weights = conv_weights(filters, 0 if kind is Conv2d else 3, number)
            data = weights.constant.copy()
            data[..., :: number + 2] = 0
            weights = constant_value("weights", data, weights.type.quant)
            count = len(weights.channel_scales)
            fields = {
                "weights": weights,
                "bias": conv_bias(x, weights, count, number),
                "stride": (1 + number % 2, 1),
            }
            y = in_16_bits(value("y", (), 0.25 * math.sqrt(data.size / count)))
            op = make_op(kind, y, x=x, low=-(2**15), high=2**15 - 1, **fields)
            file = tflite_of(op)
            assert file is not None
            assert differing(graph_of(op), compiled(file, accelerator), 1) == 0, op


class Net(nn.Module):
    """Convolutions, a sum, a product, a pool, a mean and a fully connected layer; a sigmoid, which stays on the core."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Conv2d(3, 16, 3)
        self.depthwise, self.last = nn.Conv2d(16, 16, 3, groups=16, padding=1), nn.Linear(16, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Returns five scores."""
        y = torch.relu(self.first(x))
        z = y + self.depthwise(y) * y
        return torch.sigmoid(self.last(torch.max_pool2d(z, 2).mean((2, 3))))


def wide(target: str) -> Program:
    samples = [torch.randn(1, 3, 19, 17, generator=torch.Generator().manual_seed(n)) for n in range(8)]
    return pillion.compile(Net().eval(), (samples[0],), target=target, calibrate=samples, precision="int16")


@pytest.mark.parametrize(
    "target", ["cortex-m55+ethos-u55-128", "cortex-m55+ethos-u65-256", "cortex-m55+ethos-u85-256"]
)
def test_all_executors_give_the_same_bytes(target: str) -> None:
    program = wide(target)
    shown = program.explain()
    for kind in ("conv2d", "depthwise_conv2d", "mul", "add", "max_pool2d", "mean"):
        assert any(line.startswith(f"{kind} ") and ": npu, " in line for line in shown.splitlines()), shown
    assert "cpu, lut.dtype: wanted int8, got int16" in shown
    verified = pillion.verify(program)
    assert {run.executor for run in verified.runs if run.outputs} >= {"reference", "host", "npu"}
    assert all(pair.bytes_different == 0 for pair in verified.pairs)


def test_other_npus_leave_16_bits_to_the_core() -> None:
    shown = wide("imxrt700").explain()
    assert "cpu, conv2d.dtype: wanted int8, got int16, int8" in shown
    assert ": npu, " not in shown
