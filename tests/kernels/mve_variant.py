# SPDX-License-Identifier: Apache-2.0
"""A convolution kernel with all that belongs to it, and the comparison of its answers with the reference."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from types import SimpleNamespace
from typing import Any

import numpy as np
from mve_cases import Layer, geometry, layer

from kernels import rig
from pillion.emitters.c.accumulators import OutputChannels
from pillion.emitters.c.kernel import Call, Params, Routine
from pillion.emitters.c.mve import conv as mve_conv
from pillion.emitters.c.mve.pack import ConvGeometry
from pillion.emitters.c.op_fields import with_op_fields
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import DType, TensorType, Value
from pillion.ir.verdict import Verdict, all_ok

CHANNELS = (*range(1, 34), 63, 64, 65)
ZERO_POINTS = (-128, 0, 127)
CLAMPS = ((-128, 127), (-5, 127), (-5, 77), (-128, 30), (-3, -3))


@dataclass(frozen=True)
class Variant:
    """A kernel with its row of functions."""

    routine: Routine
    verdicts: Callable[[ConvGeometry, OutputChannels], tuple[Verdict, ...]]
    params: Callable[[ConvGeometry, OutputChannels], Params]
    scratch: Callable[[ConvGeometry], int] = lambda g: 0
    aligned: bool = False
    depthwise: bool = False
    in_place: Callable[[ConvGeometry], bool] = lambda g: False
    overread_bytes: int = 0

    @property
    def kernel(self) -> str:
        """The name of its function, as cases are named."""
        return self.routine.name

    def takes(self, case: Layer) -> bool:
        return all_ok(self.verdicts(case.geometry, case.channels))


def under_test(variant: mve_conv.ConvVariant, aligned: bool = False, depthwise: bool = False) -> Variant:
    """The variant as the compiler knows it."""
    return Variant(
        variant.routine,
        variant.verdicts,
        variant.params,
        variant.scratch,
        aligned,
        depthwise,
        variant.in_place,
        variant.overread_bytes,
    )


def check(variant: Variant, layers: Iterable[Layer], in_place: bool = False) -> None:
    """Runs all layers, where loads reach beyond the input with different bytes there: what lies behind may not count."""
    cases = list(layers)
    placed = [case_of(variant, case, i, in_place) for i, case in enumerate(cases)]
    rig.check(rig.M55, placed, [case.expected() for case in cases], rig.fillings(placed))


def op_of(g: ConvGeometry, channels: OutputChannels) -> Any:
    """What params take from the op itself."""
    return SimpleNamespace(
        x=SimpleNamespace(shape=(g.images, *g.in_size, g.in_c), zero_point=channels.in_zp),
        y=SimpleNamespace(shape=(g.images, *g.out_size, g.out_c), zero_point=channels.out_zp),
        **{"kernel": g.kernel, "stride": g.stride, "dilation": g.dilation},
        **{"padding": (g.pad_top, g.pad_left), "low": channels.low, "high": channels.high},
    )


def case_of(variant: Variant, case: Layer, number: int = 0, in_place: bool = False) -> rig.Case:
    """A layer by a variant, most of them off the alignment."""
    g = case.geometry
    assert variant.takes(case), case.label
    assert not in_place or variant.in_place(g), case.label
    x, y = (
        Value(name, TensorType(a.shape, DType.INT8)) for name, a in (("x", case.x), ("y", case.expected()))
    )
    params = with_op_fields(
        variant.routine.params_type,
        variant.params(g, case.channels),
        op_of(g, case.channels),
        Arithmetic.CMSIS_NN,
    )
    call = Call(variant.routine, params, (x,), y)
    sizes = variant.scratch(g), variant.overread_bytes
    misalign = 0 if variant.aligned else number % 5
    return rig.Case((call,), y, {x: case.x}, *sizes, x if in_place else None, misalign)


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
