# SPDX-License-Identifier: Apache-2.0
"""What ops are estimated to take, held against counts in the emulator: random ones, and those that placement asks about alone."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import pillion
from pillion.devices.cortex_m import Isa
from pillion.emitters.c.kernel import Kernel
from pillion.emitters.c.kernel_choice import choose_kernels
from pillion.emitters.c.kernel_costs import FREE, core_cycles, kernel_costs, kernel_instructions
from pillion.emitters.c.kernel_lists import KERNELS_OF
from pillion.emitters.c.window_features import pool_features
from pillion.emitters.segments import cost_of
from pillion.ir.graph import Graph
from pillion.ir.op import Op
from pillion.ir.types import DType, PerChannel, PerTensor, constant_value
from pillion.ops import (
    AvgPool2d,
    Conv2d,
    DepthwiseConv2d,
    Function,
    Lut,
    MaxPool2d,
    Mean,
    Mul,
    Normalize,
    ReduceMax,
    Softmax,
    Transpose,
)
from pillion.ops.example_values import in_16_bits, make_op, value
from pillion.ops.softmax import OUTPUT
from pillion.partition import ProcessingUnit, partition
from pillion.targets import find_target

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

from kernel_costs import TARGETS, chosen_kernel, chosen_pairs, counted
from random_ops import random_ops_8_16, random_ops_16

CLOSE = 0.25
"""How far an estimate may be off."""
IMAGE = value("x", (1, 40, 40, 16))
ALONE = {
    "amax": make_op(ReduceMax, value("y", ()), x=value("x", (1, 12, 12, 16)), axes=(1, 2), keepdims=False),
    "sigmoid": make_op(
        Lut, value("y", (), *Function.SIGMOID.fixed_output), x=IMAGE, function=Function.SIGMOID
    ),
    "mean": make_op(Mean, value("y", (), 0.02), x=IMAGE, axes=(1, 2), keepdims=False),
    "max pool": make_op(
        MaxPool2d, value("y", ()), x=IMAGE, kernel=(3, 3), stride=(2, 2), padding=(1, 1, 1, 1)
    ),
    "average pool": make_op(AvgPool2d, value("y", ()), x=IMAGE, kernel=(2, 2), stride=(2, 2)),
    "softmax": make_op(Softmax, value("y", (), OUTPUT.scale, OUTPUT.zero_point), x=value("x", (1, 1000))),
}
"""Ops of which the core's cycles decide where they run."""
WIDE = in_16_bits(IMAGE)
IN_16_BITS = {
    "channels last": make_op(Transpose, WIDE.like("y"), x=WIDE, order=(0, 2, 3, 1)),
    "product with a number": make_op(
        Mul,
        WIDE.like("y"),
        a=WIDE,
        b=constant_value("b", np.array([99], np.int8), PerTensor(0.01)),
        low=-(2**15),
        high=2**15 - 1,
    ),
    "norm": make_op(Normalize, WIDE.like("y"), x=WIDE, axis=3, low=-(2**15), high=2**15 - 1),
}
FASTER_ON_NPU = ("max pool", "average pool", "softmax")


def kernel_of(op: Op, isa: Isa) -> Kernel:
    return choose_kernels(Graph("g", op.activations, (op,), op.results), isa)[0].kernel


def ratios(core: str, pairs: Sequence[tuple[Op, Kernel]]) -> list[float]:
    return [kernel_instructions(op, kernel, core) / count for op, kernel, count in counted(core, pairs)]


@pytest.mark.qemu
@pytest.mark.turns(4)
@pytest.mark.parametrize("core", list(TARGETS))
def test_estimates_of_random_ops_are_close_to_counts(core: str) -> None:
    """Of other ops than those of the fit and of the docs: 95 of 100 are close, so no more than four of 36 are not."""
    found = ratios(core, chosen_pairs(core, 36, seed=3))
    assert sum(abs(ratio - 1) > CLOSE for ratio in found) <= 4, found
    assert abs(np.median(found) - 1) < 0.05


@pytest.mark.qemu
def test_estimates_of_single_ops_are_close_to_counts() -> None:
    ops = ALONE | IN_16_BITS
    pairs = [(op, kernel_of(op, Isa.MVE)) for op in ops.values()]
    found = dict(zip(ops, ratios("cortex-m55", pairs), strict=True))
    assert all(abs(ratio - 1) <= CLOSE for ratio in found.values()), found


LAYERS_OF_NETWORKS = (
    (48, 8, 16),
    (24, 16, 32),
    (24, 32, 32),
    (12, 64, 64),
    (6, 64, 128),
    (6, 128, 128),
    (3, 256, 256),
)
"""Sides of images, and channels of 1x1 convolutions that read and make them."""


def layers_of_networks(are_wide: bool) -> list[Op]:
    """Returns 1x1 and depthwise convolutions with a ReLU, as in MobileNet."""
    layers = []
    for side, inputs, outputs in LAYERS_OF_NETWORKS:
        x, y = value("x", (1, side, side, inputs)), value("y", (), 0.05, -128)
        fields = {"low": -128, "high": 127, "x": x}
        if are_wide:
            fields, y = {"low": 0, "high": 2**15 - 1, "x": in_16_bits(x)}, in_16_bits(y)
        for kind, shape in ((Conv2d, (outputs, 1, 1, inputs)), (DepthwiseConv2d, (1, 3, 3, inputs))):
            quant = PerChannel((0.004,) * shape[0 if kind is Conv2d else 3], 0 if kind is Conv2d else 3)
            weights = constant_value("w", np.resize(np.arange(-127, 128, dtype=np.int8), shape), quant)
            made = {"weights": weights, "padding": (shape[1] // 2,) * 4}
            made["bias"] = constant_value("b", np.arange(len(quant.scales), dtype=np.int32))
            layers.append(make_op(kind, y, **fields, **made))
    return layers


@pytest.mark.qemu
@pytest.mark.parametrize("are_wide", [False, True])
def test_estimates_of_layers_of_networks_are_close_to_counts(are_wide: bool) -> None:
    """So --max-time holds, which compares both widths."""
    pairs = [(op, kernel_of(op, Isa.MVE)) for op in layers_of_networks(are_wide)]
    found = [
        (kernel_instructions(op, kernel, "cortex-m55"), n) for op, kernel, n in counted("cortex-m55", pairs)
    ]
    assert all(abs(estimate / count - 1) < 0.12 for estimate, count in found), found
    assert abs(sum(e for e, _ in found) / sum(n for _, n in found) - 1) < 0.03


@pytest.mark.qemu
def test_estimates_of_layers_from_8_to_16_bits_are_close_to_counts() -> None:
    """Of other ops than those of the fit, by vector kernels."""
    chosen = [(op, kernel_of(op, Isa.MVE)) for op in random_ops_8_16(60, seed=3)]
    pairs = [(op, kernel) for op, kernel in chosen if kernel.isa is Isa.MVE]
    assert len({kernel for _, kernel in pairs}) > 8
    found = ratios("cortex-m55", pairs)
    assert np.mean([abs(ratio - 1) > CLOSE for ratio in found]) < 0.05, found
    assert abs(np.median(found) - 1) < 0.05


@pytest.mark.parametrize("name", ALONE)
def test_the_cheaper_unit_runs_a_single_op(name: str) -> None:
    """Vela's cycles, and the start of the NPU, against those of the kernel."""
    op, chip = ALONE[name], find_target("cortex-m55+ethos-u55-128")
    assert chip.npu is not None
    npu = chip.npu
    graph = Graph("g", op.activations, (op,), op.results)
    on_core = core_cycles(chip.core)(op)
    placed = partition(
        graph, npu, core_cycles(chip.core), costs=lambda body: cost_of(body, npu, chip.converter_name)
    )
    known = cost_of(graph.replace(arithmetic=npu.arithmetic), npu, chip.converter_name)
    on_npu = npu.dispatch_cycles + (known.cycles if known else npu.estimate(op))
    (entry,) = placed.ledger
    assert (entry.unit is ProcessingUnit.NPU) == (on_npu < on_core), (on_npu, on_core)
    assert (entry.unit is ProcessingUnit.NPU) == (name in FASTER_ON_NPU) or not known


@pytest.mark.parametrize("op", [op for op in DepthwiseConv2d.examples() if op.x.dtype is DType.INT8], ids=str)
def test_taps_are_those_inside_the_image(op: DepthwiseConv2d) -> None:
    """Counted one by one, with the padding of their own side."""
    rows, columns = (
        sum(0 <= at * stride - before + tap * dilation < size for at in range(count) for tap in range(kernel))
        for size, count, stride, dilation, kernel, before in zip(
            op.x.shape[1:3], op.y.shape[1:3], op.stride, op.dilation, op.kernel, op.padding[:2], strict=True
        )
    )
    assert pool_features(op)["taps"] == op.x.shape[0] * rows * columns


@pytest.mark.parametrize("core", TARGETS)
def test_kernels_that_are_chosen_have_costs_of_their_own(core: str) -> None:
    """Those of other kernels may be off by 25 times."""
    chosen = [kernel for _, kernel in chosen_pairs(core, 400, seed=3)]
    chosen += filter(None, (chosen_kernel(op, core) for op in random_ops_16(400, seed=3)))
    counted_on_core = kernel_costs()[core]
    assert {k.name for k in chosen if not k.work and k.op.kind not in FREE} <= counted_on_core.keys()


def test_every_kernel_of_whole_ops_has_costs() -> None:
    """Kernels of LiteRT's arithmetic, and one for short filters, take those of others of their op."""
    of_litert = {k.name for isa in (Isa.MVE, Isa.DSP) for k in KERNELS_OF[isa] if "tflite" in k.name}
    like_others = {*of_litert, "depthwise_im2col_k16_mve"}
    for core, isa in (("cortex-m55", Isa.MVE), ("cortex-m33", Isa.DSP), ("cortex-m3", Isa.SCALAR)):
        known = kernel_costs()[core].keys() | like_others
        assert {k.name for k in KERNELS_OF[isa] if not k.is_tiled} <= known, core
    for kernel in (k for k in KERNELS_OF[Isa.MVE] if k.name in like_others):
        op = next(op for op in kernel.op.examples() if op.macs)
        assert (
            0
            < kernel_instructions(op, kernel, "cortex-m55")
            < 200 + 5 * op.macs + 100 * op.results[0].type.elements
        )


@pytest.mark.qemu
@pytest.mark.turns(3)
@pytest.mark.parametrize("core", ["cortex-m55", "cortex-m33"])
@pytest.mark.parametrize("name", ["resnet8", "ds_cnn", "deep_autoencoder"])
def test_estimates_of_networks_are_near_the_count(name: str, core: str) -> None:
    """Kernels for shapes that random ops seldom have, too: all ops of a network, one by one and together."""
    program = pillion.compile(name, target=core, io_dtype="int8", io_layout="nhwc", extra=0, progress=False)
    inputs = [np.zeros(v.shape, np.int8) for v in program.graph.inputs]
    profile = program.measure(*inputs, on=find_target(core).board).profile
    assert profile is not None
    choices = [step.choice for step in program.unstriped.steps]
    estimates = [kernel_instructions(choice.op, choice.kernel, core) for choice in choices]
    assert 0.94 < sum(estimates) / sum(profile.op_instructions) < 1.06
    for choice, estimate, count in zip(choices, estimates, profile.op_instructions, strict=True):
        assert count < 2000 or 0.7 < estimate / count < 1.4, choice.kernel.name
