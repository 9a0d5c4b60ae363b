# SPDX-License-Identifier: Apache-2.0
"""Lowers moves, arithmetic and functions of complex numbers to pairs of real numbers."""

from __future__ import annotations

from typing import Any

from torch.fx import Node

from pillion.importers.torch.fx_nodes import argument_of, aten, call, is_constant, shape_of, torch_operators
from pillion.importers.torch.rewrite.complex_pairs import (
    ComplexPairs,
    PairLowering,
    append_axis,
    is_complex,
    join_parts,
    swap_parts,
)
from pillion.importers.torch.rewrite.functionalize import CASTS


def _lower_shape(pairs: ComplexPairs, node: Node) -> Node:
    """Lowers a call to the shape of its result."""
    return call(node, node.target, pairs.of(node.args[0], node), [*shape_of(node), 2])  # type: ignore[arg-type]  # a call


def _lower_permute(pairs: ComplexPairs, node: Node) -> Node:
    args: Any = node.args
    rank = len(shape_of(node))
    return call(node, aten.permute.default, pairs.of(args[0], node), [*(a % rank for a in args[1]), rank])


def _lower_over_axes(pairs: ComplexPairs, node: Node) -> Node:
    """Lowers a call whose second argument names axes, counted from the front."""
    target: Any = node.target
    source: Any = node.args[0]
    rank, dims = len(shape_of(source)), argument_of(node, 1, 0)
    axes = [axis % rank for axis in dims] if isinstance(dims, (list, tuple)) else dims % rank
    return call(node, target, pairs.of(source, node), axes, *node.args[2:], **node.kwargs)


def _lower_slice_scatter(pairs: ComplexPairs, node: Node) -> Node:
    """Lowers a scatter into a slice."""
    target: Any = node.target
    args: Any = node.args
    base, source = (pairs.of(operand, node) for operand in args[:2])
    axis = int(argument_of(node, 2, 0)) % len(shape_of(node))
    named = {name: value for name, value in node.kwargs.items() if name != "dim"}
    return call(node, target, base, source, axis, *args[3:], **named)


def _lower_on_pairs(pairs: ComplexPairs, node: Node) -> Node:
    """Lowers a call that does the same to pairs."""
    return call(node, node.target, pairs.of(node.args[0], node), *node.args[1:])  # type: ignore[arg-type]  # a call


def _lower_concat(pairs: ComplexPairs, node: Node) -> Node:
    args: Any = node.args
    axis = int(argument_of(node, 1, 0)) % len(shape_of(node))
    return call(node, aten.cat.default, [pairs.of(part, node) for part in args[0]], axis)


def _lower_pad(pairs: ComplexPairs, node: Node) -> Node | None:
    """Lowers padding with zeros only."""
    args: Any = node.args
    if argument_of(node, 2, 0):
        return None
    return call(node, aten.constant_pad_nd.default, pairs.of(args[0], node), [0, 0, *args[1]])


def _lower_add(pairs: ComplexPairs, node: Node) -> Node:
    a, b = (pairs.of(operand, node) for operand in node.args[:2])
    target = aten.add.Tensor if node.target in (aten.add.Tensor, aten.add.Scalar) else aten.sub.Tensor
    return call(node, target, a, b, **node.kwargs)


def _lower_mul(pairs: ComplexPairs, node: Node) -> Node:
    a, b = node.args[:2]
    if is_constant(a) or not isinstance(a, Node):
        a, b = b, a
    if isinstance(b, complex):
        return _multiply_by_number(pairs, node, a, b)
    if not isinstance(b, Node):
        return call(node, aten.mul.Tensor, pairs.of(a, node), b)
    if not (is_complex(a) and is_complex(b)):
        factor, operand = (b, a) if is_complex(a) else (a, b)
        return call(node, aten.mul.Tensor, pairs.of(operand, node), append_axis(node, factor))  # type: ignore[arg-type]  # a node
    if is_constant(b):
        straight, imaginary = pairs.parts(b, node)
        across = call(node, aten.mul.Tensor, imaginary, pairs.numbers(node, -1.0, 1.0))
        return _multiply_by_constants(node, pairs.of(a, node), straight, across)
    (ar, ai), (br, bi) = pairs.parts(a, node), pairs.parts(b, node)
    products = [call(node, aten.mul.Tensor, x, y) for x, y in ((ar, br), (ai, bi), (ar, bi), (ai, br))]
    real = call(node, aten.sub.Tensor, *products[:2])
    return join_parts(node, real, call(node, aten.add.Tensor, *products[2:]))


def _multiply_by_constants(before: Node, x: Node, straight: Node, across: Node) -> Node:
    """Multiplies pairs by complex constants: by the real part, plus the swapped pairs by the signed imaginary
    part."""
    factors = ((x, straight), (swap_parts(before, x), across))
    return call(before, aten.add.Tensor, *(call(before, aten.mul.Tensor, *both) for both in factors))


def _multiply_by_number(pairs: ComplexPairs, node: Node, a: Any, number: complex) -> Node:
    """Multiplies a real or complex tensor by a complex number."""
    if not is_complex(a):
        both = pairs.numbers(node, number.real, number.imag)
        return call(node, aten.mul.Tensor, append_axis(node, a), both)
    x, across = pairs.of(a, node), pairs.numbers(node, -number.imag, number.imag)
    if number.real:
        return _multiply_by_constants(node, x, pairs.numbers(node, number.real, number.real), across)
    return call(node, aten.mul.Tensor, swap_parts(node, x), across)


def _lower_div(pairs: ComplexPairs, node: Node) -> Node | None:
    a, b = node.args[:2]
    if is_complex(b):
        return None
    if isinstance(b, complex):
        return _multiply_by_number(pairs, node, a, 1 / b)
    divisor = append_axis(node, b) if isinstance(b, Node) else b
    return call(node, aten.div.Tensor, pairs.of(a, node), divisor)


def _lower_abs(pairs: ComplexPairs, node: Node) -> Node:
    """Lowers the absolute value to a root of two squares, which later fuses into one op."""
    parts = (
        call(node, aten.reshape.default, x, list(shape_of(node))) for x in pairs.parts(node.args[0], node)
    )
    squares = (call(node, aten.mul.Tensor, x, x) for x in parts)
    return call(node, aten.sqrt.default, call(node, aten.add.Tensor, *squares))


def _lower_angle(pairs: ComplexPairs, node: Node) -> Node:
    real, imaginary = pairs.parts(node.args[0], node)
    angle = call(node, aten.atan2.default, imaginary, real)
    return call(node, aten.reshape.default, angle, list(shape_of(node)))


def _lower_square(pairs: ComplexPairs, node: Node) -> Node | None:
    """Lowers a square; other powers stay."""
    if len(node.args) > 1 and node.args[1] != 2:
        return None
    a, b = pairs.parts(node.args[0], node)
    squares = [call(node, aten.mul.Tensor, x, y) for x, y in ((a, a), (b, b), (a, b))]
    real = call(node, aten.sub.Tensor, *squares[:2])
    return join_parts(node, real, call(node, aten.mul.Tensor, squares[2], 2.0))


def _lower_exp(pairs: ComplexPairs, node: Node) -> Node:
    real, imaginary = pairs.parts(node.args[0], node)
    turned = _unit_complex_pairs(node, imaginary)
    return call(node, aten.mul.Tensor, turned, call(node, aten.exp.default, real))


def _lower_polar(pairs: ComplexPairs, node: Node) -> Node:
    args: Any = node.args
    length, angle = (append_axis(node, x) for x in args[:2])
    return call(node, aten.mul.Tensor, _unit_complex_pairs(node, angle), length)


def _unit_complex_pairs(before: Node, angle: Node) -> Node:
    """Returns unit complex numbers of some angles."""
    return join_parts(before, *(call(before, f, angle) for f in (aten.cos.default, aten.sin.default)))


def _lower_complex(pairs: ComplexPairs, node: Node) -> Node:
    args: Any = node.args
    shape = [*shape_of(node), 1]
    parts = (append_axis(node, x) for x in args[:2])
    return join_parts(node, *(call(node, aten.expand.default, x, shape) for x in parts))


def _lower_matmul(pairs: ComplexPairs, node: Node) -> Node:
    """Lowers a complex matrix product to a real one with twice the rows and columns."""
    target: Any = node.target
    a, b = (pairs.of(operand, node) for operand in node.args[:2])
    *lead, rows, inner, _ = shape_of(a)
    *others, _, columns, _ = shape_of(b)
    axis = len(shape_of(b)) - 2
    across = call(node, aten.mul.Tensor, swap_parts(node, b), pairs.numbers(node, -1.0, 1.0))
    met = [call(node, aten.unsqueeze.default, x, axis) for x in (b, across)]
    block = call(node, aten.cat.default, met, axis)
    block = call(node, aten.reshape.default, block, [*others, 2 * inner, 2 * columns])
    flat = call(node, aten.reshape.default, a, [*lead, rows, 2 * inner])
    return call(node, aten.reshape.default, call(node, target, flat, block), [*lead, rows, columns, 2])


SAME = (
    *torch_operators("alias clone contiguous detach resolve_conj resolve_neg view_as_real"),
    *(target for target in CASTS if target is not aten.type_as.default),
)
ALONG_AXES = (*torch_operators("flip index_select"), aten.mean.dim, aten.slice.Tensor, aten.sum.dim_IntList)
LOWERINGS: dict[Any, PairLowering] = {
    **dict.fromkeys(SAME, lambda pairs, node: pairs.of(node.args[0], node)),
    **dict.fromkeys(ALONG_AXES, _lower_over_axes),
    **dict.fromkeys((aten.select_scatter.default, aten.slice_scatter.default), _lower_slice_scatter),
    **dict.fromkeys((aten.add.Tensor, aten.add.Scalar, aten.sub.Tensor, aten.sub.Scalar), _lower_add),
    **dict.fromkeys((aten.mul.Tensor, aten.mul.Scalar), _lower_mul),
    **dict.fromkeys((aten.div.Tensor, aten.div.Scalar), _lower_div),
    **dict.fromkeys(
        torch_operators("_conj _conj_physical conj_physical"),
        lambda pairs, node: call(
            node, aten.mul.Tensor, pairs.of(node.args[0], node), pairs.numbers(node, 1.0, -1.0)
        ),
    ),
    **dict.fromkeys((aten.bmm.default, aten.mm.default), _lower_matmul),
    aten.abs.default: _lower_abs,
    aten.angle.default: _lower_angle,
    aten.cat.default: _lower_concat,
    aten.complex.default: _lower_complex,
    aten.constant_pad_nd.default: _lower_pad,
    aten.exp.default: _lower_exp,
    **dict.fromkeys(torch_operators("expand reshape"), _lower_shape),
    **dict.fromkeys((aten.index.Tensor, aten.neg.default), _lower_on_pairs),
    aten.permute.default: _lower_permute,
    aten.polar.default: _lower_polar,
    **dict.fromkeys((aten.pow.Tensor_Scalar, aten.square.default), _lower_square),
    aten.view_as_complex.default: lambda pairs, node: node.all_input_nodes[0],
}
"""Lowerings by operator."""
