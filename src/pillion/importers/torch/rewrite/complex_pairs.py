# SPDX-License-Identifier: Apache-2.0
"""Represents complex numbers as pairs of real numbers along a last axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node

from pillion.importers.torch.fx_nodes import aten, call, constant, constant_of, fake_result, shape_of


def is_complex(node: object) -> bool:
    """Whether a node's result is a complex tensor."""
    value = fake_result(node) if isinstance(node, Node) else None
    return isinstance(value, Tensor) and value.is_complex()


class ComplexPairs:
    """Pairs of the complex values of one module."""

    def __init__(self) -> None:
        self.known: dict[Node, Node] = {}

    def of(self, operand: Any, before: Node) -> Node:
        """Returns the pairs of an operand; the imaginary part of a real one is zero."""
        if is_complex(operand):
            if operand not in self.known:
                self.known[operand] = self._convert_to_pairs(operand)
            return self.known[operand]
        if isinstance(operand, Node):
            return call(before, aten.constant_pad_nd.default, append_axis(before, operand), [0, 1])
        number = complex(operand)
        return self.numbers(before, number.real, number.imag)

    def _convert_to_pairs(self, node: Node) -> Node:
        """Pairs of complex constants and of calls that are not lowered."""
        tensor = constant_of(node)
        if tensor is not None and not tensor.requires_grad:
            pairs = torch.view_as_real(tensor.resolve_conj()).to(torch.float32, copy=True)
            return constant(node.next, pairs, f"{node.name}_pairs")
        return call(node.next, aten.view_as_real.default, node)

    def parts(self, operand: Any, before: Node) -> tuple[Node, Node]:
        """Returns real and imaginary parts, each with a last axis of one."""
        x = self.of(operand, before)
        axis = len(shape_of(x)) - 1
        real, imaginary = (call(before, aten.slice.Tensor, x, axis, i, i + 1) for i in range(2))
        return real, imaginary

    def numbers(self, before: Node, real: float, imaginary: float) -> Node:
        """Returns a constant pair."""
        return constant(before, torch.tensor([real, imaginary]), f"{before.name}_pair")

    def keep(self, node: Node) -> None:
        """Converts the operands of a call that is not lowered back to complex numbers."""
        for operand in node.all_input_nodes:
            if operand in self.known:
                again = call(node, aten.view_as_complex.default, self.known[operand])
                node.replace_input_with(operand, again)


PairLowering = Callable[[ComplexPairs, Node], Node | None]
"""Returns the pairs or the real result of a call; None if it cannot be lowered."""


def append_axis(before: Node, x: Node) -> Node:
    """Appends an axis of size 1."""
    return call(before, aten.unsqueeze.default, x, len(shape_of(x)))


def join_parts(before: Node, real: Node, imaginary: Node) -> Node:
    """Concatenates real and imaginary parts to pairs."""
    return call(before, aten.cat.default, [real, imaginary], -1)


def swap_parts(before: Node, pairs: Node) -> Node:
    """Swaps the real and the imaginary part of complex numbers, stored as pairs."""
    return call(before, aten.flip.default, pairs, [len(shape_of(pairs)) - 1])
