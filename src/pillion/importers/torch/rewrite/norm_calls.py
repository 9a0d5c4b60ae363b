# SPDX-License-Identifier: Apache-2.0
"""Canonicalizes norms by input statistics to two functions, each of which becomes one op that computes in 32 bits.
Decomposed norms would round every intermediate tensor to 8 bits.

Norms written by hand, as language models have them, are recognized by their computation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from pillion.importers.torch import fx_nodes as fx
from pillion.importers.torch.fx_nodes import aten
from pillion.importers.torch.rewrite.patterns import Call, Number, Operand, Pattern, find_match


def normalize_axes(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, dims: Sequence[int], centred: bool, eps: float
) -> Tensor:
    """Normalizes x over some axes to variance 1, with `centred` also to mean 0, then applies weight and bias of these
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


AFFINE = Call(
    (aten.mul.Tensor, aten.add.Tensor),
    (Call((normalize_axes,), (), "norm"), Operand("operand")),
    commutes=True,
)


def lower_norms(module: GraphModule) -> None:
    """Lowers all norms to `normalize_axes` or `normalize_groups`."""
    fx.lower_calls(module.graph, NORMS, fx.is_tensor)
    fx.lower_calls(module.graph, dict.fromkeys((aten.mul.Tensor, aten.add.Tensor), _merge_affine))
    module.graph.eliminate_dead_code()


def _merge_affine(node: Node) -> Node | None:
    """Merges a following constant multiplication or addition into a norm's weight or bias."""
    found = None if node.kwargs else find_match(AFFINE, node)
    if found is None or fx.single_user(found["norm"]) is not node:
        return None
    x, weight, bias, dims, centred, eps = found["norm"].args
    if bias is not None or not _is_affine_constant(found["operand"], fx.shape_of(found["norm"]), dims):
        return None
    if node.target is aten.add.Tensor:
        return fx.call(node, normalize_axes, x, weight, found["operand"], dims, centred, eps)
    return (
        fx.call(node, normalize_axes, x, found["operand"], None, dims, centred, eps)
        if weight is None
        else None
    )


def _is_affine_constant(operand: Any, shape: Sequence[int], dims: Sequence[int]) -> bool:
    """Whether this is a constant number, or a constant for each element of some axes."""
    if not fx.is_constant(operand) or not fx.fake_result(operand).is_floating_point():
        return False
    sizes = list(fx.shape_of(operand))
    expected = [size if axis in dims else 1 for axis, size in enumerate(shape)]
    is_each = sizes == expected[len(expected) - len(sizes) :] and math.prod(sizes) == math.prod(expected)
    return math.prod(sizes) == 1 or is_each


def _named_arguments(node: Node, *names: str) -> list[Any]:
    return [fx.named_argument(node, name) for name in names]


def _norm_over_last(node: Node) -> Node:
    """Lowers layer norms, and RMS norms, which are not centred."""
    centred = node.target is aten.layer_norm.default
    x, shape, weight, eps = _named_arguments(node, "input", "normalized_shape", "weight", "eps")
    rank = len(fx.shape_of(x))
    dims = list(range(rank - len(shape), rank))
    eps = torch.finfo(torch.float32).eps if eps is None else float(eps)
    bias = fx.named_argument(node, "bias") if centred else None
    return _norm_with_affine(node, normalize_axes, x, weight, bias, (dims, centred, eps))


def _norm_with_affine(
    node: Node, norm: Any, x: Node, weight: Any, bias: Any, rest: tuple[Any, ...], shape: Any = None
) -> Node:
    """Returns the norm with constant weight and bias; computed ones are applied behind it."""
    if all(operand is None or fx.is_constant(operand) for operand in (weight, bias)):
        return fx.call(node, norm, x, weight, bias, *rest)
    y = fx.call(node, norm, x, None, None, *rest)
    for target, operand in ((aten.mul.Tensor, weight), (aten.add.Tensor, bias)):
        if operand is not None:
            operand = operand if shape is None else fx.call(node, aten.reshape.default, operand, shape)
            y = fx.call(node, target, y, operand)
    return y


def _norm_of_groups(node: Node) -> Node | None:
    """Lowers group norms, and instance norms by input statistics; with running statistics they are batch norms."""
    is_instance = node.target is aten.instance_norm.default
    if is_instance and not fx.named_argument(node, "use_input_stats"):
        return None
    x, weight, bias, eps = _named_arguments(node, "input", "weight", "bias", "eps")
    groups = fx.shape_of(x)[1] if is_instance else int(fx.named_argument(node, "num_groups"))
    shape = [-1, *[1] * (len(fx.shape_of(x)) - 2)]
    return _norm_with_affine(node, normalize_groups, x, weight, bias, (groups, float(eps)), shape)


# --- norms that are written by hand

X, Y = Operand("x"), Operand("y")
SQUARE = (
    Call(fx.torch_operators("square"), (X,))
    | Call((aten.pow.Tensor_Scalar,), (X, 2))
    | Call((aten.mul.Tensor,), (X, X))
)
CENTRED = Call(
    (aten.sub.Tensor,), (Y, Call((aten.mean.dim,), (Y,), "mean")), when=lambda node: not node.kwargs
)
VARIANCE = Call(
    (aten.var.dim, aten.var.correction), (Y,), "statistic", when=lambda node: _is_population_variance(node)
)
LENGTH = Call(
    fx.torch_operators("linalg_vector_norm"),
    (X,),
    "statistic",
    when=lambda node: fx.named_argument(node, "ord") == 2,
)
LIMITED = LENGTH | Call(fx.torch_operators("clamp_min"), (LENGTH, Number("least")))


def _over_root(x: Pattern, statistic: Pattern) -> Pattern:
    """Matches x / sqrt(statistic + eps), with or without eps, and products with its reciprocal."""
    total = statistic | Call(
        (aten.add.Tensor, aten.add.Scalar), (statistic, Number("eps")), when=lambda node: not node.kwargs
    )
    product = Call((aten.mul.Tensor,), (x, Call(fx.torch_operators("rsqrt"), (total,))), commutes=True)
    return product | Call((aten.div.Tensor,), (x, Call(fx.torch_operators("sqrt"), (total,))))


def squared_operand(node: Any) -> Any:
    """Returns the operand of a square; None for other calls."""
    return (find_match(SQUARE, node) or {}).get("x")


def _is_population_variance(node: Node) -> bool:
    """Whether a variance divides by the number of all elements."""
    if node.target is aten.var.dim:
        return not fx.named_argument(node, "unbiased")
    return bool(fx.named_argument(node, "correction") == 0)


def _keepdim_axes(node: Node) -> list[int] | None:
    """Axes of a reduction with `keepdim`; None without."""
    rank = len(fx.shape_of(node.args[0]))  # type: ignore[arg-type]  # a node
    dims = None if node.target is aten.sum.default else fx.named_argument(node, "dim")
    dims = [dims] if isinstance(dims, int) else dims
    return sorted(d % rank for d in dims) if dims and fx.named_argument(node, "keepdim") else None


def _all_dims(node: Node) -> list[int] | None:
    """Returns the axes of a reduction to one number, except axes of size 1; None for other reductions."""
    shape = fx.shape_of(node.args[0])  # type: ignore[arg-type]  # a node
    if not shape or any(size > 1 for size in fx.shape_of(node)):
        return None
    return [axis for axis, size in enumerate(shape) if size > 1] or [len(shape) - 1]


def _by_mean_square(node: Node, x: Node, statistic: Node, eps: float = 0.0) -> Node | None:
    dims, centre = _keepdim_axes(statistic), find_match(CENTRED, x)
    if dims is None:
        return None
    if centre is not None and _keepdim_axes(centre["mean"]) == dims:
        return fx.call(node, normalize_axes, centre["y"], None, None, dims, True, eps)
    return fx.call(node, normalize_axes, x, None, None, dims, False, eps)


def _by_variance(node: Node, y: Node, mean: Node, statistic: Node, eps: float = 0.0) -> Node | None:
    dims = _keepdim_axes(statistic)
    is_norm = dims is not None and _keepdim_axes(mean) == dims
    return fx.call(node, normalize_axes, y, None, None, dims, True, eps) if is_norm else None


def _by_length(node: Node, x: Node, statistic: Node, eps: float = 0.0, least: float = 0.0) -> Node | None:
    dims = _keepdim_axes(statistic) or _all_dims(statistic)
    return None if dims is None or eps < 0 else _normalize_to_unit(node, x, dims, least or math.sqrt(eps))


HANDWRITTEN: tuple[tuple[Pattern, Callable[..., Node | None]], ...] = (
    (_over_root(X, Call((aten.mean.dim,), (SQUARE,), "statistic")), _by_mean_square),
    (_over_root(X, Call((aten.sum.dim_IntList, aten.sum.default), (SQUARE,), "statistic")), _by_length),
    (_over_root(CENTRED, VARIANCE), _by_variance),
    (
        Call((aten.div.Tensor,), (X, LIMITED | Call(fx.torch_operators("expand expand_as"), (LIMITED,)))),
        _by_length,
    ),
)
"""Patterns of norms, and their lowerings, which receive the named operands."""


def _lower_handwritten(node: Node) -> Node | None:
    """Lowers the last call of a handwritten norm."""
    for pattern, lower in HANDWRITTEN:
        found = find_match(pattern, node)
        if found is not None and (norm := lower(node, **found)) is not None:
            return norm
    return None


def _normalize_to_unit(node: Node, x: Node, dims: list[int], least: float) -> Node:
    """Divides a tensor by its lengths along some axes, but at least by `least`; a length is the root mean square
    times √n."""
    count = math.prod(fx.shape_of(x)[d] for d in dims)
    weight = fx.constant(node, torch.full((1,), 1 / math.sqrt(count)), f"{node.name}_weight")
    return fx.call(node, normalize_axes, x, weight, None, dims, False, least**2 / count)


def _lower_cosine_similarity(node: Node) -> Node:
    """Multiplies vectors of length 1 in a matrix product, whose accumulator is exact."""
    a, b, dim, eps = _named_arguments(node, "x1", "x2", "dim", "eps")
    shape = list(np.broadcast_shapes(fx.shape_of(a), fx.shape_of(b)))
    axis = dim % len(shape)
    order = [*(d for d in range(len(shape)) if d != axis), axis]
    rows = []
    for x, matrix_shape in ((a, [1, shape[axis]]), (b, [shape[axis], 1])):
        expanded = x if list(fx.shape_of(x)) == shape else fx.call(node, aten.expand.default, x, shape)
        unit = _normalize_to_unit(node, expanded, [axis], float(eps))
        rows.append(
            fx.call(
                node,
                aten.reshape.default,
                fx.call(node, aten.permute.default, unit, order),
                [-1, *matrix_shape],
            )
        )
    product = fx.call(node, aten.bmm.default, *rows)
    return fx.call(node, aten.reshape.default, product, [shape[d] for d in order[:-1]])


OPERATORS: dict[Any, fx.CallLowering] = {
    aten.cosine_similarity.default: _lower_cosine_similarity,
    **dict.fromkeys((aten.group_norm.default, aten.instance_norm.default), _norm_of_groups),
    **dict.fromkeys((aten.layer_norm.default, aten.rms_norm.default), _norm_over_last),
}
"""PyTorch's norms, and the cosine similarity, which normalizes twice."""
NORMS: dict[Any, fx.CallLowering] = {
    **OPERATORS,
    **dict.fromkeys((aten.div.Tensor, aten.mul.Tensor), _lower_handwritten),
}
"""All lowerings, including the last calls of handwritten norms."""
