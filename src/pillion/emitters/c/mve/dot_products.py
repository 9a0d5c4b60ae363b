# SPDX-License-Identifier: Apache-2.0
"""The Helium kernels of dot products: each computes one form of windows with operands and weights of some types."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from pillion.emitters.c.kernel import CallCost, Kernel, Params, Routine
from pillion.emitters.c.kernel_conditions import Condition, fixed_point, short_circuit
from pillion.emitters.c.kernel_library import MVE, types_suffix
from pillion.emitters.c.mve import pack
from pillion.ir.numerics import Arithmetic
from pillion.ir.verdict import Verdict
from pillion.ops.conv import Conv2d
from pillion.ops.layer import Layer
from pillion.ops.linear import Linear


def one_pixel(op: Conv2d) -> Iterator[Verdict]:
    """Checks whether a convolution computes one pixel from the whole image: a matrix-vector product."""
    yield Verdict("pixels", op.y.shape[:3] == (1, 1, 1), "one", str(op.y.shape[:3]))
    yield Verdict("window", op.kernel == op.x.shape[1:3], "the whole image", str(op.kernel))
    yield Verdict("groups", op.groups == 1, "1", str(op.groups))


def rescaled_in_fixed_point(op: Linear, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks whether vectors are rescaled in fixed point, as all 16-bit results of 8-bit operands are."""
    return () if op.widens else (fixed_point(op, arithmetic),)


def vector_sizes(op: Layer) -> dict[str, int]:
    """Returns the sizes of a fully connected layer, or of a convolution as a fully connected layer of its pixels."""
    out_features, in_features = op.weights_per_output.shape
    return {
        "rows": op.rows if isinstance(op, Linear) else math.prod(op.y.shape[:3]),
        "in_features": in_features,
        "out_features": out_features,
        "chunks": -(-in_features // pack.vector_inputs(op)),
    }


@dataclass(frozen=True)
class Windows:
    """The windows that dot products read, and the loop over them."""

    op: type[Layer]
    name: str
    """The beginning of the names of kernels."""
    routine: str
    """The beginning of the names of C functions."""
    sizes: Callable[[Any], dict[str, int]]
    condition: Condition[Any]
    has_few_inputs: Condition[Any] = lambda op: ()
    """Whether windows have at most 16 inputs and enough neighbours to be computed together."""
    shared: tuple[str, ...] = ()
    """The C file of the loop."""
    scratch_bytes: Callable[[Any], int] = lambda op: 0
    costs: Mapping[str, Any] = field(default_factory=dict)


OVERREAD: dict[str, Any] = {"overread_bytes": pack.OVERREAD_BYTES}
POINTWISE: dict[str, Any] = {**OVERREAD, "call_cost": CallCost(200.0, channel=4.5)}
PIXELS = Windows(
    Conv2d,
    "conv2d_1x1",
    "conv2d_1x1",
    pack.pointwise_sizes,
    pack.pixels_are_windows,
    pack.few_channels,
    shared=("pointwise",),
    costs=POINTWISE,
)
GATHERED = Windows(
    Conv2d,
    "conv2d_im2col",
    "conv2d_im2col",
    pack.im2col_sizes,
    pack.is_ungrouped,
    pack.small_windows,
    shared=("im2col",),
    scratch_bytes=pack.im2col_scratch_bytes,
    costs={"call_cost": CallCost(150.0, reread=0.45)},
)
ROWS = Windows(
    Linear,
    "linear_rows",
    "conv2d_1x1",
    pack.rows_sizes,
    rescaled_in_fixed_point,
    pack.few_features,
    shared=("pointwise",),
    costs=POINTWISE,
)
ONE_PIXEL = Windows(Conv2d, "conv2d_pixel", "linear", vector_sizes, one_pixel, costs=OVERREAD)
FEW_PIXELS = replace(ONE_PIXEL, name="conv2d_few_pixels", condition=pack.are_few_vectors)
VECTORS = replace(ONE_PIXEL, op=Linear, name="linear", condition=rescaled_in_fixed_point)


def has_chunks(chunks: int, op: Layer) -> Verdict:
    """Checks whether the inputs of a window fill exactly the vectors of an unrolled loop."""
    inputs, least = op.weights_per_output.shape[1], 16 * chunks - 15
    return Verdict(
        "window", pack.vector_count(inputs) == chunks, f"{least} to {16 * chunks} inputs", str(inputs)
    )


@dataclass(frozen=True)
class DotProducts:
    """Dot products of one type of operands and weights, and the rescaling of their sums."""

    types: str
    """The types in the names of C functions: s8, or s16_s4 for 16-bit operands and weights of 4 bits."""
    layer: Condition[Any]
    """Whether a layer has these types."""
    constants: Callable[[Any], Params]
    """Returns the constants, and other parameters of the loops over inputs."""
    exact: Condition[Any] = lambda op: ()
    """Whether results are exact."""
    files: tuple[str, ...] = ()
    """The C files of the loops over inputs."""
    unrolled_files: tuple[str, ...] = ()
    """The C files of unrolled loops."""
    variant: str = ""
    """Suffix that distinguishes kernels of the same types."""
    unpacks: bool = False
    """Whether constants are unpacked to scratch memory first."""
    file: str = ""
    """The C file, if it is not named as its function."""

    def kernel(self, windows: Windows, *conditions: Condition[Any], **more: Any) -> Kernel:
        """Returns the kernel for a form of windows that meet further conditions."""
        file = self.file or f"{windows.routine}{self.variant}_{self.types}"
        return self._kernel(windows, "", MVE.routine(file, *windows.shared, *self.files), conditions, **more)

    def unrolled(self, windows: Windows, *conditions: Condition[Any], **more: Any) -> Iterator[Kernel]:
        """Yields the kernels whose loops are unrolled for 2, 3 and 4 vectors of 16 inputs."""
        file = f"{windows.routine}_few{self.variant}_{self.types}"
        routine = MVE.routine(file, *windows.shared, *self.unrolled_files)
        for chunks in (2, 3, 4):
            exact = *conditions, partial(has_chunks, chunks)
            yield self._kernel(windows, f"_k{16 * chunks}", routine, exact, **more)

    def _kernel(
        self,
        windows: Windows,
        inputs: str,
        routine: Routine,
        conditions: Sequence[Condition[Any]],
        **more: Any,
    ) -> Kernel:
        key = inputs + self.variant
        return MVE.kernel(
            windows.op,
            replace(routine, name=f"pillion_{windows.routine}{key}_{self.types}_mve"),
            lambda op: {**windows.sizes(op), **self.constants(op)},
            requires=(short_circuit(self.layer, windows.condition, *conditions, self.exact),),
            name=f"{windows.name}{key}{types_suffix(self.types)}",
            scratch_bytes=lambda op: windows.scratch_bytes(op) + (pack.room_bytes(op) if self.unpacks else 0),
            **{**windows.costs, **more},
        )
