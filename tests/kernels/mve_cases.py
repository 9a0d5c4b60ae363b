# SPDX-License-Identifier: Apache-2.0
"""Random and extreme layers for the tests of the Helium kernels, and what they must answer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pillion.emitters.c.accumulators import OutputChannels
from pillion.ir import numerics
from pillion.ir.numerics import Multiplier
from pillion.ir.types import DType, Pair, PerTensor, Sides, TensorType, Value, constant_value
from pillion.ops.conv import Conv2d, Convolution, DepthwiseConv2d, padded_windows

Int8Array = NDArray[np.int8]


@dataclass(frozen=True)
class ConvGeometry:
    """The shapes of a convolution over NHWC images."""

    images: int
    in_size: Pair
    in_c: int
    out_size: Pair
    out_c: int
    kernel: Pair
    stride: Pair = (1, 1)
    dilation: Pair = (1, 1)
    pad_top: int = 0
    pad_left: int = 0
    groups: int = 1

    @property
    def padding(self) -> Sides:
        """The padding, behind the image as much as the windows reach."""
        ends = (
            max((o - 1) * s + (k - 1) * d + 1 - size - pad, 0)
            for o, s, k, d, size, pad in zip(
                self.out_size,
                self.stride,
                self.kernel,
                self.dilation,
                self.in_size,
                (self.pad_top, self.pad_left),
                strict=True,
            )
        )
        bottom, right = ends
        return self.pad_top, self.pad_left, bottom, right


@dataclass(frozen=True)
class Layer:
    """A convolution with everything known, and its input."""

    geometry: ConvGeometry
    channels: OutputChannels
    x: Int8Array
    depthwise: bool = False

    @property
    def label(self) -> str:
        g, s = self.geometry, self.channels
        return f"{self.x.shape} -> {g.out_c} {g} zp {s.in_zp} {s.out_zp} clamp {s.low} {s.high} shifts {s.shifts.tolist()}"

    def expected(self) -> Int8Array:
        g, s = self.geometry, self.channels
        seen = self.seen()
        if self.depthwise:
            taps = s.weights.T.reshape(*g.kernel, g.out_c).astype(np.float64)
            seen = np.repeat(seen, g.out_c // g.in_c, axis=-1)
            return self.finish(np.einsum("nyxhwc,hwc->nyxc", seen, taps).astype(np.int64))
        acc = np.empty((*seen.shape[:3], g.out_c), np.int64)
        group_in, group_out = g.in_c // g.groups, g.out_c // g.groups
        for i in range(g.groups):
            part = seen[..., i * group_in : (i + 1) * group_in].reshape(*seen.shape[:3], -1)
            out = slice(i * group_out, (i + 1) * group_out)
            acc[..., out] = part @ s.weights[out].astype(np.float64).T
        return self.finish(acc)

    def op(self) -> Convolution:
        """The layer as the compiler sees it."""
        g, s = self.geometry, self.channels
        multipliers = zip(s.multipliers.tolist(), s.shifts.tolist(), strict=True)
        shape = (*g.kernel, g.out_c) if self.depthwise else (*g.kernel, g.in_c // g.groups)
        weights = s.weights.T.reshape(1, *shape) if self.depthwise else s.weights.reshape(g.out_c, *shape)
        operands: Any = {
            "x": Value("x", TensorType(self.x.shape, DType.INT8, PerTensor(0.1, s.in_zp))),
            "weights": constant_value("w", weights, PerTensor(0.01)),
            "bias": constant_value("b", np.asarray(s.bias, np.int32), PerTensor(1e-3)),
            "y": Value(
                "y", TensorType((g.images, *g.out_size, g.out_c), DType.INT8, PerTensor(0.1, s.out_zp))
            ),
            "explicit": tuple(Multiplier(mantissa, shift) for mantissa, shift in multipliers),
        }
        sizes: Any = {"stride": g.stride, "dilation": g.dilation, "padding": g.padding}
        bounds: Any = {"low": s.low, "high": s.high}
        if self.depthwise:
            return DepthwiseConv2d(**operands, **sizes, **bounds)
        return Conv2d(**operands, **sizes, **bounds, groups=g.groups)

    def seen(self) -> NDArray[np.float64]:
        g = self.geometry
        x = self.x.astype(np.float64) - self.channels.in_zp
        return padded_windows(x, g.kernel, g.stride, g.dilation, g.padding)[
            :, : g.out_size[0], : g.out_size[1]
        ]

    def finish(self, acc: NDArray[np.int64]) -> Int8Array:
        s = self.channels
        scaled = numerics.requantize(acc + s.bias, s.multipliers, s.shifts)
        return np.clip(scaled + s.out_zp, s.low, s.high).astype(np.int8)


def same(size: int, kernel: int, stride: int, dilation: int) -> tuple[int, int]:
    """Output size and padding before, as TensorFlow's SAME."""
    out = -(-size // stride)
    return out, max((out - 1) * stride + (kernel - 1) * dilation + 1 - size, 0) // 2


def geometry(
    in_size: tuple[int, int],
    in_c: int,
    out_c: int,
    kernel: tuple[int, int] = (1, 1),
    stride: tuple[int, int] = (1, 1),
    dilation: tuple[int, int] = (1, 1),
    padding: str | tuple[int, int, int, int] = "same",
    images: int = 1,
    groups: int = 1,
) -> ConvGeometry:
    """`padding` is "same" or (top, left, bottom, right)."""
    if isinstance(padding, str):
        (out_h, top), (out_w, left) = (same(*a) for a in zip(in_size, kernel, stride, dilation, strict=True))
    else:
        top, left, bottom, right = padding
        spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
        out_h = (in_size[0] + top + bottom - spans[0]) // stride[0] + 1
        out_w = (in_size[1] + left + right - spans[1]) // stride[1] + 1
    return ConvGeometry(
        images, in_size, in_c, (out_h, out_w), out_c, kernel, stride, dilation, top, left, groups
    )


def layer(
    rng: np.random.Generator,
    g: ConvGeometry,
    *,
    extreme: bool = False,
    shifts: tuple[int, int] = (-10, -6),
    zps: tuple[int, int] = (3, -5),
    clamp: tuple[int, int] = (-128, 127),
    depthwise: bool = False,
) -> Layer:
    """Random data; `extreme` has only the largest weights and inputs, so that sums are as large as they can be."""
    inputs = g.kernel[0] * g.kernel[1] * (1 if depthwise else g.in_c // g.groups)
    x_shape, w_shape = (g.images, *g.in_size, g.in_c), (g.out_c, inputs)
    if extreme:
        x = rng.choice(np.array([-128, 127], np.int8), x_shape)
        weights = rng.choice(np.array([-127, 127, -128], np.int8), w_shape, p=[0.49, 0.49, 0.02])
    else:
        x = rng.integers(-128, 128, x_shape).astype(np.int8)
        weights = rng.integers(-127, 128, w_shape).astype(np.int8)
    multipliers = rng.integers(2**30, 2**31, g.out_c)
    multipliers[rng.random(g.out_c) < 0.2] = 2**30
    channels = OutputChannels(
        weights,
        rng.integers(-20000, 20000, g.out_c).astype(np.int32),
        multipliers.astype(np.int32),
        rng.integers(shifts[0], shifts[1] + 1, g.out_c).astype(np.int32),
        *zps,
        *clamp,
    )
    return Layer(g, channels, x, depthwise)


def with_small_sums(case: Layer, rng: np.random.Generator) -> Layer:
    """A layer of few weights that are not 0, so that ratios of scales from 1/2 on make results within int8 and beyond."""
    weights = rng.choice(np.array([-1, 0, 1], np.int8), case.channels.weights.shape, p=[0.1, 0.8, 0.1])
    bias = rng.integers(-200, 200, len(weights)).astype(np.int32)
    return replace(case, channels=replace(case.channels, weights=weights, bias=bias))


def with_dead_channel(case: Layer, channel: int) -> Layer:
    """One channel whose scale is next to nothing, as the quantizer encodes it: multiplier 0, shift 0."""
    multipliers, shifts = case.channels.multipliers.copy(), case.channels.shifts.copy()
    multipliers[channel], shifts[channel] = 0, 0
    return replace(case, channels=replace(case.channels, multipliers=multipliers, shifts=shifts))


def with_a_tie(g: ConvGeometry) -> Layer:
    """A depthwise layer with a channel whose bias alone is 15.5 steps: its large sum decides between 15 and 16."""
    case = layer(np.random.default_rng(0), g, depthwise=True, shifts=(-25, -25), zps=(0, 0))
    case.channels.multipliers[2], case.channels.bias[2] = 2**30, 31 * 2**25
    return case
