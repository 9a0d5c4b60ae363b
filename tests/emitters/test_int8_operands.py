# SPDX-License-Identifier: Apache-2.0
"""Layers that make 16 bits from 8: what cores read as it is, and what they widen, gives the same bytes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import pillion
from pillion.compiler import compile_graph
from pillion.devices.cortex_m import Isa
from pillion.emitters.c.int8_operands import read_int8_operands, widen_after_moves
from pillion.emitters.c.kernel_choice import choose_kernels
from pillion.ir.graph import Graph
from pillion.ir.numerics import to_15_bits
from pillion.ir.op import Op
from pillion.ir.types import DType, PerTensor, TensorType, Value
from pillion.ir.verify import verify_graph
from pillion.ops import Conv2d, DepthwiseConv2d, Linear, Requantize, Scan, Transpose
from pillion.ops.example_values import make_op, random_like
from pillion.targets import find_target

LAYERS = [op for kind in (Conv2d, DepthwiseConv2d, Linear) for op in kind.examples() if op.widens]


def widened(layer: Op, step: float = 1.0) -> Graph:
    """The layer behind a conversion of its operand to 16 bits, in steps that are some of the operand's."""
    (x,) = layer.activations
    wide = Value("wide", TensorType(x.shape, DType.INT16, PerTensor(step * x.scale)))
    conversion = Requantize(x=x, y=wide, to=DType.INT16)
    return verify_graph(Graph("g", (x,), (conversion, layer.substitute({x: wide})), layer.results))


def same_bytes(before: Graph, after: Graph) -> bool:
    verify_graph(after)
    sample = random_like(before.inputs[0])
    return before.reference(sample)[0].tobytes() == after.reference(sample)[0].tobytes()


def with_finer_results(layer: Any) -> Any:
    """The layer with a result of steps so fine that some of its ratios of scales are far above one half."""
    quant = PerTensor(layer.y.scale / 16)
    return replace(layer, y=layer.y.like(layer.y.name, quant=quant))


def kernel_of(graph: Graph, isa: Isa) -> str:
    return choose_kernels(graph, isa)[-1].kernel.name


@pytest.mark.parametrize("isa", [Isa.DSP, Isa.MVE, Isa.PORTABLE, Isa.SCALAR])
@pytest.mark.parametrize("layer", LAYERS, ids=range(len(LAYERS)))
def test_the_same_bytes(layer: Op, isa: Isa) -> None:
    for one in (layer, with_finer_results(layer)):
        before = widened(one)
        after = read_int8_operands(before, isa)
        assert same_bytes(before, after)
        is_own = choose_kernels(after, isa)[-1].kernel.isa is isa
        assert is_own or after.ops[-1].widens, "portable kernels widen nothing"
        assert isa is not Isa.DSP or [op.kind for op in after.ops[:-1]] == ["requantize"] * is_own


@pytest.mark.parametrize("layer", LAYERS[:3], ids=range(3))
def test_large_ratios_keep_the_kernel(layer: Any) -> None:
    finer = with_finer_results(layer)
    assert to_15_bits(*layer.multipliers)[1].min() >= 16 > to_15_bits(*finer.multipliers)[1].min()
    usual, after = (read_int8_operands(widened(one), Isa.DSP) for one in (layer, finer))
    assert to_15_bits(*after.ops[-1].multipliers)[1].min() == 16  # type: ignore[attr-defined]
    assert kernel_of(after, Isa.DSP) == kernel_of(usual, Isa.DSP) != f"{layer.kind}_16"


def test_npu_targets_get_finer_steps_on_the_core() -> None:
    program = compile_graph(widened(with_finer_results(LAYERS[0])), find_target("imxrt700"))
    finer, layer = program.ledger
    assert (finer.op, layer.op) == program.graph.ops
    assert finer.op.name.endswith("_finer")
    assert [entry.deciding.rule for entry in program.ledger] == ["requantize.supported", "conv2d.dtype"]


def test_other_steps_stay_conversions() -> None:
    before = widened(LAYERS[0], step=1 / 128)
    assert read_int8_operands(before, Isa.PORTABLE) is before


def test_moves_come_before() -> None:
    layer = next(op for op in LAYERS if isinstance(op, Conv2d))
    (x,) = layer.activations
    image = x.like("image", shape=tuple(x.shape[axis] for axis in (0, 3, 1, 2)))
    wide = Value("wide", TensorType(image.shape, DType.INT16, PerTensor(x.scale)))
    conversion = Requantize(x=image, y=wide, to=DType.INT16)
    moved = Value("moved", TensorType(x.shape, DType.INT16, PerTensor(x.scale)))
    move = make_op(Transpose, moved, x=wide, order=(0, 2, 3, 1))
    (moved,) = move.results
    graph = verify_graph(Graph("g", (image,), (conversion, move, replace(layer, x=moved)), layer.results))
    for isa, kinds in (
        (Isa.PORTABLE, ["transpose", "conv2d"]),
        (Isa.DSP, ["transpose", "requantize", "conv2d"]),
    ):
        after = read_int8_operands(widen_after_moves(graph), isa)
        assert [op.kind for op in after.ops] == kinds
        assert after.ops[0].results[0].dtype is DType.INT8
        assert same_bytes(graph, after)


def test_bias_that_does_not_fit_finer_steps() -> None:
    layer = with_finer_results(LAYERS[0])
    bias = layer.bias
    large = replace(layer, bias=replace(bias, data=np.full(bias.shape, 2**30, np.int32)))
    before = widened(large)
    (after,) = read_int8_operands(before, Isa.DSP).ops
    assert after.widens, "the portable kernel reads bytes"


@pytest.mark.parametrize("size", [2**31 - 5, 2**40])
def test_sums_that_do_not_fit_are_widened(size: int) -> None:
    """Biases whose sums pass 32 bits, and biases of 64 bits: the operand has 16 bits there."""
    layer: Any = LAYERS[0]
    dtype = np.int32 if size < 2**31 else np.int64
    bias = Value("bias", TensorType(layer.bias.shape, DType(np.dtype(dtype).name), layer.bias.type.quant))
    bias = replace(bias, data=np.full(bias.shape, size, dtype))
    wide = widened(layer)
    convolution: Any = wide.ops[-1]
    before = wide.replace(ops=(wide.ops[0], replace(convolution, bias=bias)))
    for isa in (Isa.MVE, Isa.DSP):
        assert read_int8_operands(before, isa) is before


class Recurrence(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.gru, self.last = nn.GRU(9, 17, batch_first=True), nn.Linear(17, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.gru(x)[0])  # type: ignore[no-any-return]  # of torch


def test_layers_in_loops_read_bytes() -> None:
    data = [torch.randn(1, 11, 9) for _ in range(4)]
    options: Any = {"calibrate": data, "progress": False, "int16": ("linear_default", "linear_default_2")}
    program = pillion.compile(Recurrence().eval(), data[0], target="cortex-m55", **options)
    (loop,) = (op for op in program.graph.ops if isinstance(op, Scan))
    assert sum(op.widens for op in loop.body.ops if isinstance(op, Linear)) == 2
    exact = program.run(data[3], on="reference")[0]
    np.testing.assert_array_equal(program.run(data[3], on="host")[0], exact)


def test_scale_ratios_from_2_to_15_on_are_refused() -> None:
    layer: Any = LAYERS[0]
    fine = layer.y.like("y", quant=PerTensor(layer.y.scale * 2.0**-20))
    with pytest.raises(pillion.PillionError, match="below 2\\^15"):
        replace(layer, y=fine).check()
