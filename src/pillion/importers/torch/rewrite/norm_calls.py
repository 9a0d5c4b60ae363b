# SPDX-License-Identifier: Apache-2.0
"""Canonicalizes norms by input statistics to two functions, each of which becomes one op that computes in 32 bits.
Decomposed norms would round every intermediate tensor to 8 bits.

Norms written by hand, as language models have them, are recognized by their computation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from pillion.importers.torch.fx_nodes import (
    CallLowering,
    aten,
    call,
    constant,
    constant_of,
    fake_result,
    is_constant,
    is_tensor,
    lower_calls,
    named_argument,
    shape_of,
    single_user,
)


def normalize_axes(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, dims: Sequence[int], centred: bool, eps: float
) -> Tensor:
    """Normalizes x over some axes to variance 1, and to mean 0 if `centred`, then applies weight and bias of these
    axes."""
    axes = list(dims)
    centre = x - x.mean(axes, keepdim=True) if centred else x
    y = centre * torch.rsqrt((centre * centre).mean(axes, keepdim=True) + eps)
    shape = [size if axis in axes else 1 for axis, size in enumerate(x.shape)]
    y = y if weight is None else y * weight.reshape(shape if weight.numel() > 1 else [])
    return y if bias is None else y + bias.reshape(shape if bias.numel() > 1 else [])


def normalize_groups(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, groups: int, eps: float
) -> Tensor:
    """Normalizes x [N, C, …] over groups of channels, then applies weight and bias of each channel."""
    parts = x.reshape(x.shape[0], groups, -1)
    y = normalize_axes(parts, None, None, [2], True, eps).reshape(x.shape)
    shape = [-1, *[1] * (x.dim() - 2)]
    y = y if weight is None else y * weight.reshape(shape)
    return y if bias is None else y + bias.reshape(shape)


def lower_norms(module: GraphModule) -> None:
    """Lowers all norms to `normalize_axes` or `normalize_groups`."""
    lower_calls(module.graph, NORMS, is_tensor)
    lower_calls(module.graph, dict.fromkeys((aten.mul.Tensor, aten.add.Tensor), _merge_affine))
    module.graph.eliminate_dead_code()


def _merge_affine(node: Node) -> Node | None:
    """Merges a following constant multiplication or addition into a norm's weight or bias."""
    for norm, operand in (node.args[:2], node.args[1::-1]):
        if not _is_call(norm, normalize_axes) or single_user(norm) is not node or node.kwargs:  # type: ignore[arg-type]  # a node
            continue
        x, weight, bias, dims, centred, eps = norm.args  # type: ignore[union-attr]  # a node
        if bias is not None or not _is_affine_constant(operand, shape_of(norm), dims):  # type: ignore[arg-type]  # a node
            continue
        if node.target is aten.add.Tensor:
            return call(node, normalize_axes, x, weight, operand, dims, centred, eps)
        if weight is None:
            return call(node, normalize_axes, x, operand, None, dims, centred, eps)
    return None


def _is_affine_constant(operand: Any, shape: Sequence[int], dims: Sequence[int]) -> bool:
    """Whether this is a constant number, or a constant for each element of some axes."""
    if not is_constant(operand) or not fake_result(operand).is_floating_point():
        return False
    sizes = list(shape_of(operand))
    expected = [size if axis in dims else 1 for axis, size in enumerate(shape)]
    is_each = sizes == expected[len(expected) - len(sizes) :] and math.prod(sizes) == math.prod(expected)
    return math.prod(sizes) == 1 or is_each


def _arguments(node: Node, *names: str) -> list[Any]:
    return [named_argument(node, name) for name in names]


def _norm_over_last(node: Node) -> Node:
    """Lowers layer norms, and RMS norms, which are not centred."""
    centred = node.target is aten.layer_norm.default
    x, shape, weight, eps = _arguments(node, "input", "normalized_shape", "weight", "eps")
    rank = len(shape_of(x))
    dims = list(range(rank - len(shape), rank))
    eps = torch.finfo(torch.float32).eps if eps is None else float(eps)
    bias = named_argument(node, "bias") if centred else None
    return _norm_with_affine(node, normalize_axes, x, weight, bias, (dims, centred, eps))


def _norm_with_affine(
    node: Node, norm: Any, x: Node, weight: Any, bias: Any, rest: tuple[Any, ...], shape: Any = None
) -> Node:
    """Norm with constant weight and bias; computed ones are applied behind it."""
    if all(operand is None or is_constant(operand) for operand in (weight, bias)):
        return call(node, norm, x, weight, bias, *rest)
    y = call(node, norm, x, None, None, *rest)
    for target, operand in ((aten.mul.Tensor, weight), (aten.add.Tensor, bias)):
        if operand is not None:
            operand = operand if shape is None else call(node, aten.reshape.default, operand, shape)
            y = call(node, target, y, operand)
    return y


def _norm_of_groups(node: Node) -> Node | None:
    """Lowers group norms, and instance norms by input statistics; with running statistics they are batch norms."""
    is_instance = node.target is aten.instance_norm.default
    if is_instance and not named_argument(node, "use_input_stats"):
        return None
    x, weight, bias, eps = _arguments(node, "input", "weight", "bias", "eps")
    groups = shape_of(x)[1] if is_instance else int(named_argument(node, "num_groups"))
    shape = [-1, *[1] * (len(shape_of(x)) - 2)]
    return _norm_with_affine(node, normalize_groups, x, weight, bias, (groups, float(eps)), shape)


# --- norms that are written by hand


def _is_call(node: Any, *targets: Any) -> bool:
    return isinstance(node, Node) and node.target in targets


def _number(operand: Any) -> float | None:
    """Value of a number or one-element constant."""
    if isinstance(operand, (int, float)):
        return float(operand)
    tensor = constant_of(operand)
    return (
        float(tensor) if tensor is not None and tensor.numel() == 1 and tensor.is_floating_point() else None
    )


def _keepdim_axes(node: Node) -> list[int] | None:
    """Axes of a reduction with `keepdim`; None without."""
    rank = len(shape_of(node.args[0]))  # type: ignore[arg-type]  # a node
    dims = named_argument(node, "dim")
    dims = [dims] if isinstance(dims, int) else dims
    return sorted(d % rank for d in dims) if dims and named_argument(node, "keepdim") else None


def _all_dims(node: Node) -> list[int] | None:
    """Axes of a reduction to one number, but for those of size 1; None for other reductions."""
    shape = shape_of(node.args[0])  # type: ignore[arg-type]  # a node
    if not shape or any(size > 1 for size in shape_of(node)):
        return None
    return [axis for axis, size in enumerate(shape) if size > 1] or [len(shape) - 1]


def _is_same_computation(a: Any, b: Any, depth: int = 3) -> bool:
    """Whether two operands are identical or equal computations of identical operands."""
    if not (isinstance(a, Node) and isinstance(b, Node)) or a is b or not depth:
        return a is b or (not isinstance(a, Node) and bool(a == b))
    alike = a.op == "call_function" and (a.target, a.kwargs) == (b.target, b.kwargs)
    pairs = zip(a.args, b.args, strict=False)
    return alike and len(a.args) == len(b.args) and all(_is_same_computation(*p, depth - 1) for p in pairs)


def squared_operand(node: Any) -> Any:
    """Returns the operand of a square; None for other calls."""
    is_square = (
        _is_call(node, aten.square.default)
        or (_is_call(node, aten.pow.Tensor_Scalar) and node.args[1] == 2)
        or (_is_call(node, aten.mul.Tensor) and _is_same_computation(*node.args[:2]))
    )
    return node.args[0] if is_square else None


def _split_eps(node: Any) -> tuple[Any, float | None]:
    """Splits a sum with a constant; eps is 0 for other calls and None for other sums."""
    if _is_call(node, aten.add.Tensor, aten.add.Scalar) and not node.kwargs:
        return node.args[0], _number(node.args[1])
    return node, 0.0


def _mean_square(node: Any) -> tuple[Node, list[int], float] | None:
    """Operand, axes and eps of a mean square plus eps."""
    node, eps = _split_eps(node)
    if eps is None or not _is_call(node, aten.mean.dim):
        return None
    dims, squared = _keepdim_axes(node), squared_operand(node.args[0])
    return None if dims is None or squared is None else (squared, dims, eps)


def _square_sum(node: Any) -> tuple[Node, list[int], float] | None:
    """Operand, axes and least root of a sum of squares plus eps."""
    node, eps = _split_eps(node)
    if eps is None or eps < 0 or not _is_call(node, aten.sum.dim_IntList, aten.sum.default):
        return None
    dims = (_keepdim_axes(node) if node.target is aten.sum.dim_IntList else None) or _all_dims(node)
    squared = squared_operand(node.args[0])
    return None if dims is None or squared is None else (squared, dims, math.sqrt(eps))


def _variance(node: Any) -> tuple[Node, list[int], float] | None:
    """Operand, axes and eps of a population variance plus eps."""
    node, eps = _split_eps(node)
    if eps is None or not _is_population_variance(node):
        return None
    dims = _keepdim_axes(node)
    return None if dims is None else (node.args[0], dims, eps)


def _is_population_variance(node: Any) -> bool:
    """Whether a variance divides by the number of all elements."""
    if _is_call(node, aten.var.dim):
        return not named_argument(node, "unbiased")
    return _is_call(node, aten.var.correction) and named_argument(node, "correction") == 0


def _match_centring(node: Any) -> tuple[Node, list[int]] | None:
    """Operand and axes of a difference to the operand's own mean."""
    if not _is_call(node, aten.sub.Tensor) or node.kwargs:
        return None
    x, mean = node.args
    dims = _keepdim_axes(mean) if _is_call(mean, aten.mean.dim) and mean.args[0] is x else None
    return None if dims is None else (x, dims)


def _match_handwritten_norm(node: Node, x: Any, divisor: Any) -> Node | None:
    """Matches a tensor over the root of its mean square, or of its variance if it is centred."""
    mean_square, centre = _mean_square(divisor), _match_centring(x)
    if mean_square is not None and _is_same_computation(mean_square[0], x):
        _, dims, eps = mean_square
        if centre is not None and centre[1] == dims:
            return call(node, normalize_axes, centre[0], None, None, dims, True, eps)
        return call(node, normalize_axes, x, None, None, dims, False, eps)
    length = _square_sum(divisor)
    if length is not None and _is_same_computation(length[0], x):
        return _normalize_to_unit(node, x, *length[1:])
    of_variance = _variance(divisor)
    if of_variance is not None and centre == of_variance[:2]:
        return call(node, normalize_axes, centre[0], None, None, centre[1], True, of_variance[2])
    return None


def _match_scaled(node: Node) -> Node | None:
    """Matches x · rsqrt(mean(x²) + eps), x / sqrt(mean(x²) + eps), and F.normalize."""
    is_product = node.target is aten.mul.Tensor
    for x, root in (node.args[:2], node.args[1::-1])[: 1 + is_product]:
        if _is_call(root, aten.rsqrt.default if is_product else aten.sqrt.default):
            return _match_handwritten_norm(node, x, root.args[0])  # type: ignore[union-attr]  # a node
    return None if is_product else _match_unit_vector(node, *node.args[:2])


def _match_unit_vector(node: Node, x: Any, length: Any) -> Node | None:
    """Matches x / max(|x|, eps)."""
    while _is_call(length, aten.expand.default, aten.expand_as.default):
        length = length.args[0]
    least = 0.0
    if _is_call(length, aten.clamp_min.default):
        least, length = float(length.args[1]), length.args[0]
    if not _is_call(length, aten.linalg_vector_norm.default) or length.args[0] is not x:
        return None
    dims = _keepdim_axes(length) or _all_dims(length) if named_argument(length, "ord") == 2 else None
    return None if dims is None else _normalize_to_unit(node, x, dims, least)


def _normalize_to_unit(node: Node, x: Node, dims: list[int], least: float) -> Node:
    """Divides a tensor by its lengths along some axes, but at least by `least`; a length is the root mean square
    times √n."""
    count = math.prod(shape_of(x)[d] for d in dims)
    weight = constant(node, torch.full((1,), 1 / math.sqrt(count)), f"{node.name}_weight")
    return call(node, normalize_axes, x, weight, None, dims, False, least**2 / count)


def _lower_cosine_similarity(node: Node) -> Node:
    """Multiplies vectors of length 1 in a matrix product, whose accumulator is exact."""
    a, b, dim, eps = _arguments(node, "x1", "x2", "dim", "eps")
    shape = list(np.broadcast_shapes(shape_of(a), shape_of(b)))
    axis = dim % len(shape)
    order = [*(d for d in range(len(shape)) if d != axis), axis]
    rows = []
    for x, matrix_shape in ((a, [1, shape[axis]]), (b, [shape[axis], 1])):
        expanded = x if list(shape_of(x)) == shape else call(node, aten.expand.default, x, shape)
        unit = _normalize_to_unit(node, expanded, [axis], float(eps))
        rows.append(
            call(
                node, aten.reshape.default, call(node, aten.permute.default, unit, order), [-1, *matrix_shape]
            )
        )
    product = call(node, aten.bmm.default, *rows)
    return call(node, aten.reshape.default, product, [shape[d] for d in order[:-1]])


OPERATORS: dict[Any, CallLowering] = {
    aten.cosine_similarity.default: _lower_cosine_similarity,
    **dict.fromkeys((aten.group_norm.default, aten.instance_norm.default), _norm_of_groups),
    **dict.fromkeys((aten.layer_norm.default, aten.rms_norm.default), _norm_over_last),
}
"""PyTorch's norms, and the cosine similarity, which normalizes twice."""
NORMS: dict[Any, CallLowering] = {
    **OPERATORS,
    **dict.fromkeys((aten.div.Tensor, aten.mul.Tensor), _match_scaled),
}
"""All lowerings, including the last calls of handwritten norms."""
