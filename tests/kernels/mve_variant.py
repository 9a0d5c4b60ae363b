# SPDX-License-Identifier: Apache-2.0
"""A convolution kernel with all that belongs to it, and the comparison of its answers with the reference."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from mve_cases import Layer, geometry, layer

from kernels import rig
from pillion.devices.cortex_m import Isa
from pillion.emitters.c.kernel import Kernel
from pillion.emitters.c.kernel_lists import KERNELS_OF
from pillion.ir.numerics import Arithmetic
from pillion.ir.verdict import failed_rules

CHANNELS = (*range(1, 34), 63, 64, 65)
ZERO_POINTS = (-128, 0, 127)
CLAMPS = ((-128, 127), (-5, 127), (-5, 77), (-128, 30), (-3, -3))


@dataclass(frozen=True)
class Variant:
    """A kernel, and what its layers are like."""

    row: Kernel
    aligned: bool = False
    depthwise: bool = False

    @property
    def kernel(self) -> str:
        """The name of its function, as cases are named."""
        return f"pillion_{self.row.name.removesuffix('_mve')}_s8_mve"

    def takes(self, case: Layer) -> bool:
        return not self.refusals(case)

    def refusals(self, case: Layer) -> list[str]:
        """The rules that keep a layer from this kernel."""
        return [v.rule for v in failed_rules(self.row.check(case.op(), Arithmetic.CMSIS_NN))]

    def in_place(self, case: Layer) -> bool:
        return bool(self.row.in_place(case.op()))


def under_test(name: str, aligned: bool = False, depthwise: bool = False) -> Variant:
    """The variant as the compiler knows it."""
    (row,) = (kernel for kernel in KERNELS_OF[Isa.MVE] if kernel.name == f"{name}_mve")
    return Variant(row, aligned, depthwise)


def check(variant: Variant, layers: Iterable[Layer], in_place: bool = False) -> None:
    """Runs all layers, where loads reach beyond the input with different bytes there: what lies behind may not count."""
    cases = list(layers)
    placed = [case_of(variant, case, i, in_place) for i, case in enumerate(cases)]
    rig.check(rig.M55, placed, [case.expected() for case in cases], rig.fillings(placed))


def case_of(variant: Variant, case: Layer, number: int = 0, in_place: bool = False) -> rig.Case:
    """A layer by a variant, most of them off the alignment."""
    op = case.op()
    assert variant.takes(case), case.label
    assert not in_place or variant.in_place(case), case.label
    calls = variant.row.calls(op, Arithmetic.CMSIS_NN)
    sizes = variant.row.scratch_bytes(op), variant.row.overread_bytes
    misalign = 0 if variant.aligned else number % 5
    return rig.Case(calls, op.y, {op.x: case.x}, *sizes, op.x if in_place else None, misalign)


def some(rng: np.random.Generator, values: Sequence[int]) -> int:
    return int(values[int(rng.integers(len(values)))])


def random_layer(
    rng: np.random.Generator, kernel: tuple[int, int], channels: Sequence[int], depthwise: bool
) -> Layer:
    """Anything that may happen to a convolution with this kernel."""
    stride = some(rng, (1, 1, 2, 3)), some(rng, (1, 1, 2, 3))
    dilation = some(rng, (1, 1, 1, 2, 3)), some(rng, (1, 1, 1, 2, 3))
    span = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    top, left, bottom, right = (some(rng, (0, 0, s // 2, s - 1)) for s in (*span, *span))
    padding = top, left, bottom, right
    least = [max(s - padding[i] - padding[i + 2], 1) for i, s in enumerate(span)]
    size = (least[0] + some(rng, range(9)), least[1] + some(rng, range(12)))
    in_c = some(rng, channels)
    g = geometry(
        size,
        in_c,
        in_c if depthwise else some(rng, CHANNELS),
        kernel,
        stride,
        dilation,
        padding,
        some(rng, (1, 1, 2)),
    )
    zps, clamp = (some(rng, ZERO_POINTS), some(rng, ZERO_POINTS)), CLAMPS[some(rng, range(len(CLAMPS)))]
    return layer(rng, g, extreme=rng.random() < 0.3, zps=zps, clamp=clamp, depthwise=depthwise)


def random_layers(
    variant: Variant, seed: int, kernels: Sequence[tuple[int, int]], channels: Sequence[int]
) -> list[Layer]:
    rng = np.random.default_rng(seed)
    layers = (
        random_layer(rng, kernels[some(rng, range(len(kernels)))], channels, variant.depthwise)
        for _ in range(4000)
    )
    return list(islice(filter(variant.takes, layers), 60))
