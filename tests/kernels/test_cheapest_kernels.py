# SPDX-License-Identifier: Apache-2.0
"""Where several kernels take a layer, the one that is chosen takes the fewest instructions, counted in the emulator."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from dsp_ops import conv2d, depthwise, linear

from kernels import rig
from kernels.op_cases import CMSIS_NN, case_of, random_operands
from nightly import part_of, runs_all
from pillion.devices.cortex_m import Isa
from pillion.emitters.c.kernel import Kernel
from pillion.emitters.c.kernel_choice import choose_kernels, choose_variant_kernels
from pillion.ir.graph import Graph
from pillion.ir.types import PerTensor
from pillion.ir.verdict import all_ok
from pillion.ops.conv import Conv2d, DepthwiseConv2d
from pillion.ops.linear import Linear

pytestmark = pytest.mark.qemu

CLOSE = 0.08
"""Where two kernels are closer than that, either may be chosen."""
IMAGES = ((1, 1), (1, 7), (2, 2), (3, 3), (6, 6), (11, 9))
CHANNELS = ((3, 8), (8, 16), (16, 16), (24, 40), (33, 17), (64, 64))
Layer = Conv2d | DepthwiseConv2d | Linear


def layers() -> Iterator[Layer]:
    """From one pixel on, with few channels and many, with windows that reach over the borders."""
    for i, (h, w) in enumerate(part_of(IMAGES, 2)):
        for j, (channels, out) in enumerate(CHANNELS):
            yield conv2d((1, h, w, channels), out, seed=1)
            stride = 1 + (i + j) % 2
            yield conv2d(
                (1, h, w, channels), out, (3, 3), seed=1, stride=(stride, stride), padding=(1, 1, 1, 1)
            )
            if min(h, w) > 2:
                side = 5 if j % 2 else 3
                fields = {"stride": (stride, stride), "padding": (side // 2,) * 4}
                yield depthwise((1, h, w, channels), (side, side), seed=1, **fields)
    yield conv2d((1, 5, 5, 9), 12, (5, 5), seed=1)
    for pixels in (2, 4):
        for channels, out in CHANNELS:
            yield conv2d((1, 1, pixels + 2, channels), out, (1, 3), seed=1)
    for rows in (1, 2, 4, 9, 32):
        for features, out in (*CHANNELS, (48, 5), (256, 12)):
            yield linear(rows, features, out, seed=1)


@pytest.mark.turns(20)
@pytest.mark.parametrize(("target", "isa"), [(rig.M55, Isa.MVE), (rig.M33, Isa.DSP)], ids=["m55", "m33"])
def test_the_cheapest_kernel_is_chosen(target: rig.Target, isa: Isa) -> None:
    rng = np.random.default_rng(0)
    taken: list[tuple[Layer, Kernel]] = [
        (op, kernel)
        for op in layers()
        for kernel in target.kernels
        if kernel.op is type(op) and all_ok(kernel.check(op, CMSIS_NN))
    ]
    results = rig.run(target, [case_of(op, kernel, random_operands(op, rng)) for op, kernel in taken])
    counted: dict[Layer, dict[str, int]] = {}
    for (op, kernel), result in zip(taken, results, strict=True):
        counted.setdefault(op, {})[kernel.name] = result.instructions
    assert sum(len(counts) > 1 for counts in counted.values()) > (50 if runs_all() else 25)
    for op, counts in counted.items():
        chosen = choose_kernels(Graph("g", op.activations, (op,), op.results), isa)[0].kernel.name
        assert counts[chosen] <= (1 + CLOSE) * min(counts.values()), (op, counts)


def test_tiles_of_vectors_share_constants() -> None:
    """The last tile of a fully connected layer has fewer vectors, for which another kernel alone would be faster."""
    many, few = linear(16, 64, 32, seed=1), linear(3, 64, 32, seed=1)
    alone = {
        op: choose_kernels(Graph("g", op.activations, (op,), op.results), Isa.MVE)[0] for op in (many, few)
    }
    assert [choice.kernel.name for choice in alone.values()] == ["linear_rows_k64_mve", "linear_mve"]
    for usual, name in ((many, "linear_rows_k64_mve"), (few, "linear_mve")):
        together = choose_variant_kernels((many, few), usual, alone, CMSIS_NN, Isa.MVE)
        assert {choice.kernel.name for choice in together.values()} == {name}


def test_few_kernels_are_wanted_of_small_programs() -> None:
    """Vectors as pixels need more flash; a layer without a right shift has no other kernel."""
    plain = linear(16, 64, 32, seed=1)
    coarse = replace(
        plain, y=plain.y.like("y", quant=PerTensor(1.5 * plain.y.scale * float(plain.ratios.max())))
    )
    for op, name in ((plain, "linear_mve"), (coarse, "linear_rows_k64_mve")):
        (choice,) = choose_kernels(Graph("g", op.activations, (op,), op.results), Isa.MVE, "size")
        assert choice.kernel.name == name
