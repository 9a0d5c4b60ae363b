# SPDX-License-Identifier: Apache-2.0
"""The kernels of logarithms of mel spectra."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from pillion.emitters.c.kernel import Kernel, Params
from pillion.emitters.c.kernel_conditions import has_dtypes
from pillion.emitters.c.kernel_library import DSP, MVE, PORTABLE, Library
from pillion.ir.types import Array, DType
from pillion.ops.fixed_fft import RADIX, logarithms, split_twiddles, stages, twiddles
from pillion.ops.log_mel import LogMel

LANES = 4
WIDE = 2**15
"""The factor of twiddles for VQDMULH, whose result is the upper half of twice the product."""


def params(op: LogMel) -> dict[str, Any]:
    """Returns the parameters except the twiddles."""
    (offset, offset_exponent), (floor, floor_exponent) = op.in_units(op.offset), op.in_units(op.floor)
    factor, constant = op.output_line
    low, high = op.y.dtype.bounds
    window = op.window_levels.astype(np.int16)
    weights, spans = pack_filters(op.filter_levels)
    return {
        **{"samples": op.x.shape[1], "frames": op.frames, "count": len(window), "hop": op.hop},
        **{"points": op.points, "bands": op.filters.shape[1], "most_shifted": op.most_shifted},
        **{"offset": offset, "offset_exponent": offset_exponent},
        **{"floor": floor, "floor_exponent": floor_exponent},
        **{"factor": factor, "constant_high": constant >> 32, "low": low, "high": high},
        "constant_low": ((constant + 2**31) & 0xFFFFFFFF) - 2**31,
        "window": np.pad(window, (0, len(window) % 2)),
        **{"weights": weights, "spans": spans, "logarithms": logarithms()},
    }


def pack_filters(levels: Array) -> tuple[Array, Array]:
    """Returns the weights of all bands without the zeros around them, and first bin and number of bins of each."""
    spans, weights = [], []
    for band in levels.T:
        used = np.flatnonzero(band)
        first, end = (int(used[0]), int(used[-1]) + 1) if len(used) else (0, 0)
        spans += [first, end - first]
        weights.append(band[first:end])
    return np.concatenate(weights).astype(np.uint16), np.array(spans, np.int16)


def all_twiddles(op: LogMel) -> Iterator[Array]:
    """Yields the twiddles of each stage, then those of the split."""
    yield from map(twiddles, stages(op.points // 2))
    yield split_twiddles(op.points)


def packed_in_words(op: LogMel) -> Params:
    """Returns all parameters, with cosine and sine in one word."""
    pairs = np.concatenate([waves.reshape(-1, 2) for waves in all_twiddles(op)]).astype(np.int32)
    return {**params(op), "twiddles": (pairs[:, 1] << 16) | (pairs[:, 0] & 0xFFFF)}


def packed_in_vectors(op: LogMel) -> Params:
    """Returns all parameters for Helium."""
    first, *others = (waves.astype(np.int32) * WIDE for waves in all_twiddles(op))
    lanes = first.reshape(-1, LANES, RADIX - 1, 2).transpose(0, 2, 3, 1)
    *middle, last = others
    split = np.pad(last, ((0, -len(last) % LANES), (0, 0))).reshape(-1, LANES, 2).transpose(0, 2, 1)
    return {**params(op), "twiddles": np.concatenate([part.reshape(-1) for part in (lanes, *middle, split)])}


def kernel(library: Library, packed: Callable[[LogMel], Params]) -> Kernel:
    """Returns the kernel of an instruction set."""
    return library.kernel(
        LogMel,
        "log_mel",
        packed,
        requires=(has_dtypes("x", DType.INT16), has_dtypes("y", DType.INT8, DType.INT16)),
        scratch_bytes=lambda op: 8 * op.points,
    )


KERNELS: tuple[Kernel, ...] = (
    kernel(PORTABLE, packed_in_words),
    kernel(DSP, packed_in_words),
    kernel(MVE, packed_in_vectors),
)
