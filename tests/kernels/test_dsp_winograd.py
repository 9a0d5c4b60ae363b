# SPDX-License-Identifier: Apache-2.0
"""Winograd's convolution in integers against the reference, byte for byte, on emulated boards, with memory guarded on both sides; and what it
is said to take."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple, replace

import numpy as np
import pytest
from dsp_ops import conv2d, with_pruned_channel

from kernels import rig
from kernels.op_cases import CMSIS_NN, case_of, random_operands, reference
from kernels.rig import M4, M7, M33, Target
from nightly import part_of
from pillion.devices.cortex_m import Isa
from pillion.emitters.c.dsp import winograd
from pillion.emitters.c.kernel_choice import choose_kernels
from pillion.emitters.c.lower import lower
from pillion.emitters.c.select_and_plan import select_and_plan
from pillion.ir.graph import Graph
from pillion.ir.types import DType, PerTensor, TensorType, Value, constant_value
from pillion.ir.verdict import all_ok, failed_rules
from pillion.memory import InnerOpRun, schedule
from pillion.ops.conv import Conv2d
from pillion.ops.region import split_into_tiles
from pillion.tiling.search import price, tiling_candidates
from pillion.tiling.stripe import Stripe, striped

pytestmark = pytest.mark.qemu

KERNEL = next(k for k in M33.kernels if k.name == "conv2d_winograd_dsp")
PADDINGS = ((1, 1, 1, 1), (0, 0, 0, 0), (2, 0, 1, 3), (0, 1, 2, 0), (5, 6, 4, 7), (1, 0, 0, 1))
"""The usual one, none, uneven ones, and tiles wholly outside the image."""
CLOSE = 0.03
"""How far estimates may be off."""


def layers() -> Iterator[Conv2d]:
    """Images from one result on, of odd and even sides; inputs below, at and above a round of the loop; all zero points and bounds."""
    for i in range(30):
        padding = PADDINGS[i % len(PADDINGS)]
        h, w = (max(size, 3) for size in (1 + i % 7, 1 + i * 5 % 11))
        channels = 4 * (1 + i * 3 % 10)
        yield conv2d((1 + i % 3 // 2, h, w, channels), 2 * (1 + i % 6), (3, 3), seed=i, padding=padding)
    for channels in (12, 16, 20, 36, 68):
        yield conv2d((1, 6, 7, channels), 4, (3, 3), seed=channels, padding=(1, 1, 1, 1))
    yield conv2d((1, 2, 40, 8), 6, (3, 3), seed=2, padding=(1, 1, 1, 1))


@pytest.mark.parametrize("extreme", [False, True], ids=["any", "least-and-most"])
@pytest.mark.parametrize("board", part_of([M33, M4, M7], 3), ids=lambda board: board.board.core)
def test_bytes_equal_the_reference(board: Target, extreme: bool) -> None:
    made = list(layers()) if board is M33 else list(layers())[::6]
    cases, expected = [], []
    for op in made:
        data = random_operands(op, np.random.default_rng(len(cases)), extreme)
        cases.append(case_of(op, KERNEL, data))
        expected.append(reference(op, CMSIS_NN, data))
    rig.check(board, cases, expected)


def largest(sign: int, zero_point: int, channels: int = 32) -> Conv2d:
    """All weights are -128, and the bias of one channel is as large as it may be, with a scale at which its results still differ."""
    op = conv2d((1, 4, 4, channels), 2, (3, 3), seed=1, out_zp=0, low=-128, high=127, padding=(1, 1, 1, 1))
    room = (winograd.SUM_LIMIT - 1 - channels * winograd.LARGEST_PLACE) // 4
    bias = sign * room - 128 * 9 * channels * zero_point
    x = Value("x", TensorType(op.x.shape, DType.INT8, PerTensor(0.04, zero_point)))
    weights = constant_value("weights", np.full_like(op.weights.constant, -128), op.weights.type.quant)
    y_scale = 0.04 * max(op.weights.type.quant.scales) * room / 120
    y = Value("y", TensorType(op.y.shape, DType.INT8, PerTensor(y_scale, 0)))
    return replace(op, x=x, weights=weights, y=y, bias=constant_value("bias", np.array([bias, 0], np.int32)))


@pytest.mark.parametrize("zero_point", [-128, 0, 127])
@pytest.mark.parametrize("sign", [-1, 1])
def test_the_largest_sums_of_all(sign: int, zero_point: int) -> None:
    op = largest(sign, zero_point)
    assert all_ok(winograd.KERNEL.check(op, CMSIS_NN))
    data = [np.full(op.x.shape, x, np.int8) for x in (-128, 127)]
    checks = np.indices(op.x.shape).sum(axis=0) % 2
    data.append(np.where(checks, -128, 127).astype(np.int8))
    cases = [case_of(op, KERNEL, (x,)) for x in data]
    expected = [reference(op, CMSIS_NN, (x,)) for x in data]
    assert len({y[0, 1, 1, 0] for y in expected}) > 1
    rig.check(M33, cases, expected)


def test_a_sum_that_could_leave_32_bits_is_refused() -> None:
    op = largest(1, 0)
    beyond = replace(op, bias=constant_value("bias", op.bias.constant + np.array([1, 0], np.int32)))
    assert [v.rule for v in failed_rules(winograd.KERNEL.check(beyond, CMSIS_NN))] == ["sums of places"]


def test_pruned_channels() -> None:
    ops = [
        with_pruned_channel(conv2d((1, 5, 3, 8), 4, (3, 3), seed=i), 1, bias)
        for i, bias in enumerate((2**30 + 128, -(2**31) + 1))
    ]
    cases, expected = [], []
    for op in ops:
        data = random_operands(op, np.random.default_rng(0))
        cases.append(case_of(op, KERNEL, data))
        expected.append(reference(op, CMSIS_NN, data))
    rig.check(M33, cases, expected)


def test_estimates_are_close_and_the_cheapest_is_chosen() -> None:
    rng = np.random.default_rng(0)
    sizes = (
        (2, 32, 16, 16),
        (8, 8, 16, 16),
        (9, 9, 12, 6),
        (16, 16, 32, 32),
        (8, 8, 64, 64),
        (2, 48, 48, 16),
    )
    ops = [
        conv2d((1, h, w, c), n, (3, 3), seed=1, padding=(1, 1, 1, 1), low=-128, high=127)
        for h, w, c, n in sizes
    ]
    taken = [
        (op, k)
        for op in ops
        for k in M33.kernels
        if k.op is Conv2d and k.work and all_ok(k.check(op, CMSIS_NN))
    ]
    runs = rig.run(M33, [case_of(op, kernel, random_operands(op, rng)) for op, kernel in taken])
    counted: dict[Conv2d, dict[str, float]] = {}
    for (op, kernel), run in zip(taken, runs, strict=True):
        assert kernel.work is not None
        if kernel is KERNEL:
            assert abs(kernel.work(op) / run.instructions - 1) < CLOSE, (kernel.name, op.x.shape)
        price = 2 * kernel.extra_flash(op)
        counted.setdefault(op, {})[kernel.name] = run.instructions + price
    names = set()
    for op, counts in counted.items():
        (choice,) = choose_kernels(graph_of(op), Isa.DSP)
        assert counts[choice.kernel.name] <= (1 + CLOSE) * min(counts.values())
        names.add(choice.kernel.name)
    assert names == {KERNEL.name, "conv2d_dsp", "conv2d_ring_dsp"}


def graph_of(op: Conv2d) -> Graph:
    return Graph("g", op.activations, (op,), op.results)


def test_small_code_has_no_weights_that_are_larger() -> None:
    graph = graph_of(conv2d((1, 32, 32, 16), 16, (3, 3), seed=1, padding=(1, 1, 1, 1)))
    assert choose_kernels(graph, Isa.DSP)[0].kernel is KERNEL
    assert choose_kernels(graph, Isa.DSP, "size")[0].kernel is not KERNEL


def test_prepared_weights_take_a_bounded_part_of_flash() -> None:
    within, beyond = (conv2d((1, 8, 8, 16), out, (3, 3), seed=1) for out in (32, 34))
    assert winograd.weight_growth_bytes(within) == 23 * 16 * 32 <= winograd.MOST_FLASH
    assert not failed_rules(KERNEL.check(within, CMSIS_NN))
    assert [v.rule for v in failed_rules(KERNEL.check(beyond, CMSIS_NN))] == ["further flash"]
    made = (lower(graph_of(within), Isa.DSP, optimize).constant_bytes for optimize in ("speed", "size"))
    fast, small = made
    assert fast - small == pytest.approx(winograd.weight_growth_bytes(within), abs=64)


def test_weights_lie_in_flash_once_however_many_rows_are_made_at_a_time() -> None:
    first = conv2d((1, 18, 33, 16), 16, (3, 3), seed=1, padding=(1, 1, 1, 1))
    fields = {"y": Value("z", first.y.type), "x": first.y}
    graph = Graph("g", first.activations, (first, replace(first, **fields)), (fields["y"],))
    cut = select_and_plan(striped(graph, (Stripe(0, 2, 5, 0),)), Isa.DSP)
    (region,) = cut.regions.values()
    for uses in region.of_ops:
        assert len(uses.variants) > 1
        assert {cut.chosen[variant].kernel.name for variant in uses.variants} == {KERNEL.name}


def test_stripes_make_rows_in_pairs() -> None:
    """A kernel of tiles of 2x2 takes as long for one row as for two: ops of stripes that have it make even numbers of rows, also where the op
    behind them asks for one more."""
    first = conv2d((1, 18, 33, 16), 16, (3, 3), seed=1, padding=(1, 1, 1, 1))
    fields = {"y": Value("z", first.y.type), "x": first.y}
    graph = Graph("g", first.activations, (first, replace(first, **fields)), (fields["y"],))
    whole = lower(graph, Isa.DSP)
    way = tiling_candidates(graph, whole, None).region(0, 2, 6)
    assert way is not None
    assert way.stripe is not None
    assert way.stripe.units == (2, 2)
    rows = {
        f.span.count
        for f in schedule(split_into_tiles(graph, *astuple(way.stripe))).events
        if isinstance(f, InnerOpRun)
    }
    assert rows == {8, 6, 4}
    odd = replace(way.stripe, units=())
    assert price(graph, whole, (way.stripe,)) < price(graph, whole, (odd,)) / 2
