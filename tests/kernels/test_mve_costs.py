# SPDX-License-Identifier: Apache-2.0
"""What the Helium kernels of depthwise layers say of their instructions, held against counts in the emulator."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from dsp_ops import conv2d, depthwise

from kernels import rig
from kernels.op_cases import CMSIS_NN, case_of, random_operands
from pillion.devices.cortex_m import Isa
from pillion.emitters.c.kernel import Kernel
from pillion.emitters.c.kernel_choice import choose_kernels
from pillion.emitters.c.kernel_costs import kernel_instructions
from pillion.ir.graph import Graph
from pillion.ir.verdict import all_ok
from pillion.ops.conv import DepthwiseConv2d

pytestmark = pytest.mark.qemu

SIZES = (
    (8, 8),
    (9, 9),
    (12, 12),
    (16, 16),
    (24, 24),
    (48, 48),
    (25, 5),
    (5, 25),
    (17, 33),
    (4, 48),
    (3, 24),
    (20, 8),
)
CLOSE = 0.08
"""Estimates may be so far off. Where two kernels are closer than that, either may be chosen."""


def layers() -> list[DepthwiseConv2d]:
    return [
        depthwise((1, h, w, channels), (3, 3), seed=1, stride=(stride, stride), padding=(1, 1, 1, 1))
        for stride in (1, 2)
        for h, w in SIZES
        for channels in (16, 48)
    ]


def several_filters() -> list[DepthwiseConv2d]:
    return [
        depthwise((1, h, w, 4), (3, 3), multiplier=m, seed=1, stride=(s, s), padding=(1, 1, 1, 1))
        for s in (1, 2)
        for h, w in ((9, 9), (24, 24), (17, 33))
        for m in (4, 8)
    ]


def five_by_five() -> list[DepthwiseConv2d]:
    """Whole images, and a few rows of them."""
    sizes = [(h, w, 2) for h, w in SIZES] + [(rows + 4, 20, 0) for rows in (1, 2, 3, 4, 6)]
    return [
        depthwise(
            (1, h, w, channels), (5, 5), seed=1, stride=(stride, stride), padding=(border, 2, border, 2)
        )
        for h, w, border in sizes
        for stride, channels in ((1, 7), (1, 40), (2, 16))
    ]


def costed(op: DepthwiseConv2d) -> list[Kernel]:
    kernels = [k for k in rig.M55.kernels if k.op is DepthwiseConv2d and k.work]
    return [k for k in kernels if all_ok(k.check(op, CMSIS_NN))]


def chosen(op: DepthwiseConv2d) -> Kernel:
    return choose_kernels(Graph("g", op.activations, (op,), op.results), Isa.MVE)[0].kernel


@pytest.mark.turns(2)
@pytest.mark.parametrize(("made", "kinds"), [(layers, 3), (several_filters, 3), (five_by_five, 2)])
def test_estimates_are_close_and_the_choice_is_the_cheapest(
    made: Callable[[], list[DepthwiseConv2d]], kinds: int
) -> None:
    rng = np.random.default_rng(0)
    pairs = [(op, kernel) for op in made() for kernel in costed(op)]
    results = rig.run(rig.M55, [case_of(op, kernel, random_operands(op, rng)) for op, kernel in pairs])
    counted: dict[DepthwiseConv2d, dict[Kernel, int]] = {}
    for (op, kernel), result in zip(pairs, results, strict=True):
        counted.setdefault(op, {})[kernel] = result.instructions
        assert kernel.work is not None
        assert abs(kernel.work(op) / result.instructions - 1) < CLOSE, (kernel.name, op.x.shape, op.stride)
    for op, counts in counted.items():
        assert counts[chosen(op)] <= (1 + CLOSE) * min(counts.values()), op
    assert len({chosen(op).name for op in counted}) == kinds


def test_a_cheaper_kernel_says_what_it_was_chosen_over() -> None:
    op = depthwise((1, 20, 8, 64), (3, 3), seed=1, stride=(2, 2), padding=(1, 1, 1, 1))
    choice = choose_kernels(Graph("g", op.activations, (op,), op.results), Isa.MVE)[0]
    assert choice.kernel.name == "depthwise_3x3_wide_mve"
    name, verdict = choice.passed_over[-1]
    assert (name, verdict.rule) == ("depthwise_3x3_stride2_mve", "instructions")
    assert choice.short_reason.startswith("not depthwise_3x3_stride2_mve (instructions)")


def test_a_relu_saves_the_rounding_of_negative_sums_and_estimates_know_it() -> None:
    """Depthwise layers and those of few inputs, as of networks for words and images."""
    fields = {"low": -128, "high": 127, "padding": (1, 1, 1, 1)}
    ops = [
        op
        for zero in (-128, 0)
        for op in (
            depthwise((1, 25, 5, 64), (3, 3), out_zp=zero, **fields),
            depthwise((1, 24, 24, 32), (3, 3), out_zp=zero, **fields),
            conv2d((1, 24, 24, 16), 16, out_zp=zero, low=-128, high=127),
        )
    ]
    chosen = [choose_kernels(Graph("g", op.activations, (op,), op.results), Isa.MVE)[0].kernel for op in ops]
    rng = np.random.default_rng(0)
    cases = [case_of(op, kernel, random_operands(op, rng)) for op, kernel in zip(ops, chosen, strict=True)]
    for op, kernel, run in zip(ops, chosen, rig.run(rig.M55, cases), strict=True):
        assert abs(kernel_instructions(op, kernel, Isa.MVE) / run.instructions - 1) < 0.03, (op.x, op.y)
