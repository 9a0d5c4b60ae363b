# SPDX-License-Identifier: Apache-2.0
"""The kernels of spectra, and of logarithms of mel spectra."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from pillion.emitters.c.kernel import Kernel, Params
from pillion.emitters.c.kernel_conditions import has_dtypes
from pillion.emitters.c.kernel_library import DSP, MVE, PORTABLE, Library
from pillion.ir.types import Array, DType
from pillion.ops.fixed_fft import RADIX, logarithms, roots, split_twiddles, stages, twiddles
from pillion.ops.frames import MOST_SHIFTED
from pillion.ops.log_mel import LogMel
from pillion.ops.stft import Stft

LANES = 4
WIDE = 2**15
"""The factor of twiddles for VQDMULH, whose result is the upper half of twice the product."""


def params(op: LogMel | Stft) -> Params:
    """Returns the parameters except the twiddles."""
    window = op.window_levels.astype(np.int16)
    low, high = op.y.dtype.bounds
    return {
        **{"samples": op.x.shape[1], "frames": op.frames, "count": len(window), "hop": op.hop},
        **{"points": op.points, "low": low, "high": high, "power": op.power},
        "window": np.pad(window, (0, len(window) % 2)),
        "roots": roots() if op.power == 1 else roots()[:0],
        **(mel_params(op) if isinstance(op, LogMel) else stft_params(op)),
    }


def stft_params(op: Stft) -> Params:
    """Returns how results are made of a spectrum."""
    multiplier, right = op.scaling
    return {"multiplier": multiplier, "right": right, "most_shifted": MOST_SHIFTED}


def mel_params(op: LogMel) -> Params:
    """Returns how results are made of magnitudes."""
    (offset, offset_exponent), (floor, floor_exponent) = op.in_units(op.offset), op.in_units(op.floor)
    factor, constant = op.output_line
    weights, spans = pack_filters(op.filter_levels)
    return {
        **{"bands": op.filters.shape[1], "most_shifted": op.most_shifted},
        **{"offset": offset, "offset_exponent": offset_exponent},
        **{"floor": floor, "floor_exponent": floor_exponent},
        **{"factor": factor, "constant_high": constant >> 32},
        "constant_low": ((constant + 2**31) & 0xFFFFFFFF) - 2**31,
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


def all_twiddles(op: LogMel | Stft) -> Iterator[Array]:
    """Yields the twiddles of each stage, then of the split."""
    yield from map(twiddles, stages(op.points // 2))
    yield split_twiddles(op.points)


def packed_in_words(op: LogMel | Stft) -> Params:
    """Returns all parameters, with cosine and sine in one word."""
    pairs = np.concatenate([waves.reshape(-1, 2) for waves in all_twiddles(op)]).astype(np.int32)
    return {**params(op), "twiddles": (pairs[:, 1] << 16) | (pairs[:, 0] & 0xFFFF)}


def packed_in_vectors(op: LogMel | Stft) -> Params:
    """Returns all parameters for Helium."""
    first, *others = (waves.astype(np.int32) * WIDE for waves in all_twiddles(op))
    lanes = first.reshape(-1, LANES, RADIX - 1, 2).transpose(0, 2, 3, 1)
    *middle, last = others
    split = np.pad(last, ((0, -len(last) % LANES), (0, 0))).reshape(-1, LANES, 2).transpose(0, 2, 1)
    return {**params(op), "twiddles": np.concatenate([part.reshape(-1) for part in (lanes, *middle, split)])}


def kernels(library: Library, packed: Callable[[Any], Params]) -> Iterator[Kernel]:
    """Yields the kernels of an instruction set, which share a file."""
    of_mel = library.routine("log_mel")
    routines = {LogMel: of_mel, Stft: replace(of_mel, name=library.routine("stft").name)}
    for cls, routine in routines.items():
        yield library.kernel(
            cls,
            routine,
            packed,
            requires=(has_dtypes("x", DType.INT16), has_dtypes("y", DType.INT8, DType.INT16)),
            scratch_bytes=lambda op: 8 * op.points,
        )


KERNELS: tuple[Kernel, ...] = (
    *kernels(PORTABLE, packed_in_words),
    *kernels(DSP, packed_in_words),
    *kernels(MVE, packed_in_vectors),
)
