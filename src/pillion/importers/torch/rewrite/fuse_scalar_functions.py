# SPDX-License-Identifier: Apache-2.0
"""Fuses elementwise calls on one tensor and constants into one function.

In int8, any function of one number is a table that rounds once: `clamp(x, 1e-6) ** p`, or `x / (1 + x.abs())`.
At first only expressions that need a table anyway are fused; `fuse_functions` later fuses the others, for
devices without named functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Node

from pillion.importers.torch import fx_nodes as fx
from pillion.importers.torch.fx_nodes import aten
from pillion.importers.torch.rows.quantization import RULES, function_of
from pillion.importers.torch.rows.refusal_reasons import WITH_CONSTANT_OPERAND
from pillion.importers.torch.rows.unary import FUNCTIONS, TABULATED
from pillion.importers.torch.scalar_function import (
    Step,
    evaluate_steps,
    name_of,
    number_reference,
    step_reference,
)
from pillion.ir.constraints import QuantizationConstraints
from pillion.ops import Function, Lut

CLAMPS = frozenset(fx.torch_operators("clamp clamp_max clamp_min hardtanh relu relu6"))
ARITHMETIC = "add sub mul div rsub"
SIMPLE = CLAMPS.union(
    fx.torch_operators("maximum minimum"),
    fx.torch_operators(ARITHMETIC, "Tensor"),
    fx.torch_operators(ARITHMETIC, "Scalar"),
)
"""Calls that may join a table but need none."""
NAMED = frozenset({*FUNCTIONS, *fx.torch_operators("elu gelu leaky_relu softplus")})
CHOICES = frozenset({aten.where.self, *fx.torch_operators("lt le eq ne ge gt", "Tensor")})
"""Comparisons with numbers and selections, which a table can hold."""
POINTWISE = frozenset({*SIMPLE, *NAMED, *TABULATED, *WITH_CONSTANT_OPERAND, *CHOICES}) - {evaluate_steps}

MOST = 64
"""Maximum calls of one expression."""


def fuse_expressions(module: GraphModule, *, training: bool = False) -> None:
    """Fuses expressions that need a table. Trainable parameters are not constants."""
    _fuse_matching_expressions(module, lambda candidate: candidate.needs_table, training)


def fuse_functions(
    module: GraphModule, constraints: QuantizationConstraints, *, training: bool = False
) -> None:
    """Fuses functions with the arithmetic around them, so that 10 * log10(x + 1) rounds once. Does nothing for
    devices with named functions."""
    if not constraints.functions_by_name:
        _fuse_matching_expressions(module, lambda candidate: candidate.rounds_repeatedly, training)
        module.recompile()


def _fuse_matching_expressions(
    module: GraphModule, accepts: Callable[[_Expression], bool], training: bool
) -> None:
    order = {node: index for index, node in enumerate(module.graph.nodes)}
    joined: set[Node] = set()
    for node in reversed(fx.calls(module.graph, POINTWISE)):
        candidate = (
            None if node in joined or not fx.is_tensor(node) else _expression_of(node, order, training)
        )
        if candidate is not None and accepts(candidate):
            joined.update(candidate.calls)
            fx.replace(node, fx.call(node, evaluate_steps, candidate.operand, candidate.steps))
    module.graph.eliminate_dead_code()


@dataclass(frozen=True)
class _Expression:
    """Calls from one operand to one result, in order."""

    operand: Node
    calls: tuple[Node, ...]

    @property
    def steps(self) -> tuple[Step, ...]:
        """The calls as arguments of `expression`."""
        references = {node: step_reference(index) for index, node in enumerate((self.operand, *self.calls))}

        def written(argument: Any) -> Any:
            if not isinstance(argument, Node):
                return argument
            tensor = fx.constant_of(argument)
            return number_reference(tensor) if tensor is not None else references[argument]

        return tuple(
            (
                name_of(n.target),
                tuple(map(written, n.args)),
                tuple((k, written(v)) for k, v in n.kwargs.items()),
            )
            for n in self.calls
        )

    @property
    def needs_table(self) -> bool:
        """Whether any call needs a table. A single call with its own row does not."""
        if len(self.calls) == 1 and self.calls[0].target in RULES:
            return False
        return any(map(_needs_table, self.calls))

    @property
    def rounds_repeatedly(self) -> bool:
        """Whether it is a function and at least one more call."""
        rules = [RULES.get(node.target) for node in self.calls]
        return len(rules) > 1 and any(rule is not None and rule.kind == Lut.kind for rule in rules)


def _needs_table(node: Node) -> bool:
    if (
        node.target in WITH_CONSTANT_OPERAND
        or node.target is aten.where.self
        or function_of(node) is Function.TABLE
    ):
        return True
    return node.target is aten.div.Tensor and isinstance(node.args[1], Node) and not _is_number(node.args[1])


def _expression_of(last: Node, order: Mapping[Node, int], training: bool) -> _Expression | None:
    """Returns the longest expression that ends in `last`, grown backwards over calls that nothing else reads."""
    inside: list[Node] = []
    open_ends: dict[Node, None] = {}
    member, best = last, None
    while len(inside) < MOST and _can_join_expression(member, last, inside, training):
        open_ends.pop(member, None)
        inside.append(member)
        open_ends.update((n, None) for n in member.all_input_nodes if not _is_number(n, training))
        if not open_ends:
            break
        member = max(open_ends, key=order.__getitem__)
        if len(open_ends) == 1 and fx.is_tensor(member) and fx.shape_of(member) == fx.shape_of(last):
            best = _Expression(member, tuple(reversed(inside)))
    best = best and _without_first_clamp(best)
    return best


def _can_join_expression(node: Node, last: Node, inside: list[Node], training: bool) -> bool:
    """Whether a call is pointwise, has the result's shape, and is read only inside."""
    return (
        node.op == "call_function"
        and node.target in POINTWISE
        and (fx.is_tensor(node) or fx.is_tensor(node, torch.bool))
        and fx.shape_of(node) == fx.shape_of(last)
        and (node is last or set(node.users) <= set(inside))
    )


def _without_first_clamp(match: _Expression) -> _Expression | None:
    """Leaves a leading clamp to the op that computes the operand."""
    first = match.calls[0]
    readers = [n for n in match.calls if match.operand in n.all_input_nodes]
    if first.target not in CLAMPS or readers != [first]:
        return match
    return _without_first_clamp(_Expression(first, match.calls[1:])) if match.calls[1:] else None


def _is_number(node: Any, training: bool = False) -> bool:
    tensor = fx.fixed_tensor(node, training)
    return tensor is not None and tensor.numel() == 1
