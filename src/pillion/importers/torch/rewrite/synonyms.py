# SPDX-License-Identifier: Apache-2.0
"""Replaces operators by equivalent ones in canonical form; `SYNONYMS` is the table."""

from __future__ import annotations

from operator import getitem
from typing import Any

import numpy as np
from torch.fx import GraphModule, Node

from pillion.importers.torch import fx_nodes as fx
from pillion.importers.torch.fx_nodes import aten
from pillion.importers.torch.rewrite.decompositions.resizes import size_follows_factors
from pillion.importers.torch.rewrite.functionalize import SHAPES

BROADCASTING = frozenset(
    {*fx.torch_operators("add sub mul div", "Tensor"), *fx.torch_operators("maximum minimum")}
)


def replace_synonyms(module: GraphModule) -> None:
    """Replaces all synonyms."""
    fx.lower_calls(module.graph, SYNONYMS)


def drop_expansions(module: GraphModule) -> None:
    """Removes `expand` if all its readers broadcast."""
    for node in fx.calls(module.graph, [aten.expand.default]):
        source = node.args[0]
        if isinstance(source, Node) and all(_reader_broadcasts(user, node, source) for user in node.users):
            fx.replace(node, source)


def _reader_broadcasts(user: Node, expanded: Node, source: Node) -> bool:
    if user.target not in BROADCASTING:
        return False
    operands = [source if a is expanded else a for a in user.args[:2]]
    shapes = [fx.shape_of(a) if isinstance(a, Node) else () for a in operands]
    return np.broadcast_shapes(*shapes) == fx.shape_of(user)


def merge_moves(module: GraphModule) -> None:
    """Merges consecutive permutations or reshapes, and removes pairs that cancel."""
    for node in fx.calls(module.graph, [aten.permute.default, aten.reshape.default]):
        first: Any = node.args[0]
        if first.target is node.target:
            how: Any = fx.argument_of(node, 1)
            if node.target is aten.permute.default:
                inner, rank = fx.argument_of(first, 1), len(fx.shape_of(node))
                how = [inner[axis % rank] % rank for axis in how]
            node.args = (first.args[0], how)
        if node.target is aten.permute.default and list(fx.argument_of(node, 1)) == list(
            range(len(fx.shape_of(node)))
        ):
            fx.replace(node, node.args[0])  # type: ignore[arg-type]  # the schema says tensor


def _lower_transpose(node: Node) -> Node:
    source = node.args[0]
    order = list(range(fx.fake_result(node).dim()))
    if node.target is aten.transpose.int:
        i, j = (int(fx.argument_of(node, position)) % max(len(order), 1) for position in (1, 2))
        order[i], order[j] = order[j], order[i]
    else:
        order.reverse()
    return fx.call(node, aten.permute.default, source, order)


def _replace_if_first_read(node: Node, target: Any, *args: Any) -> Node | None:
    """Replaces an operator if only the first of its results is read."""
    users = list(node.users)
    if any(user.target is not getitem or user.args[1] != 0 for user in users):
        return None
    new = fx.call(node, target, *args)
    for user in users:
        fx.replace(user, new)
    return new


def _lower_maximum(node: Node) -> Node | None:
    """Replaces a maximum by `amax` if only values are read."""
    target = aten.amax.default if node.target in (aten.max.default, aten.max.dim) else aten.amin.default
    source, *rest = node.args
    if node.target in (aten.max.default, aten.min.default):
        return fx.call(node, target, source, list(range(fx.fake_result(source).dim())))  # type: ignore[arg-type]  # a tensor
    return _replace_if_first_read(node, target, source, [rest[0]], bool(fx.argument_of(node, 2)))


def _split_to_slices(node: Node) -> None:
    """Replaces a split by slices. Not done earlier, because parts may be written in place (`GRUCell`)."""
    source, size, dim = (fx.argument_of(node, i, 0) for i in range(3))
    length = fx.shape_of(source)[dim]
    for user in list(node.users):
        index: Any = user.args[1]  # users are getitems
        fx.replace(
            user, fx.call(user, aten.slice.Tensor, source, dim, size * index, min(size * (index + 1), length))
        )


def _lower_batch_norm(node: Node) -> Node | None:
    """Replaces a norm by running statistics; before the last two arguments, one may say that it is in training."""
    count = len(node.target._schema.arguments)  # type: ignore[union-attr]  # an OpOverload
    *given, momentum, eps = (fx.argument_of(node, i) for i in range(count))
    if any(given[5:]) or given[3] is None:
        return None
    return _replace_if_first_read(node, aten.batch_norm.default, *given[:5], False, momentum, eps, False)


def _merge_depth_into_batch(node: Node) -> Node | None:
    """Merges depth into the batch axis of a 3-d batch norm."""
    source, *rest = node.args
    shape = fx.shape_of(node)
    if len(shape) != 5:
        return None
    n, c, depth, h, w = shape
    images = fx.call(node, aten.permute.default, source, [0, 2, 1, 3, 4])
    flat = fx.call(node, aten.reshape.default, images, [n * depth, c, h, w])
    norm = fx.call(node, aten.batch_norm.default, flat, *rest, **node.kwargs)
    back = fx.call(node, aten.reshape.default, norm, [n, depth, c, h, w])
    return fx.call(node, aten.permute.default, back, [0, 2, 1, 3, 4])


def _adaptive_pool(node: Node) -> Node | None:
    """Replaces an adaptive pool with equal windows by an average pool."""
    source: Any = node.args[0]
    before, after = fx.shape_of(source)[-2:], fx.shape_of(node)[-2:]
    if any(a == 0 or b % a for b, a in zip(before, after, strict=True)):
        return None
    kernel = [b // a for b, a in zip(before, after, strict=True)]
    return fx.call(node, aten.avg_pool2d.default, source, kernel, kernel)


def _lower_power(node: Node) -> Node | None:
    powers = {2: aten.square, 0.5: aten.sqrt, -0.5: aten.rsqrt, -1: aten.reciprocal}
    exponent: Any = node.args[1]
    return fx.call(node, powers[exponent].default, node.args[0]) if exponent in powers else None


CONVOLUTIONS_BY_RANK: dict[tuple[int, bool], Any] = {
    (1, False): aten.conv1d.default,
    (2, False): aten.conv2d.default,
    (1, True): aten.conv_transpose1d.default,
    (2, True): aten.conv_transpose2d.input,
}
"""Convolutions by number of axes, and whether they are transposed."""


def _lower_convolution(node: Node) -> Node | None:
    x, weight, bias, stride, padding, dilation, transposed, output_padding, groups = (
        fx.argument_of(node, i) for i in range(9)
    )
    rest = (output_padding, groups, dilation) if transposed else (dilation, groups)
    target = CONVOLUTIONS_BY_RANK.get((len(stride), transposed))
    return None if target is None else fx.call(node, target, x, weight, bias, stride, padding, *rest)


def _padded_convolution(node: Node) -> Node:
    """Replaces `padding="same"` by numbers; odd padding needs a pad in front."""
    x, weight, bias, stride, padding, dilation, groups = (fx.argument_of(node, i) for i in range(7))
    rank = 2 if node.target is aten.conv2d.padding else 1
    target = CONVOLUTIONS_BY_RANK[rank, False]
    kernel = fx.shape_of(weight)[2:]
    dilations = list(dilation) * (rank // len(dilation))
    totals = [d * (k - 1) if padding == "same" else 0 for d, k in zip(dilations, kernel, strict=True)]
    if any(total % 2 for total in totals):
        sides = [side for total in reversed(totals) for side in (total // 2, total - total // 2)]
        x, totals = fx.call(node, aten.pad.default, x, sides, "constant", 0.0), [0] * rank
    return fx.call(node, target, x, weight, bias, stride, [total // 2 for total in totals], dilation, groups)


def _drop_empty_operands(node: Node) -> Node | None:
    """Drops empty operands."""
    operands: Any = node.args[0]
    nonempty = [n for n in operands if fx.fake_result(n).numel()]
    if not nonempty or len(nonempty) == len(operands):
        return None
    return fx.call(node, aten.cat.default, nonempty, *node.args[1:], **node.kwargs)


def _reduce_all_axes(node: Node) -> Node:
    target = aten.mean.dim if node.target is aten.mean.default else aten.sum.dim_IntList
    source: Any = node.args[0]
    return fx.call(node, target, source, list(range(len(fx.shape_of(source)))))


RESIZES = {
    aten._upsample_nearest_exact2d.default: aten._upsample_nearest_exact2d.vec,
    aten.upsample_bilinear2d.default: aten.upsample_bilinear2d.vec,
    aten.upsample_nearest2d.default: aten.upsample_nearest2d.vec,
}
"""Variants with an output size or factors; one of these is None."""


def _lower_resize(node: Node) -> Node | None:
    """Replaces factors by the output size if it follows from them exactly."""
    size = list(fx.shape_of(node)[-2:])
    if not size_follows_factors(node) or (
        node.target not in RESIZES and fx.named_argument(node, "scale_factors") is None
    ):
        return None
    target: Any = RESIZES.get(node.target, node.target)  # type: ignore[call-overload]  # targets are hashable
    corners = [fx.named_argument(node, "align_corners")] if target is aten.upsample_bilinear2d.vec else []
    return fx.call(node, target, node.args[0], size, *corners, None)


SYNONYMS: dict[Any, fx.CallLowering] = {
    **dict.fromkeys(
        (*SHAPES, aten._unsafe_view.default),
        lambda node: fx.call(node, aten.reshape.default, node.args[0], list(fx.shape_of(node))),
    ),
    aten._adaptive_avg_pool2d.default: _adaptive_pool,
    aten._native_batch_norm_legit_no_training.default: _lower_batch_norm,
    aten._prelu_kernel.default: lambda node: fx.call(
        node, aten.prelu.default, node.args[0], fx.call(node, aten.reshape.default, node.args[1], [-1])
    ),
    aten._neg_view.default: lambda node: fx.call(node, aten.neg.default, node.args[0]),
    aten._log_softmax.default: lambda node: fx.call(node, aten.log_softmax.int, *node.args[:2]),
    aten._softmax.default: lambda node: fx.call(node, aten.softmax.int, *node.args[:2]),
    aten.native_batch_norm.default: _lower_batch_norm,
    aten.adaptive_avg_pool2d.default: _adaptive_pool,
    aten.batch_norm.default: _merge_depth_into_batch,
    aten.cat.default: _drop_empty_operands,
    aten.constant_pad_nd.default: lambda node: fx.call(
        node, aten.pad.default, *node.args[:2], "constant", float(fx.argument_of(node, 2, 0.0))
    ),
    aten.conv1d.padding: _padded_convolution,
    aten.conv2d.padding: _padded_convolution,
    aten.convolution.default: _lower_convolution,
    aten.max.default: _lower_maximum,
    aten.max.dim: _lower_maximum,
    aten.max_pool2d_with_indices.default: lambda node: _replace_if_first_read(
        node, aten.max_pool2d.default, *node.args
    ),
    aten.mean.default: _reduce_all_axes,
    aten.min.default: _lower_maximum,
    aten.min.dim: _lower_maximum,
    aten.numpy_T.default: _lower_transpose,
    aten.pow.Tensor_Scalar: _lower_power,
    aten.sum.default: _reduce_all_axes,
    aten.t.default: _lower_transpose,
    aten.transpose.int: _lower_transpose,
    aten.unsafe_split.Tensor: _split_to_slices,
    **dict.fromkeys((*RESIZES, *RESIZES.values()), _lower_resize),
}
