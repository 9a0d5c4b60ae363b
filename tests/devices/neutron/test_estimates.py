# SPDX-License-Identifier: Apache-2.0
"""What the NPU is said to need: never less than its multipliers and its memory allow, and no more where they are all busy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pillion.devices.neutron import N1_16, N3_64
from pillion.devices.neutron.estimate import BYTES_PER_CYCLE
from pillion.ir.op import Op
from pillion.ir.types import PerTensor, Value, constant_value
from pillion.ops import ALL_OPS, BatchMatmul, Conv2d, DepthwiseConv2d, Linear, Segment
from pillion.ops.example_values import make_op, value
from pillion.ops.transpose_conv import TransposeConv2d

SIZES = [(N3_64, 8, 8), (N1_16, 4, 4)]
"""Pipelines, and multiplications of each in a cycle, as NXP publishes them."""
PRODUCTS = (Conv2d, DepthwiseConv2d, Linear, BatchMatmul, TransposeConv2d)


def bytes_of(op: Op) -> int:
    return sum(v.type.size_bytes for v in (*op.operands, *op.results))


@pytest.mark.parametrize(("npu", "pipelines", "macs"), SIZES, ids=["n3_64", "n1_16"])
@pytest.mark.parametrize("cls", [c for c in ALL_OPS if c in N3_64.ops], ids=lambda cls: cls.kind)
def test_no_op_is_faster_than_the_hardware(cls: type[Op], npu: Any, pipelines: int, macs: int) -> None:
    """Depthwise convolutions have one multiplication of each pipeline in a cycle."""
    together = 1 if cls is DepthwiseConv2d else macs
    for op in cls.examples():
        if not isinstance(op, Segment) and op.kind != "reshape":
            assert npu.estimate(op) >= (op.macs // (pipelines * together) if cls in PRODUCTS else 0)
            assert npu.estimate(op) >= bytes_of(op) // BYTES_PER_CYCLE


def weighted(cls: type[Op], x: Value, shape: tuple[int, ...], out: int, **fields: Any) -> Op:
    weights = constant_value("w", np.ones(shape, np.int8), PerTensor(0.1))
    bias = constant_value("b", np.zeros(out, np.int32), PerTensor(0.01))
    return make_op(cls, value("y", ()), x=x, weights=weights, bias=bias, **fields)


BUSY = {
    "conv2d": weighted(Conv2d, value("x", (1, 9, 9, 64)), (64, 3, 3, 64), 64),
    "linear": weighted(Linear, value("x", (128, 256)), (256, 256), 256),
    "transpose_conv2d": weighted(TransposeConv2d, value("x", (1, 9, 9, 64)), (64, 3, 3, 64), 64, stride=(2, 2)),
    "batch_matmul": make_op(
        BatchMatmul, value("y", ()), a=value("a", (4, 128, 256)), b=value("b", (4, 256, 128)), adj_x=False, adj_y=False
    ),
}  # fmt: skip


@pytest.mark.parametrize(("npu", "pipelines", "macs"), SIZES, ids=["n3_64", "n1_16"])
@pytest.mark.parametrize("kind", BUSY)
def test_filled_units_waste_no_cycle(kind: str, npu: Any, pipelines: int, macs: int) -> None:
    op = BUSY[kind]
    assert npu.estimate(op) == op.macs // (pipelines * macs)
