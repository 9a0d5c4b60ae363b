# SPDX-License-Identifier: Apache-2.0
"""Canonicalizes integer arithmetic to `integer_calculation` on two tensors. Reductions and running sums take a logarithmic
number of steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import Node

from pillion.importers.torch import fx_nodes as fx
from pillion.importers.torch.fx_nodes import aten
from pillion.importers.torch.rewrite.common_type import NARROW, as_type, dtype_of
from pillion.ops.integer_arithmetic import MEANINGS, Calculation

FITTING = 2**31


def integer_calculation(a: Tensor, b: Tensor, calculation: str) -> Tensor:
    """Computes with 32-bit integers that wrap, as the program does."""
    shape = np.broadcast_shapes(a.shape, b.shape)
    a, b = a.expand(shape), b.expand(shape)
    if isinstance(a, FakeTensor):
        return torch.empty_like(a, dtype=torch.int64)
    left, right = (np.asarray(x.to(torch.int64)) for x in (a, b))
    with np.errstate(over="ignore"):
        bits = MEANINGS[Calculation(calculation)](left, right) & 0xFFFFFFFF
    return torch.from_numpy(np.array(np.where(bits < FITTING, bits, bits - 2 * FITTING)))


def _binary_lowering(calculation: Calculation, turned: bool = False) -> fx.CallLowering:
    def lower(node: Node) -> Node:
        a, b = node.args[:2][:: -1 if turned else 1]
        factor = node.kwargs.get("alpha", 1)
        if factor != 1:
            b = _insert_calculation(node, Calculation.MUL, b, factor)
        return _insert_calculation(node, calculation, a, b)

    return lower


def _insert_calculation(node: Node, calculation: Calculation, a: Any, b: Any) -> Node:
    left, right = (as_type(node, x, torch.int64) for x in (a, b))
    return fx.call(node, integer_calculation, left, right, calculation.value)


def cast_integers(node: Node, source: Any) -> Node:
    """Casts integers; bits that do not fit are dropped."""
    dtype, before = dtype_of(node), dtype_of(source)
    if before == torch.bool or before == dtype or (dtype in NARROW and BITS.get(before, 64) <= BITS[dtype]):
        return as_type(node, source, torch.int64)
    if dtype == torch.uint8:
        return _insert_calculation(node, Calculation.AND, source, 255)
    if dtype in NARROW:
        return _wrap_to_call_type(node, as_type(node, source, torch.int64))
    is_narrow = before in NARROW  # from here on they have more room
    return (
        _insert_calculation(node, Calculation.ADD, source, 0)
        if is_narrow
        else as_type(node, source, torch.int64)
    )


BITS = {torch.int8: 8, torch.uint8: 9, torch.int16: 16, torch.int32: 32}
"""Bits of each type, including a sign."""


def _wrap_to_call_type(node: Node, wide: Node) -> Node:
    """Wraps integers to the call's type, using arithmetic that `.tflite` files have."""
    half = 2 ** (BITS[dtype_of(node)] - 1)
    above = _insert_calculation(node, Calculation.ADD, wide, half)
    rest = _insert_calculation(node, Calculation.FLOOR_MOD, above, 2 * half)
    return _insert_calculation(node, Calculation.SUB, rest, half)


def _of_integers(lower: fx.CallLowering, *, wraps: bool) -> fx.CallLowering:
    """Lowers only calls that return signed integers, which are kept in 32 bits; `wraps` results to narrow types."""

    def lower_integers(node: Node) -> Node | None:
        new = lower(node) if dtype_of(node) in (torch.int64, torch.int32, *NARROW) else None
        return _wrap_to_call_type(node, new) if wraps and new and dtype_of(node) in NARROW else new

    return lower_integers


def _lower_div(node: Node) -> Node | None:
    calculations = {"floor": Calculation.FLOOR_DIV, "trunc": Calculation.TRUNC_DIV}
    calculation = calculations.get(str(fx.named_argument(node, "rounding_mode")))
    return _insert_calculation(node, calculation, *node.args[:2]) if calculation else None


def _lower_abs(node: Node) -> Node:
    negative = _insert_calculation(node, Calculation.SUB, 0, node.args[0])
    return _insert_calculation(node, Calculation.MAXIMUM, node.args[0], negative)


def _lower_sign(node: Node) -> Node:
    above = _insert_calculation(node, Calculation.MAXIMUM, node.args[0], -1)
    return _insert_calculation(node, Calculation.MINIMUM, above, 1)


def _lower_clamp(node: Node) -> Node | None:
    names = [declared.name for declared in node.target._schema.arguments]  # type: ignore[union-attr]  # an OpOverload
    result: Any = node.args[0]
    for name, calculation in (("min", Calculation.MAXIMUM), ("max", Calculation.MINIMUM)):
        bound = fx.named_argument(node, name) if name in names else None
        if bound is not None:
            bound = max(-FITTING, min(FITTING - 1, bound)) if isinstance(bound, int) else bound
            result = _insert_calculation(node, calculation, result, bound)
    return result if isinstance(result, Node) else None


def _lower_power(node: Node) -> Node | None:
    exponent = node.args[1]
    if not isinstance(exponent, int) or not 1 <= exponent <= MOST_FACTORS:
        return None
    result: Any = node.args[0]
    for _ in range(exponent - 1):
        result = _insert_calculation(node, Calculation.MUL, result, node.args[0])
    return result if result is not node.args[0] else None


MOST_FACTORS = 8
"""Largest exponent of an integer power."""


def _insert_slice(node: Node, x: Any, axis: int, begin: int, end: int) -> Node:
    return fx.call(node, aten.slice.Tensor, x, axis, begin, end)


def _reduce_by_halves(node: Node, x: Any, axis: int, calculation: Calculation) -> Node:
    """Reduces an axis by combining halves."""
    while (size := fx.shape_of(x)[axis]) > 1:
        half = size // 2
        combined = _insert_calculation(
            node,
            calculation,
            _insert_slice(node, x, axis, 0, half),
            _insert_slice(node, x, axis, half, 2 * half),
        )
        if size % 2:
            combined = fx.call(
                node, aten.cat.default, [combined, _insert_slice(node, x, axis, size - 1, size)], axis
            )
        x = combined
    return x if isinstance(x, Node) else node


def _reduction_lowering(calculation: Calculation) -> fx.CallLowering:
    def lower(node: Node) -> Node:
        x = as_type(node, node.args[0], torch.int64)
        rank = len(fx.shape_of(x))
        dims: Any = fx.argument_of(node, 1)
        axes = range(rank) if dims is None or dims == [] else [dims] if isinstance(dims, int) else dims
        for axis in axes:
            x = _reduce_by_halves(node, x, axis % rank, calculation)
        return fx.call(node, aten.reshape.default, x, list(fx.shape_of(node)))

    return lower


def _lower_cumsum(node: Node) -> Node | None:
    """Computes running sums, by adding to each element the elements 1, 2, 4, … places before."""
    if not fx.shape_of(node):
        return None
    x, axis = as_type(node, node.args[0], torch.int64), int(node.args[1]) % len(fx.shape_of(node))  # type: ignore[arg-type]  # a number
    size, step = fx.shape_of(node)[axis], 1
    while step < size:
        shape = [step if i == axis else n for i, n in enumerate(fx.shape_of(x))]
        zeros = fx.constant(node, torch.zeros(shape, dtype=torch.int64), f"{node.name}_zeros")
        behind = fx.call(node, aten.cat.default, [zeros, _insert_slice(node, x, axis, 0, size - step)], axis)
        x, step = _insert_calculation(node, Calculation.ADD, x, behind), 2 * step
    return x


def operator_overloads(names: str) -> list[Any]:
    """Overloads of operators for tensors and numbers."""
    kinds = ("default", "Tensor", "Scalar", "Scalar_Tensor")
    packets = [getattr(aten, name) for name in names.split()]
    return [getattr(packet, kind) for packet in packets for kind in packet.overloads() if kind in kinds]


TURNED = {aten.rsub.Tensor, aten.rsub.Scalar}
OF_TWO: dict[Calculation, str] = {
    Calculation.ADD: "add",
    Calculation.SUB: "sub rsub",
    Calculation.MUL: "mul",
    Calculation.MINIMUM: "minimum",
    Calculation.MAXIMUM: "maximum",
    Calculation.FLOOR_DIV: "floor_divide",
    Calculation.FLOOR_MOD: "remainder",
    Calculation.TRUNC_MOD: "fmod",
    Calculation.AND: "bitwise_and __and__",
    Calculation.OR: "bitwise_or __or__",
    Calculation.XOR: "bitwise_xor __xor__",
    Calculation.SHIFT_LEFT: "bitwise_left_shift __lshift__",
    Calculation.SHIFT_RIGHT: "bitwise_right_shift __rshift__",
}
EXACT: dict[Any, fx.CallLowering] = {
    **{
        target: _binary_lowering(calculation, target in TURNED)
        for calculation, names in OF_TWO.items()
        for target in operator_overloads(names)
    },
    **dict.fromkeys((aten.div.Tensor_mode, aten.div.Scalar_mode), _lower_div),
    aten.neg.default: lambda node: _insert_calculation(node, Calculation.SUB, 0, node.args[0]),
    aten.abs.default: _lower_abs,
    **dict.fromkeys((aten.sign.default, aten.sgn.default), _lower_sign),
    aten.bitwise_not.default: lambda node: _insert_calculation(node, Calculation.SUB, -1, node.args[0]),
    **dict.fromkeys((aten.clamp.default, aten.clamp_min.default, aten.clamp_max.default), _lower_clamp),
    aten.pow.Tensor_Scalar: _lower_power,
    aten.square.default: lambda node: _insert_calculation(node, Calculation.MUL, *node.args * 2),
    aten.prod.dim_int: _reduction_lowering(Calculation.MUL),
    aten.sum.dim_IntList: _reduction_lowering(Calculation.ADD),
    aten.amax.default: _reduction_lowering(Calculation.MAXIMUM),
    aten.amin.default: _reduction_lowering(Calculation.MINIMUM),
    aten.cumsum.default: _lower_cumsum,
}
"""Lowerings of integer calls."""
FITTING_ALWAYS = operator_overloads(
    "minimum maximum remainder fmod sign sgn amax amin clamp clamp_min clamp_max bitwise_and __and__ "
    "bitwise_or __or__ bitwise_xor __xor__ bitwise_not bitwise_right_shift __rshift__"
)
"""Calls whose results fit the operands' type."""
LOWERINGS = {
    target: _of_integers(lower, wraps=target not in FITTING_ALWAYS) for target, lower in EXACT.items()
}
"""Lowerings with results wrapped to narrow types."""
