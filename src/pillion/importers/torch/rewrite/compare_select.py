# SPDX-License-Identifier: Apache-2.0
"""Canonicalizes comparisons, selections and casts: operands are tensors of one type.

Remaining operators: six relations of two tensors, `where.self`, `minimum`, `maximum`, `amax` and `amin` (also
of booleans), `argmax` and `argmin` along an axis, casts of integers to float, and `top_values` and `top_places`
instead of sorts."""

from __future__ import annotations

from collections.abc import Callable
from operator import getitem
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from pillion.importers.torch import fx_nodes as fx
from pillion.importers.torch.fx_nodes import aten
from pillion.importers.torch.rewrite import integer_arithmetic
from pillion.importers.torch.rewrite.common_type import NARROW, as_type, dtype_of, is_widened_int8
from pillion.importers.torch.rewrite.synonyms import BROADCASTING

CASTS = (aten.to.dtype, aten._to_copy.default, aten.type_as.default)


def top_values(x: Tensor, k: int, largest: bool) -> Tensor:
    """Returns the k most extreme values of the last axis."""
    return torch.topk(x, k, -1, largest).values


def top_places(x: Tensor, k: int, largest: bool) -> Tensor:
    """Returns the indices of the k most extreme values of the last axis; equal values keep their order."""
    return torch.sort(x, dim=-1, descending=largest, stable=True).indices[..., :k]


def lower_comparisons(module: GraphModule) -> None:
    """Lowers all comparisons, selections and casts."""
    real: set[Node] = set()
    for node in fx.calls(module.graph):
        if not real.isdisjoint(node.all_input_nodes):
            _reinfer_type(node, real)
        new = _lower_call(node) if _has_tensor_operands(node) else None
        if new is not None and new is not node:
            if dtype_of(node) in NARROW and dtype_of(new) == torch.int64:
                new.meta["val"] = fx.fake_result(node)  # computations on it wrap as in torch
            if dtype_of(new) != dtype_of(node):
                real.add(new)
            fx.replace(node, new)


def _lower_call(node: Node) -> Node | None:
    """Lowers a call by the selection table or the integer table."""
    for forms in (LOWERINGS, integer_arithmetic.LOWERINGS):
        new = forms[node.target](node) if node.target in forms else None
        if new is not None or node._erased:
            return new
    return None


def _reinfer_type(node: Node, real: set[Node]) -> None:
    """Re-infers the type of a call whose operands became real."""
    before = fx.fake_result(node)
    node.meta["val"] = fx.evaluate(node.graph, node.target, node.args, node.kwargs)  # type: ignore[arg-type]  # a call
    if isinstance(before, Tensor) and fx.fake_result(node).dtype != before.dtype:
        real.add(node)


def _has_tensor_operands(node: Node) -> bool:
    """Whether a call has tensor operands that are not all constant, and no symbolic number, which is refused
    later."""
    operands = node.all_input_nodes
    if any(isinstance(fx.fake_result(n), (torch.SymInt, torch.SymFloat, torch.SymBool)) for n in operands):
        return False
    return not operands or any(fx.constant_of(operand) is None for operand in operands)


def _common_type(*operands: Any) -> torch.dtype:
    """Returns the common type of tensors and numbers: float32, int64 or bool."""
    types = {dtype_of(operand) for operand in operands}
    if any(t.is_floating_point for t in types):
        return torch.float32
    if types == {torch.bool}:
        return torch.bool
    return torch.int64


def _relation_lowering(target: Any) -> fx.CallLowering:
    def lower(node: Node) -> Node:
        a, b = (_without_cast_of_bool(operand) for operand in node.args[:2])
        dtype = _common_type(a, b)
        is_flag = [not isinstance(n, Node) and n in (0, 1) for n in (a, b)]
        dtype = torch.bool if torch.bool in (dtype_of(a), dtype_of(b)) and any(is_flag) else dtype
        return fx.call(node, target, as_type(node, a, dtype), as_type(node, b, dtype))

    return lower


def _without_cast_of_bool(operand: Any) -> Any:
    """Returns the boolean operand of a cast to integers; other operands unchanged."""
    is_cast = isinstance(operand, Node) and operand.target is aten._to_copy.default
    source = operand.args[0] if is_cast else None
    return source if isinstance(source, Node) and dtype_of(source) == torch.bool else operand


def _lower_not(node: Node) -> Node | None:
    x = node.args[0]
    if node.target is aten.bitwise_not.default and dtype_of(x) != torch.bool:
        return None
    return fx.call(node, aten.eq.Tensor, x, as_type(node, 0, dtype_of(x)))


BITWISE = fx.torch_operators("bitwise_and bitwise_or bitwise_xor", "Tensor")


def _logic_lowering(target: Any) -> fx.CallLowering:
    def lower(node: Node) -> Node | None:
        operands = node.args[:2]
        if node.target in BITWISE and any(dtype_of(operand) != torch.bool for operand in operands):
            return None
        return fx.call(node, target, *(as_type(node, operand, torch.bool) for operand in operands))

    return lower


def _bool_reduction_lowering(target: Any) -> fx.CallLowering:
    def lower(node: Node) -> Node:
        x = as_type(node, node.args[0], torch.bool)
        dim = fx.argument_of(node, 1)
        dims = list(range(len(fx.shape_of(x)))) if dim is None else dim
        return fx.call(
            node, target, x, [dims] if isinstance(dims, int) else dims, bool(fx.argument_of(node, 2))
        )

    return lower


def _lower_where(node: Node) -> Node:
    condition, a, b = node.args[:3]
    flags = as_type(node, condition, torch.bool)
    dtype = dtype_of(node)
    dtype = torch.float32 if dtype.is_floating_point else dtype
    a, b = (_as_one_number(v) if fx.shape_of(node) == fx.shape_of(flags) else v for v in (a, b))
    return fx.call(node, aten.where.self, flags, *(as_type(node, v, dtype) for v in (a, b)))


def _as_one_number(operand: Any) -> Any:
    """Replaces a constant with equal elements by that number."""
    tensor = fx.constant_of(operand)
    if tensor is None or tensor.numel() < 2 or bool((tensor != tensor.reshape(-1)[0]).any()):
        return operand
    return tensor.reshape(-1)[0].item()


def _lower_masked_fill(node: Node) -> Node | None:
    x, mask, number = (fx.argument_of(node, i) for i in range(3))
    dtype = dtype_of(x)
    x = _as_one_number(x) if fx.shape_of(mask) == fx.shape_of(node) else x
    return fx.call(node, aten.where.self, mask, *(as_type(node, v, dtype) for v in (number, x)))


def _lower_cast(node: Node) -> Node | None:
    source, dtype = node.args[0], dtype_of(node)
    if isinstance(source, Node) and dtype_of(source) == dtype:
        return source
    if not isinstance(source, Node) or (dtype_of(source).is_floating_point and dtype.is_floating_point):
        return None
    if dtype.is_floating_point:
        source = _without_cast_of_bool(source)
        return as_type(node, source, torch.float32)
    if dtype_of(source).is_floating_point and dtype != torch.bool:
        return None
    if dtype == torch.bool:
        return as_type(node, source, dtype)
    return integer_arithmetic.cast_integers(node, source)


def _cast_arithmetic_operands(node: Node) -> None:
    """Casts boolean and integer operands of real arithmetic to float."""
    if not dtype_of(node).is_floating_point:
        return
    for position, operand in enumerate(node.args[:2]):
        is_computed = isinstance(operand, Node) and fx.constant_of(operand) is None
        if is_computed and not dtype_of(operand).is_floating_point:
            source = _without_cast_of_bool(operand)
            node.update_arg(position, as_type(node, source, torch.float32))


def _lower_arg_extremum(node: Node) -> Node | None:
    x, dim = node.args[0], fx.argument_of(node, 1)
    if is_widened_int8(x):
        node.update_arg(0, as_type(node, x, torch.float32))
        x = node.args[0]
    if dim is not None:
        return None
    flat = fx.call(node, aten.reshape.default, x, [-1])
    return fx.call(node, node.target, flat, 0, False)  # type: ignore[arg-type]  # an operator


def _separate_results(node: Node, *parts: Callable[[], Node]) -> None:
    """Replaces each used result of a call by its own computation."""
    for user in list(node.users):
        if user.target is getitem:
            fx.replace(user, parts[int(user.args[1])]())  # type: ignore[arg-type]  # an index
    if not node.users:
        node.graph.erase_node(node)


def _extremum_lowering(values: Any, indices: Any) -> fx.CallLowering:
    def lower(node: Node) -> None:
        x, dim, keepdim = node.args[0], fx.argument_of(node, 1), bool(fx.argument_of(node, 2))
        _separate_results(
            node,
            lambda: fx.call(node, values, x, [dim], keepdim),
            lambda: fx.call(node, indices, x, dim, keepdim),
        )

    return lower


def _replace_by_top_k(node: Node, x: Any, k: int, dim: int, largest: bool) -> None:
    _separate_results(
        node, *(lambda f=f: _apply_along_axis(node, f, x, k, dim, largest) for f in (top_values, top_places))
    )


def _apply_along_axis(node: Node, function: Any, x: Any, k: int, dim: int, largest: bool) -> Node:
    """Applies a function of the last axis along another axis."""
    rank = max(len(fx.shape_of(x)), 1)
    order = list(range(rank))
    order[dim % rank], order[-1] = order[-1], order[dim % rank]
    return fx.insert_permutation(
        node, fx.call(node, function, fx.insert_permutation(node, x, order), k, largest), order
    )


def _sort_arguments(node: Node) -> tuple[Any, int, int, bool]:
    """Returns the operand, number of results, axis and direction of a sort as arguments of a top-k."""
    x, dim, descending = (fx.named_argument(node, name) for name in ("self", "dim", "descending"))
    return x, fx.shape_of(x)[dim], dim, bool(descending)


def _lower_kth_value(node: Node) -> None:
    """Lowers a k-th smallest value to the last of the k smallest; the median is the lower middle."""
    x, rest = node.args[0], list(node.args[1:])
    is_median = node.target is aten.median.dim
    size = fx.shape_of(x)[int(rest[0])] if is_median else 0  # type: ignore[arg-type]  # a node, a number
    k = (size + 1) // 2 if is_median else int(rest.pop(0))  # type: ignore[arg-type]  # a number
    dim = int(rest[0]) if rest else -1  # type: ignore[arg-type]  # a number
    keepdim = len(rest) > 1 and bool(rest[1])

    def last(function: Any) -> Node:
        values = _apply_along_axis(node, function, x, k, dim, False)
        cut = fx.call(node, aten.slice.Tensor, values, dim, k - 1, k)
        if keepdim:
            return cut
        shape = list(fx.shape_of(cut))
        del shape[dim]
        return fx.call(node, aten.reshape.default, cut, shape)

    _separate_results(node, lambda: last(top_values), lambda: last(top_places))


MAKING_REAL = frozenset({*CASTS, *BROADCASTING})
"""Operators that convert integers to real numbers."""


def _lower_bool_count(node: Node) -> Node | None:
    """Counts booleans as a real number if all readers are real."""
    x = node.args[0]
    is_real = [user.target in MAKING_REAL and dtype_of(user).is_floating_point for user in node.users]
    if dtype_of(x) != torch.bool or not all(is_real):
        return None
    return fx.call(node, node.target, as_type(node, x, torch.float32), *node.args[1:])  # type: ignore[arg-type]  # an operator


RELATIONS = {getattr(aten, name): getattr(aten, name).Tensor for name in ("lt", "le", "eq", "ne", "ge", "gt")}
LOWERINGS: dict[Any, fx.CallLowering] = {
    **{
        getattr(packet, kind): _relation_lowering(to)
        for packet, to in RELATIONS.items()
        for kind in ("Tensor", "Scalar")
    },
    **dict.fromkeys((aten.logical_not.default, aten.bitwise_not.default), _lower_not),
    **{
        target: _logic_lowering(to)
        for name, to in (("and", aten.minimum.default), ("or", aten.maximum.default), ("xor", aten.ne.Tensor))
        for target in (
            *fx.torch_operators(f"logical_{name}"),
            *fx.torch_operators(f"bitwise_{name}", "Tensor"),
        )
    },
    **{
        getattr(packet, kind): _bool_reduction_lowering(to)
        for packet, to in ((aten.any, aten.amax.default), (aten.all, aten.amin.default))
        for kind in ("default", "dim", "dims")
    },
    **dict.fromkeys(
        (aten.where.self, aten.where.ScalarSelf, aten.where.ScalarOther, aten.where.Scalar), _lower_where
    ),
    **dict.fromkeys((aten.masked_fill.Scalar, aten.masked_fill.Tensor), _lower_masked_fill),
    **dict.fromkeys(CASTS, _lower_cast),
    **dict.fromkeys((*BROADCASTING, aten.rsub.Scalar, aten.rsub.Tensor), _cast_arithmetic_operands),
    **dict.fromkeys((aten.argmax.default, aten.argmin.default), _lower_arg_extremum),
    aten.max.dim: _extremum_lowering(aten.amax.default, aten.argmax.default),
    aten.min.dim: _extremum_lowering(aten.amin.default, aten.argmin.default),
    aten.topk.default: lambda node: _replace_by_top_k(node, *(fx.argument_of(node, i) for i in range(4))),
    **dict.fromkeys((aten.kthvalue.default, aten.median.dim), _lower_kth_value),
    aten.sum.dim_IntList: _lower_bool_count,
    **dict.fromkeys(
        (aten.sort.default, aten.sort.stable), lambda node: _replace_by_top_k(node, *_sort_arguments(node))
    ),
    **dict.fromkeys(
        (aten.argsort.default, aten.argsort.stable),
        lambda node: _apply_along_axis(node, top_places, *_sort_arguments(node)),
    ),
}
"""Lowerings by operator."""
