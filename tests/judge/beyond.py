# SPDX-License-Identifier: Apache-2.0
"""Programs past each limit of the real kernels: what Pillion would write if it did not know the limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np

from judge.machine import CORES, Core
from pillion.devices import cortex_m
from pillion.emitters.pte import elementwise, emit, library_limits, movement, pool
from pillion.emitters.pte.scratch import ScratchWindow
from pillion.ir.graph import Graph
from pillion.ir.op import Op
from pillion.ir.types import Array, PerChannel, Shape, Value, constant_value
from pillion.ops import Conv2d, DepthwiseConv2d, Minimum, Quantize, Softmax, Transpose, TransposeConv2d
from pillion.ops.example_values import float_value, make_op, random_like, value
from pillion.ops.softmax import OUTPUT

BOTH: tuple[Core, ...] = ("m55", "m33")
HELIUM: tuple[Core, ...] = ("m55",)
FLAT = {"dilation": (1, 1), "padding": (0, 0, 0, 0)}


@contextmanager
def without_limits() -> Iterator[None]:
    """The emitter as it would be without them."""
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(library_limits, "sizes_beyond_limit", return_value=[]))
        stack.enter_context(mock.patch.object(movement, "uses_matrix_transpose", return_value=True))
        stack.enter_context(mock.patch.object(library_limits, "is_transposed_conv_exact", return_value=True))
        stack.enter_context(mock.patch.object(pool, "LONGEST_SOFTMAX", 10**9))
        stack.enter_context(mock.patch.object(elementwise, "_merge_broadcast_axes", lambda *shapes: shapes))
        for name in ("loses_pixels", "row_kernel_fails"):
            stack.enter_context(mock.patch.object(ScratchWindow, name, False))
        yield


@dataclass(frozen=True)
class Beyond:
    """A program past a limit, an input that shows it, and the cores whose kernels have the limit."""

    op: Op
    input: Array
    cores: tuple[Core, ...]
    says: str
    """Words of the plug-in's refusal."""

    @property
    def graph(self) -> Graph:
        return Graph("beyond", self.op.activations, (self.op,), self.op.results)

    def program(self, core: Core) -> bytes:
        """As it would be without the limits."""
        with without_limits():
            return emit(self.graph, cortex_m.CORES[CORES[core]])


def _transpose(rows: int, columns: int, cores: tuple[Core, ...], says: str) -> Beyond:
    x = value("x", (rows, columns))
    return Beyond(
        make_op(Transpose, value("y", (1,)), x=x, order=(1, 0)), _numbered((rows, columns)), cores, says
    )


def _numbered(shape: Shape) -> Array:
    return random_like(value("numbers", shape))


def _layer(cls: type[Op], x: Shape, weights: Shape, axis: int, **fields: Any) -> tuple[Op, Array]:
    rng = np.random.default_rng(1)
    image, count = value("x", x), weights[axis]
    levels = rng.integers(-127, 128, weights).astype(np.int8)
    held = constant_value("w", levels, PerChannel((0.01,) * count, axis))
    bias = constant_value("b", np.zeros(count, np.int32), PerChannel((0.0005,) * count, 0))
    op = make_op(cls, value("y", (1,), 0.1), x=image, weights=held, bias=bias, **fields)
    return op, _numbered(x)


def _softmax() -> Beyond:
    x = value("x", (2, 512))
    op = make_op(Softmax, Value("y", value("y", (1,)).type.__class__((1,), x.dtype, OUTPUT)), x=x)
    return Beyond(op, np.full(x.shape, -3, np.int8), BOTH, "512 times")


def _quantize() -> Beyond:
    op = make_op(Quantize, value("y", (1,), 0.5), x=float_value("x", (1, 32)))
    return Beyond(op, np.full((1, 32), 20_000, np.float32), HELIUM, "steps from zero")


def _extremum() -> Beyond:
    """One number for each row of an image: the second operand is a constant, so that there is one input."""
    numbers = constant_value("b", np.arange(-6, 6, 3, np.int8).reshape(1, 4, 1, 1), value("q", ()).quant)
    x = value("x", (1, 4, 3, 2))
    return Beyond(
        make_op(Minimum, value("y", (1,)), a=x, b=numbers), _numbered(x.shape), BOTH, "last two axes"
    )


_SIZES = "16 bits"


def _depthwise() -> Beyond:
    """With gaps in the window: without them Helium has a kernel that counts in 32 bits."""
    fields = {"stride": (1, 1), "dilation": (2, 1), "padding": (0,) * 4}
    return Beyond(*_layer(DepthwiseConv2d, (1, 65537, 2, 2), (1, 2, 2, 2), 3, **fields), BOTH, _SIZES)


def _deconvolution(kernel: int, stride: int, padding: int, says: str) -> Beyond:
    fields = {"stride": (stride, stride), "dilation": (1, 1), "padding": (padding,) * 4}
    op, x = _layer(TransposeConv2d, (2, 4, 5, 3), (5, kernel, kernel, 3), 0, output_padding=(0, 0), **fields)
    return Beyond(op, x, BOTH, says)


def _conv(x: Shape, weights: Shape, cores: tuple[Core, ...], says: str, **fields: Any) -> Beyond:
    return Beyond(
        *_layer(Conv2d, x, weights, 0, groups=1, **{**FLAT, "stride": (1, 1), **fields}), cores, says
    )


PROGRAMS: dict[str, Callable[[], Beyond]] = {
    "matrix of 65,536 rows": lambda: _transpose(65536, 2, BOTH, _SIZES),
    "matrix of 65,536 columns": lambda: _transpose(2, 65536, BOTH, _SIZES),
    "matrix whose eighth row is far": lambda: _transpose(8, 9363, HELIUM, _SIZES),
    "image of 224 x 224 in three planes": lambda: _transpose(3, 224 * 224, HELIUM, _SIZES),
    "convolution of 65,537 columns": lambda: _conv((1, 2, 65537, 1), (1, 2, 2, 1), BOTH, _SIZES),
    "row with uneven padding": lambda: _conv(
        (1, 1, 6, 4), (3, 1, 3, 4), HELIUM, "one row", stride=(2, 2), padding=(0, 1, 0, 1)
    ),
    "depthwise convolution of 65,537 rows": _depthwise,
    "window smaller than the stride": lambda: _deconvolution(2, 3, 0, "window is as high"),
    "padding larger than the overlap": lambda: _deconvolution(3, 2, 2, "window is as high"),
    "padding that is no multiple of the stride": lambda: _deconvolution(4, 2, 1, "multiple of the stride"),
    "extremum with one number for each row": _extremum,
    "softmax of 512 equal numbers": _softmax,
    "real numbers of 40,000 steps": _quantize,
}
