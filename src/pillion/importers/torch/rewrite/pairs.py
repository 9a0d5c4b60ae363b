# SPDX-License-Identifier: Apache-2.0
"""Complex numbers as pairs of real ones along a last axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from pillion.importers.torch.nodes import aten, call, constant, constant_of, shape_of, value_of


def is_complex(node: object) -> bool:
    """Says whether a call gives one tensor of complex numbers."""
    value = value_of(node) if isinstance(node, Node) else None
    return isinstance(value, Tensor) and value.is_complex()


class Pairs:
    """The pairs of the complex numbers of one module."""

    def __init__(self, module: GraphModule) -> None:
        self.module = module
        self.known: dict[Node, Node] = {}

    def of(self, operand: Any, before: Node) -> Node:
        """Gives the pairs of an operand, read in front of a call; of a real one, these numbers and zeros."""
        if is_complex(operand):
            if operand not in self.known:
                self.known[operand] = self._read(operand)
            return self.known[operand]
        if isinstance(operand, Node):
            return call(before, aten.constant_pad_nd.default, one_more_axis(before, operand), [0, 1])
        number = complex(operand)
        return self.numbers(before, number.real, number.imag)

    def _read(self, node: Node) -> Node:
        """The pairs of complex numbers that stay: constants, and results of calls without a form."""
        held = constant_of(node)
        if held is not None and not held.requires_grad:
            pairs = torch.view_as_real(held.resolve_conj()).to(torch.float32, copy=True)
            return constant(self.module, node.next, pairs, f"{node.name}_pairs")
        return call(node.next, aten.view_as_real.default, node)

    def parts(self, operand: Any, before: Node) -> tuple[Node, Node]:
        """Gives real and imaginary parts, with a last axis of one."""
        x = self.of(operand, before)
        axis = len(shape_of(x)) - 1
        real, imaginary = (call(before, aten.slice.Tensor, x, axis, i, i + 1) for i in range(2))
        return real, imaginary

    def numbers(self, before: Node, real: float, imaginary: float) -> Node:
        """Gives a constant pair."""
        return constant(self.module, before, torch.tensor([real, imaginary]), f"{before.name}_pair")

    def keep(self, node: Node) -> None:
        """Gives a call without a form, or an output, its complex numbers again."""
        for operand in node.all_input_nodes:
            if operand in self.known:
                again = call(node, aten.view_as_complex.default, self.known[operand])
                node.replace_input_with(operand, again)


Form = Callable[[Pairs, Node], Node | None]
"""What gives the pairs of a call, or its real numbers; None where there is no such form."""


def one_more_axis(before: Node, x: Node) -> Node:
    """Gives real numbers, each along a last axis of its own."""
    return call(before, aten.unsqueeze.default, x, len(shape_of(x)))


def joined(before: Node, real: Node, imaginary: Node) -> Node:
    """Gives pairs of parts, which have a last axis of one."""
    return call(before, aten.cat.default, [real, imaginary], -1)


def exchanged(before: Node, pairs: Node) -> Node:
    """Gives pairs whose parts have changed places."""
    return call(before, aten.flip.default, pairs, [len(shape_of(pairs)) - 1])
