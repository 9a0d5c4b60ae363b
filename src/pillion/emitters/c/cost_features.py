# SPDX-License-Identifier: Apache-2.0
"""The sizes of an op to which the instructions of its kernels are proportional: rows, vectors, taps, bytes of copies.
kernel_costs.py multiplies them by fitted coefficients."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np

from pillion import ops
from pillion.emitters.c.families.movement import copies
from pillion.emitters.c.kernel import Kernel
from pillion.emitters.c.strides import broadcast_steps, merge_contiguous_axes
from pillion.emitters.c.walk import rows_of
from pillion.emitters.c.window_features import (
    Features,
    chunks,
    conv_features,
    depthwise_features,
    dot_features,
    pool_features,
    transpose_conv_features,
)
from pillion.ir.op import Op
from pillion.ir.types import DType, Shape
from pillion.ops.conv import Convolution
from pillion.ops.elementwise import Binary
from pillion.ops.layer import Layer
from pillion.ops.pool import Pool
from pillion.ops.reduce import Reduction
from pillion.ops.resize import Resize

SHORT_RUN = 16
"""The bytes of a vector."""
MOST_FILTERED = 48
"""Filter kernels take this many samples at a time, or half as many."""
TINY_RUN = 8
"""Runs of fewer bytes are copied byte by byte, without vectors."""


def cost_features(op: Op, kernel: Kernel) -> Features:
    """Returns the sizes of an op by name, and the kernel's own estimate."""
    return _sizes(op) | ({"work": kernel.work(op)} if kernel.work else {})


def _sizes(op: Op) -> Features:
    y = op.results[0]
    results = y.type.elements
    found: Features = {
        "call": 1,
        "results": results,
        "operands": sum(v.type.elements for v in op.activations),
    }
    found["channels"] = y.shape[-1] if y.shape else 1
    bounds = getattr(op, "low", None), getattr(op, "high", None)
    if isinstance(bounds[0], int) and bounds != y.dtype.bounds:
        found["clamped"] = results
    if isinstance(op, Layer) and y.dtype is DType.INT8 and op.low < op.y.zero_point:
        found["signed"] = results  # Helium rounds negative sums otherwise, unless a ReLU drops them
    if op.macs and results:
        found["macs"] = op.macs
        found["mac_vectors"] = results * chunks(op.macs // results)
    for kinds, special in SPECIAL:
        if isinstance(op, kinds):
            return found | special(op)
    return found | _rows(results, *y.shape[-1:])


def _rows(elements: int, count: int = 1) -> Features:
    """Returns rows of some elements, in vectors of 16 and of 4 lanes."""
    rows = elements // max(count, 1)
    return {"rows": rows, "vectors": rows * chunks(count), "words": rows * chunks(count, 4)}


def _runs(rows: int, size: int) -> Features:
    """Returns copied runs of some bytes: short ones, and long ones, which take more if they are no words."""
    kind = "short" if size < SHORT_RUN else "odd" if size % 4 else "long"
    return {"rows": rows, f"{kind}_rows": rows, kind: rows * size, "vectors": rows * chunks(size)}


def _copied(op: Any) -> Features:
    """Returns the runs of a copy by length, and elements that lie apart; rows along the last axis share a loop."""
    found: dict[str, float] = defaultdict(float)
    for copy in copies(op):
        rows, size = copy.rows, copy.x.dtype.size_bytes
        found["copies"] += 1
        found["loops"] += rows.rows // rows.extent[-1] if rows.rows > 1 else 1
        steps = sorted(abs(step) for step in rows.step)
        bytes_in_row = rows.count * size
        if rows.step == (1, 1):
            length = "tiny" if bytes_in_row < TINY_RUN else "short" if bytes_in_row <= SHORT_RUN else "long"
            found[f"{length}_rows"] += rows.rows
            found[length] += rows.rows * bytes_in_row
            found["long_vectors"] += rows.rows * chunks(bytes_in_row)
            continue
        found["rows"] += rows.rows
        found["apart"] += rows.rows * rows.count
        if size <= 2 and steps[0] == 1 and min(rows.step) > 0:
            found["spread_rows"] += rows.rows
            lanes = 16 if size == 1 and steps[1] <= 17 else 8
            found["spread_vectors" if lanes == 16 else "spread_halves"] += rows.rows * chunks(
                rows.count, lanes
            )
        else:
            found["apart_bytes"] += rows.rows * bytes_in_row
    found["filled"] = op.y.type.size_bytes if isinstance(op, ops.Pad) and any((*op.before, *op.after)) else 0
    return found


def _gathered(op: ops.Gather) -> Features:
    inner = math.prod(op.x.shape[op.axis + 1 :]) * op.x.dtype.size_bytes
    rows = op.y.type.size_bytes // max(inner, 1)
    return _runs(rows, inner) | {"outer": math.prod(op.x.shape[: op.axis])}


def _walked(op: Any) -> Features:
    """Returns the rows of a walk over operands that broadcast. Rows with a repeated or strided operand take other
    loops."""
    operands = [v for v in op.operands if v.shape != (256,)]
    walk = rows_of(op.y.shape, [broadcast_steps(v.shape, op.y.shape) for v in operands])
    found = _rows(op.y.type.elements, walk.count)
    kind = "plain" if set(walk.step) == {1} else "still"
    kinds = [kind, *(v.dtype.value for v in {op.y, *operands} if v.dtype is not DType.INT8)]
    if isinstance(op, ops.IntegerArithmetic):
        kinds.append(op.calculation.value)
    return found | {f"{kind}_{name}": amount for kind in kinds for name, amount in found.items()}


def _blocked(op: Any) -> Features:
    """Returns the elements before, along and behind the axes of a reduction; others go through walks."""
    axes = op.axes if isinstance(op, Reduction) else (op.axis,)
    kept, gone = (merge_contiguous_axes(*_part(op.x.shape, axes, is_gone)) for is_gone in (False, True))
    results, along = op.y.type.elements, math.prod(gone[0])
    inner = kept[0][-1] if kept[0] and kept[1][0][-1] == 1 else 1
    outer = results // max(inner, 1)
    kind = "across" if inner > 1 else "along"
    run = gone[0][-1] if gone[0] and gone[1][0][-1] == 1 else 1
    found: Features = {
        "blocks": outer,
        "vectors": outer * chunks(inner),
        "steps": outer * along,
        "step_vectors": outer * along * chunks(inner),
        "runs": results * along // max(run, 1),
        "run_vectors": results * along // max(run, 1) * chunks(run),
    }
    return {f"{kind}_{name}": amount for name, amount in found.items()} | {
        f"{kind}_operands": op.x.type.elements
    }


def _part(shape: Shape, axes: tuple[int, ...], is_gone: bool) -> tuple[Shape, list[Shape]]:
    steps = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    chosen = [axis for axis in range(len(shape)) if (axis in axes) is is_gone]
    return tuple(shape[a] for a in chosen), [tuple(steps[a] for a in chosen)]


def _linear(op: ops.Linear) -> Features:
    rows, (out, depth) = op.y.type.elements // max(op.weights.shape[0], 1), op.weights.shape
    kind = "single" if rows == 1 else "several"
    return (
        dot_features(op, 1, rows, out, depth)
        | _rows(op.y.type.elements, out)
        | {
            "weights": out * depth,
            "pairs": chunks(rows, 2) * out * depth,
            "fours": rows * chunks(out, 4) * chunks(depth),
            "few_vectors": rows * chunks(depth) * (out % 4),
            f"{kind}_macs": rows * out * depth,
            f"{kind}_words": rows * out * chunks(depth, 4),
            "odd_macs": rows * out * depth if depth % 4 else 0,
        }
    )


def _bags(op: ops.EmbeddingBag) -> Features:
    """Returns the number of bags: of one row, or of several rows in blocks of eight elements."""
    elements, words = max(op.y.shape[-1], 1), op.words
    bags = op.y.type.elements // elements
    found = _rows(op.y.type.elements, elements)
    if words == 1:
        return found | {"single_rows": bags, "single_results": op.y.type.elements}
    blocks = bags * chunks(elements, 8)
    return found | {"blocks": blocks, "block_rows": blocks * words, "several_macs": bags * elements * words}


def _remembered(op: ops.SvdfMemory) -> Features:
    batch, (filters, depth) = op.x.shape[0], op.weights.shape
    return _rows(op.y.type.elements, op.y.shape[-1]) | {
        "filters": batch * filters,
        "eight_vectors": batch * chunks(filters, 8) * chunks(depth),
        "eights": batch * chunks(filters, 8),
        "four_words": batch * chunks(filters, 4) * chunks(depth, 4),
    }


def _cast(op: ops.Cast) -> Features:
    return {f"{op.x.dtype.value}_{op.to.value}": op.y.type.elements}


def _exponentials(op: ops.Softmax | ops.LogSoftmax) -> Features:
    counted = min(1.0, -op.smallest_difference / 256)
    found = _rows(op.y.type.elements, op.y.shape[-1])
    return found | {"exponentials": counted * op.y.type.elements}


def _products(op: ops.BatchMatmul) -> Features:
    batch, rows, columns = op.y.shape
    depth = op.macs // max(op.y.type.elements, 1)
    turned = (op.a.type.elements if op.adj_x else 0), (op.b.type.elements if not op.adj_y else 0)
    return {
        "batch": batch,
        "rows": batch * rows,
        "columns": batch * columns,
        "turned_a": turned[0],
        "turned_b": turned[1],
        "turned_vectors": (batch * columns * chunks(depth) if turned[1] else 0),
        "mac_words": op.y.type.elements * chunks(depth, 4),
        "four_vectors": batch * rows * chunks(columns, 4) * chunks(depth),
    }


def _gates(op: Any) -> Features:
    batch, cells = op.y.shape
    (count, width) = op.input_weights.shape
    return _rows(op.y.type.elements, cells) | {
        "gate_rows": batch * count,
        "gate_vectors": batch * count * (chunks(width) + chunks(cells)),
        "gate_eights": batch * chunks(count, 8),
        "gate_eight_vectors": batch * chunks(count, 8) * (chunks(width) + chunks(cells)),
        "gate_words": batch * count * (chunks(width, 4) + chunks(cells, 4)),
    }


def _normalized(op: ops.Normalize) -> Features:
    rows, channels = math.prod(op.x.shape[: op.axis]), op.x.shape[-1]
    positions = math.prod(op.x.shape[:-1])
    kind = "group" if op.groups == 1 else "groups"
    return {
        f"{kind}_rows": rows * op.groups,
        f"{kind}_positions": positions,
        f"{kind}_results": op.y.type.elements,
        f"{kind}_words": positions * chunks(channels, 4),
        f"{kind}_parts": positions * op.groups,
        f"{kind}_channels": rows * channels,
        "row_vectors": rows * chunks(op.x.type.elements // max(rows, 1)),
        "weighted": op.y.type.elements if op.weights is not None else 0,
    }


def _resized(op: Resize) -> Features:
    batch, height, width, channels = op.y.shape
    fresh_rows = batch * min(height, op.x.shape[1])
    fresh, pixels, columns = fresh_rows * width, batch * height * width, min(op.x.shape[2], width)
    runs = {f"pixel_{name}": amount for name, amount in _runs(fresh, channels).items()}
    repeated = {f"row_{name}": n for name, n in _runs(batch * height - fresh_rows, width * channels).items()}
    planes, whole = (batch * height * channels, 0) if channels < 4 else (0, pixels)
    return (
        runs
        | repeated
        | {
            "plane_rows": planes,
            "plane_words": planes * chunks(width, 4),
            "whole_pixels": whole,
            "whole_words": whole * chunks(channels, 4),
            "image_rows": batch * height,
            "pixels": pixels,
            "words": pixels * chunks(channels, 4),
            "results_of_one": op.y.type.elements if channels == 1 else 0,
            "columns": batch * height * columns,
            "column_words": batch * height * columns * chunks(channels, 4),
        }
    )


def _top(op: ops.TopValues | ops.TopPlaces) -> Features:
    rows = op.x.type.elements // max(op.x.shape[-1], 1)
    return {"rows": rows, "looked_at": rows * op.k * op.x.shape[-1]}


def _detected(op: ops.Detections) -> Features:
    boxes = op.boxes.shape[1]
    return {
        "boxes": boxes,
        "scores": boxes * op.classes,
        "compared": boxes * min(op.most, boxes) if not op.by_class else 0,
        "compared_by_class": op.classes * boxes * min(op.by_class, boxes),
        "good": boxes * op.classes if op.score_threshold < 0 else 0,
    }


def _spectra(op: ops.LogMel | ops.Stft) -> Features:
    rows = op.x.shape[0] * op.frames
    points = rows * op.points
    return {
        "frames": rows,
        "samples": rows * op.window.shape[0],
        "points": points,
        "butterflies": points * (op.points.bit_length() - 1),
        "weights": rows * int(np.count_nonzero(op.filter_levels)) if isinstance(op, ops.LogMel) else 0,
        "magnitudes": points if op.power == 1 else 0,
        "pairs": points if not op.power else 0,
    }


def _filtered(op: ops.Biquads) -> Features:
    signals, samples = op.x.shape
    blocks = signals * chunks(samples, MOST_FILTERED)
    return {
        **{"rows": signals, "samples": signals * samples, "blocks": blocks},
        **{"block_sections": blocks * op.sections, "butterflies": signals * samples * op.sections},
    }


def _of_windows(op: ops.WindowStatistic) -> Features:
    windows, is_kurtosis = op.y.type.elements, op.statistic is ops.Statistic.KURTOSIS
    varied = windows if op.samples > 1 else 0
    return {
        "vectors": windows * chunks(op.samples, 8),
        "varied": varied,
        "roots": varied if op.statistic is not ops.Statistic.PEAK else 0,
        "fourth_powers": is_kurtosis * varied * op.samples,
        "fourth_moments": is_kurtosis * varied,
    }


def _staged(op: ops.SignalStage) -> Features:
    """Returns the elements of a stage under its name, the butterflies of its FFT, and the weights of its filters."""
    x, stage = op.x.type.elements, op.stage.value
    if op.stage in (ops.Stage.RFFT, ops.Stage.IRFFT):
        points = op.numbers[0]
        rows = x // op.x.shape[-1]
        return {f"{stage}_points": rows * points, f"{stage}_steps": rows * points * (points.bit_length() - 1)}
    weights = (
        int(np.count_nonzero(op.table.constant)) if op.stage is ops.Stage.FILTER_BANK and op.table else 0
    )
    return {stage: op.y.type.elements if op.stage is ops.Stage.FILTER_BANK else x, "weights": weights}


def _suppressed(op: ops.NonMaxSuppression) -> Features:
    images = op.scores.type.elements // op.scores.shape[-1]
    return {"rows": images, "looked_at": op.scores.type.elements * min(op.most, op.scores.shape[-1])}


SPECIAL: tuple[tuple[Any, Callable[[Any], Features]], ...] = (
    ((ops.Transpose, ops.Slice, ops.Flip, ops.Concat, ops.Pad), _copied),
    (ops.Gather, _gathered),
    ((Binary, ops.Prelu, ops.Where, ops.IntegerArithmetic), _walked),
    ((Reduction, ops.ArgMax, ops.ArgMin), _blocked),
    (Pool, pool_features),
    (ops.TransposeConv2d, transpose_conv_features),
    (ops.DepthwiseConv2d, depthwise_features),
    (Convolution, conv_features),
    (ops.Linear, _linear),
    (ops.EmbeddingBag, _bags),
    (ops.SvdfMemory, _remembered),
    (ops.Cast, _cast),
    ((ops.Softmax, ops.LogSoftmax), _exponentials),
    (ops.BatchMatmul, _products),
    ((ops.LstmCell, ops.LstmOutput), _gates),
    (ops.Normalize, _normalized),
    (Resize, _resized),
    ((ops.TopValues, ops.TopPlaces), _top),
    (ops.Detections, _detected),
    ((ops.LogMel, ops.Stft), _spectra),
    (ops.NonMaxSuppression, _suppressed),
    (ops.Biquads, _filtered),
    (ops.WindowStatistic, _of_windows),
    (ops.SignalStage, _staged),
)
