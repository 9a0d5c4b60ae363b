# SPDX-License-Identifier: Apache-2.0
"""Convolutions, pools and resizing of ONNX, as calls of PyTorch."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from pillion.importers.torch.onnx.reading import Operator, UnreadableOperator, bounded


def _split_padding(total: int, mode: str) -> tuple[int, int]:
    """Returns the padding before and after an axis."""
    small, large = total // 2, total - total // 2
    return (large, small) if mode == "SAME_LOWER" else (small, large)


def _window_padding(
    op: Operator, x: Tensor, kernel: Sequence[int], dilations: list[int]
) -> list[tuple[int, int]]:
    """Returns the padding before and after each spatial axis."""
    n, mode = len(kernel), op.get("auto_pad", "NOTSET")
    pads = op.get("pads", [0] * 2 * n)
    if mode not in ("SAME_UPPER", "SAME_LOWER"):
        return list(zip(pads[:n], pads[n:], strict=True)) if mode == "NOTSET" else [(0, 0)] * n
    strides = op.get("strides", [1] * n)
    rows = zip(x.shape[2:], kernel, strides, dilations, strict=True)
    totals = [(-(-size // step) - 1) * step + (k - 1) * apart + 1 - size for size, k, step, apart in rows]
    return [_split_padding(max(total, 0), mode) for total in totals]


def _padded(
    op: Operator, x: Tensor, kernel: Sequence[int], dilations: list[int], value: float
) -> tuple[Tensor, list[int]]:
    """Returns an operand, padded where the two sides differ, and the padding left to the layer."""
    pairs = _window_padding(op, x, kernel, dilations)
    if all(a == b for a, b in pairs):
        return x, [a for a, _ in pairs]
    return F.pad(x, [n for pair in reversed(pairs) for n in pair], value=value), [0] * len(pairs)


def _by_rank(name: str, rank: int) -> Callable[..., Tensor]:
    if rank not in (1, 2, 3):
        raise UnreadableOperator(f"it has {rank} spatial axes")
    return getattr(F, f"{name}{rank}d")


def conv(op: Operator, x: Tensor, w: Tensor, bias: Tensor | None = None) -> Tensor:
    """Computes a `Conv`, padded as its attributes say."""
    n = w.ndim - 2
    op.require("kernel_shape", list(w.shape[2:]))
    dilations = op.get("dilations", [1] * n)
    x, padding = _padded(op, x, w.shape[2:], dilations, 0.0)
    return _by_rank("conv", n)(x, w, bias, op.get("strides", [1] * n), padding, dilations, op.get("group", 1))


def conv_transpose(op: Operator, x: Tensor, w: Tensor, bias: Tensor | None = None) -> Tensor:
    """Computes a `ConvTranspose`. Where the two sides are cut differently, the whole result is cut."""
    n, mode = w.ndim - 2, op.get("auto_pad", "NOTSET")
    op.require("kernel_shape", list(w.shape[2:]))
    strides, dilations = op.get("strides", [1] * n), op.get("dilations", [1] * n)
    more, pads = op.get("output_padding", [0] * n), op.get("pads", [0] * 2 * n)
    sizes = op.get("output_shape")
    if sizes is None and mode in ("SAME_UPPER", "SAME_LOWER"):
        sizes = [size * step for size, step in zip(x.shape[2:], strides, strict=True)]
    pairs = list(zip(pads[:n], pads[n:], strict=True))
    if sizes is not None:
        rows = zip(x.shape[2:], strides, more, w.shape[2:], dilations, sizes[-n:], strict=True)
        totals = [step * (size - 1) + m + (k - 1) * d + 1 - wanted for size, step, m, k, d, wanted in rows]
        mode = mode if mode.startswith("SAME") else "SAME_LOWER"
        pairs = [_split_padding(max(total, 0), mode) for total in totals]
        more = [m + max(-total, 0) for m, total in zip(more, totals, strict=True)]
    function, group = _by_rank("conv_transpose", n), op.get("group", 1)
    if all(a == b for a, b in pairs):
        return function(x, w, bias, strides, [a for a, _ in pairs], more, group, dilations)
    y = function(x, w, bias, strides, [0] * n, more, group, dilations)
    for axis, (before, after) in enumerate(pairs, 2):
        y = y.narrow(axis, before, y.shape[axis] - before - after)
    return y


def max_pool(op: Operator, x: Tensor) -> Tensor:
    """Computes a `MaxPool`, padded as its attributes say."""
    kernel = op.get("kernel_shape")
    n = len(kernel)
    if op.outputs > 1:
        raise UnreadableOperator("its indices are an output")
    op.require("storage_order", 0, 1)
    dilations = op.get("dilations", [1] * n)
    x, padding = _padded(op, x, kernel, dilations, -math.inf)
    function, strides = _by_rank("max_pool", n), op.get("strides", [1] * n)
    return function(x, kernel, strides, padding, dilations, bool(op.get("ceil_mode", 0)))


def average_pool(op: Operator, x: Tensor) -> Tensor:
    """Computes an `AveragePool`, padded as its attributes say."""
    kernel = op.get("kernel_shape")
    n, counts, ceil = len(kernel), bool(op.get("count_include_pad", 0)), bool(op.get("ceil_mode", 0))
    op.require("dilations", [1] * n)
    pairs, strides = _window_padding(op, x, kernel, [1] * n), op.get("strides", [1] * n)
    if any(a != b for a, b in pairs) and (ceil or not counts):
        raise UnreadableOperator("its padding differs at both ends, and is not counted")
    x, padding = _padded(op, x, kernel, [1] * n, 0.0)
    return _by_rank("avg_pool", n)(x, kernel, strides, padding, ceil, counts)


def local_response(op: Operator, x: Tensor) -> Tensor:
    """Computes an `LRN`, whose size is odd."""
    size = op.get("size")
    if size % 2 == 0:
        raise UnreadableOperator(f"its size {size} is even")
    return F.local_response_norm(x, size, op.get("alpha", 1e-4), op.get("beta", 0.75), op.get("bias", 1.0))


def resize(op: Operator, x: Tensor, *_: Tensor | None) -> Tensor:
    """Computes a `Resize` of images, or an `Upsample`."""
    is_upsample = op.kind == "Upsample"
    mode = op.get("mode", "nearest")
    where = op.get("coordinate_transformation_mode", "asymmetric" if is_upsample else "half_pixel")
    rounding = op.get("nearest_mode", "floor" if is_upsample else "round_prefer_floor")
    if op.opset == 10 or is_upsample:
        where, rounding = "asymmetric", "floor"
    op.require("antialias", 0)
    op.require("exclude_outside", 0)
    for unused in ("cubic_coeff_a", "extrapolation_value"):
        op.get(unused)
    scales = op.numbers(1 if op.opset <= 10 else 2, "scales") or None
    size = _resized(op, x, op.numbers(3, "sizes"), scales)
    whole = all(after % before == 0 for before, after in zip(x.shape[2:], size, strict=True))
    if mode == "nearest":
        half = where in ("half_pixel", "pytorch_half_pixel") and rounding.startswith("round_prefer")
        if (where == "asymmetric" and rounding == "floor") or (half and whole):
            return F.interpolate(x, size, mode="nearest")
    if mode == "linear" and where in ("half_pixel", "pytorch_half_pixel", "align_corners"):
        if where == "pytorch_half_pixel" and 1 in size:
            raise UnreadableOperator(f"mode {mode} with {where} to one row or column")
        return F.interpolate(x, size, mode="bilinear", align_corners=where == "align_corners")
    raise UnreadableOperator(f"mode {mode} with {where}" + (f" and {rounding}" if mode == "nearest" else ""))


def _resized(op: Operator, x: Tensor, sizes: list[int] | None, scales: list[float] | None) -> list[int]:
    """Returns the rows and columns of a result."""
    op.require("keep_aspect_ratio_policy", "stretch")
    axes = op.get("axes", list(range(x.ndim)))
    full = list(x.shape)
    wanted: list[Any] = sizes or [full[a] * s for a, s in zip(axes, scales or [1.0] * len(axes), strict=True)]
    for axis, size in zip(axes, wanted, strict=True):
        if size != int(size):
            raise UnreadableOperator(f"{full[axis]} becomes {size}, no whole number")
        full[axis] = int(size)
    bounded(full)
    if x.ndim != 4 or list(x.shape[:2]) != full[:2]:
        raise UnreadableOperator("it resizes other axes than the last two of four")
    return full[2:]
