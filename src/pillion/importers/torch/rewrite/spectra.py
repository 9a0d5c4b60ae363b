# SPDX-License-Identifier: Apache-2.0
"""Lowers Fourier transforms to layers with constant DFT matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node

from pillion.importers.torch import fx_nodes as fx
from pillion.importers.torch.fx_nodes import aten
from pillion.importers.torch.rewrite import dft_matrices
from pillion.importers.torch.rewrite.complex_pairs import ComplexPairs, PairLowering, is_complex
from pillion.importers.torch.rewrite.dft_matrices import BOTH
from pillion.importers.torch.rewrite.functionalize import CASTS

LEAST_ENVELOPE = 1e-11
"""Minimum overlap-added window, as torch requires."""
WINDOWED = (aten.stft.default, aten.stft.center)


def _insert_linear(before: Node, x: Node, matrix: Tensor) -> Node:
    weights = matrix.t().to(torch.float32).contiguous()
    return fx.call(before, aten.linear.default, x, _insert_weights(before, weights))


def _insert_weights(before: Node, weights: Tensor) -> Node:
    return fx.constant(before, weights, f"{before.name}_waves")


def _transform_axis(before: Node, x: Node, axis: int, matrix: Tensor, *, of: int, to: int) -> Node:
    """Transforms one axis. `of` and `to` are the sizes of the operand's and result's part axis; 0 if there is
    none."""
    x = _move_axis(before, x, axis, _last_transform_axis(x, of))
    lead = fx.shape_of(x)[: _last_transform_axis(x, of)]
    if of:
        x = fx.call(before, aten.reshape.default, x, [*lead, -1])
    y = _insert_linear(before, x, matrix)
    if to:
        y = fx.call(before, aten.reshape.default, y, [*lead, -1, to])
    return _move_axis(before, y, _last_transform_axis(y, to), axis)


def _last_transform_axis(x: Node, parts: int) -> int:
    """Returns the last axis before the part axis."""
    return len(fx.shape_of(x)) - (2 if parts else 1)


def _move_axis(before: Node, x: Node, source: int, to: int) -> Node:
    order = list(range(len(fx.shape_of(x))))
    order.insert(to, order.pop(source))
    return fx.insert_permutation(before, x, order)


def _transform_reals(node: Node, x: Node, onesided: bool) -> Node:
    """Transforms real input along its last axis, and the resulting pairs along the remaining axes."""
    args: Any = node.args
    *others, last = args[1]
    parts = _read_parts(node)
    own = BOTH if others else parts
    factor = dft_matrices.normalization_factor([fx.shape_of(x)[axis] for axis in args[1]], args[2])
    matrix = dft_matrices.select_parts(
        dft_matrices.real_dft_matrix(fx.shape_of(x)[last], onesided) * factor, own
    )
    y = _transform_axis(node, x, last, matrix, of=0, to=_part_count(own))
    return _redirect_part_readers(node, parts, _transform_pairs(node, y, others, True, parts))


def _lower_fft_c2c(pairs: ComplexPairs, node: Node) -> Node:
    """Lowers `_fft_c2c`, including input cast from real numbers."""
    args: Any = node.args
    x, axes, mode, forward = args
    if x.target in CASTS and not is_complex(x.args[0]) and forward:
        return _transform_reals(node, x.args[0], False)
    parts = _read_parts(node)
    factor = dft_matrices.normalization_factor([fx.shape_of(x)[axis] for axis in axes], mode)
    y = _transform_pairs(node, pairs.of(x, node), axes, forward, parts, factor)
    return _redirect_part_readers(node, parts, y)


def _transform_pairs(
    node: Node, x: Node, axes: Sequence[int], forward: bool, parts: slice, factor: float = 1.0
) -> Node:
    """Transforms pairs along some axes, and keeps only these parts of the results."""
    for at, axis in enumerate(axes):
        own = parts if at == len(axes) - 1 else BOTH
        matrix = dft_matrices.select_parts(
            dft_matrices.complex_dft_matrix(fx.shape_of(x)[axis], forward) * factor, own
        )
        x, factor = _transform_axis(node, x, axis, matrix, of=2, to=_part_count(own)), 1.0
    return x


def _part_count(parts: slice) -> int:
    return len(range(2)[parts])


def _lower_fft_c2r(pairs: ComplexPairs, node: Node) -> Node:
    """Lowers `_fft_c2r`, whose last axis is one-sided."""
    args: Any = node.args
    *others, last = args[1]
    mode, size, x = args[2], args[3], pairs.of(args[0], node)
    sizes = [*(fx.shape_of(x)[axis] for axis in others), size]
    x = _transform_pairs(node, x, others, False, BOTH)
    matrix = dft_matrices.inverse_real_dft_matrix(size) * dft_matrices.normalization_factor(sizes, mode)
    return _transform_axis(node, x, last, matrix, of=2, to=0)


def _read_parts(node: Node) -> slice:
    """Parts of the results that are read."""
    readers = [reader for view in node.users for reader in view.users]
    viewed = all(view.target is aten.view_as_real.default for view in node.users)
    if not viewed or not readers or not all(map(_selects_part, readers)):
        return BOTH
    first = {int(fx.argument_of(reader, 2, 0)) for reader in readers}
    return slice(min(first), max(first) + 1)


def _selects_part(node: Node) -> bool:
    if node.target is not aten.slice.Tensor:
        return False
    rank = len(fx.shape_of(node))
    return fx.argument_of(node, 1, 0) % rank == rank - 1 and fx.shape_of(node)[-1] == 1


def _redirect_part_readers(node: Node, parts: slice, y: Node) -> Node:
    """Redirects readers of a single part to it."""
    if parts != BOTH:
        for reader in [reader for view in node.users for reader in view.users]:
            fx.replace(reader, y)
    return y


def _lower_stft(pairs: ComplexPairs, node: Node) -> Node | None:
    """Lowers `stft` to a convolution with windowed waves."""
    x: Any = node.args[0]
    size, hop, window = frame_params(node)
    if window is None:
        return None
    matrix = (
        dft_matrices.real_dft_matrix(size, fx.named_argument(node, "onesided") is not False) * window[:, None]
    )
    if fx.named_argument(node, "normalized"):
        matrix /= size**0.5
    lead, x = fx.shape_of(x)[:-1], fx.call(node, aten.reshape.default, x, [-1, 1, fx.shape_of(x)[-1]])
    if node.target is aten.stft.center and fx.named_argument(node, "center"):
        x = fx.call(node, aten.pad.default, x, [size // 2, size // 2], fx.named_argument(node, "pad_mode"))
    weights = matrix.t().to(torch.float32).reshape(-1, 1, size).contiguous()
    y = fx.call(node, aten.conv1d.default, x, _insert_weights(node, weights), None, [hop])
    _, outputs, frames = fx.shape_of(y)
    y = fx.call(node, aten.reshape.default, y, [-1, outputs // 2, 2, frames])
    y = fx.call(node, aten.permute.default, y, [0, 1, 3, 2])
    return fx.call(node, aten.reshape.default, y, [*lead, outputs // 2, frames, 2])


def _lower_istft(pairs: ComplexPairs, node: Node) -> Node | None:
    """Lowers `istft` to a transposed convolution, divided by the overlap-added window."""
    x = pairs.of(node.args[0], node)
    size, hop, window = frame_params(node)
    *lead, count, frames, _ = fx.shape_of(x)
    if window is None or count != size // 2 + 1:
        return None
    length = (frames - 1) * hop + size
    begin = size // 2 if fx.named_argument(node, "center") else 0
    end = begin + int(fx.named_argument(node, "length") or length - 2 * begin)
    envelope = dft_matrices.squared_window_envelope(window, hop, frames)[begin:end]
    if float(envelope.min()) < LEAST_ENVELOPE:
        return None
    x = _move_axis(node, x, len(lead) + 2, len(lead) + 1)
    x = fx.call(node, aten.reshape.default, x, [-1, 2 * count, frames])
    divisor = size**0.5 if fx.named_argument(node, "normalized") else size
    matrix = dft_matrices.inverse_real_dft_matrix(size) * window / divisor
    weights = matrix.to(torch.float32).reshape(2 * count, 1, size).contiguous()
    y = fx.call(node, aten.conv_transpose1d.default, x, _insert_weights(node, weights), None, [hop])
    y = fx.call(node, aten.slice.Tensor, y, 2, begin, min(end, length))
    shares = (1 / envelope).to(torch.float32).reshape(1, 1, -1)
    y = fx.call(node, aten.mul.Tensor, y, _insert_weights(node, shares))
    if end > length:
        y = fx.call(node, aten.constant_pad_nd.default, y, [0, end - length])
    return fx.call(node, aten.reshape.default, y, [*lead, end - begin])


def frame_params(node: Node) -> tuple[int, int, Tensor | None]:
    """Returns the size, hop and window of frames; None for a computed window."""
    size = int(fx.named_argument(node, "n_fft"))
    hop = int(fx.named_argument(node, "hop_length") or size // 4)
    window = fx.named_argument(node, "window")
    tensor = (
        fx.constant_of(window)
        if window is not None
        else torch.ones(fx.named_argument(node, "win_length") or size)
    )
    if tensor is None or not tensor.is_floating_point():
        return size, hop, None
    return size, hop, dft_matrices.centre_window(tensor.detach(), size)


def _if_matrix_small(lowering: PairLowering) -> PairLowering:
    """Applies a lowering unless its matrix exceeds MOST_WEIGHTS."""
    return lambda pairs, node: (
        lowering(pairs, node) if _largest_matrix_size(node) <= dft_matrices.MOST_WEIGHTS else None
    )


def _largest_matrix_size(node: Node) -> int:
    """Returns the upper bound of the elements of a transform's largest matrix."""
    if node.target in (*WINDOWED, aten.istft.default):
        return int(fx.named_argument(node, "n_fft")) * (int(fx.named_argument(node, "n_fft")) + 2)
    args: Any = node.args
    shapes = [fx.shape_of(n) for n in (node, args[0])]
    return max((2 * max(shape[axis] for shape in shapes)) ** 2 for axis in args[1])


LOWERINGS: dict[Any, PairLowering] = {
    **dict.fromkeys(WINDOWED, _if_matrix_small(_lower_stft)),
    aten._fft_c2c.default: _if_matrix_small(_lower_fft_c2c),
    aten._fft_c2r.default: _if_matrix_small(_lower_fft_c2r),
    aten._fft_r2c.default: _if_matrix_small(
        lambda pairs, node: _transform_reals(node, node.all_input_nodes[0], bool(node.args[3]))
    ),
    aten.istft.default: _if_matrix_small(_lower_istft),
}
"""Lowerings by transform."""
