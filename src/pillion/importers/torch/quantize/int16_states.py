# SPDX-License-Identifier: Apache-2.0
"""Uses int16 for loop states that accumulate smaller changes, and for these changes up to their layers. In int8,
rounding to the coarse steps of the state would add up from step to step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torchao.quantization.pt2e import ObserverBase

from pillion.importers.torch.fx_nodes import aten, constant_of, fake_result, shape_of
from pillion.importers.torch.loop_nodes import CARRIED, LAST, STACKED, LoopNodes, in_execution_order
from pillion.importers.torch.observers import observer_of
from pillion.importers.torch.rewrite.norm_calls import normalize_axes
from pillion.importers.torch.scalar_function import is_smooth
from pillion.ir.constraints import QuantizationConstraints
from pillion.ir.types import DType
from pillion.ops import Add
from pillion.ops.normalize import MOST_ELEMENTS
from pillion.ops.wide_arithmetic import STEPS_IN_LOOPS

SMALLER = 1.2
"""Ratio of the state's scale to its change's from which int16 is used. (Measured: cells with remembering gates
have 1.2 to 3.2 and gain 1 to 2 dB; freshly initialized layers 0.6 to 1.15 and gain nothing.)"""
ARITHMETIC = (aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor)
MOVES = (aten.reshape.default, aten.slice.Tensor, aten.permute.default)
MOST_RATIO = 16.0
"""Maximum ratio of the product of both operand scales to the result's scale, all int8; beyond it, int16 products overflow 32 bits."""


class Int16Observer(ObserverBase):
    """Divides another observer's scale by 128: int16 for twice the range, as states may grow beyond the observed
    one."""

    def __init__(self, coarse: Any) -> None:
        super().__init__(torch.int16)
        self.coarse = coarse
        self.qscheme = torch.per_tensor_affine
        self.quant_min, self.quant_max = DType.INT16.bounds

    def forward(self, x: Tensor) -> Tensor:
        """Returns the tensor unchanged; the other observer has seen it."""
        return x

    def calculate_qparams(self, **arguments: Any) -> tuple[Tensor, Tensor]:
        """Returns scale and zero point."""
        scale, zero_point = self.coarse.calculate_qparams()
        return scale / STEPS_IN_LOOPS, zero_point * STEPS_IN_LOOPS


@dataclass(frozen=True)
class _State:
    """Calls of a loop state, and its observers at the begin and end of a step."""

    carried: Node
    last: Node
    held: Node
    total: Node
    change: Node


def use_int16_states(prepared: GraphModule, constraints: QuantizationConstraints) -> None:
    """Uses int16 for loop states that are sums of themselves and a smaller change. Layers read them in int8."""
    if Add.kind in constraints.fixed:
        return
    for loop in [item for item in in_execution_order(prepared.graph) if isinstance(item, LoopNodes)]:
        widening = Int16Widening(prepared, frozenset(loop.body))
        states = [
            state for last in loop.calls_of(LAST) if (state := _match_int16_state(prepared, last)) is not None
        ]
        for state in states:
            widening.take_state(state)
        widening.apply()
        for state in states:
            _initialize_state_in_int16(prepared, state)
    prepared.recompile()


def _match_int16_state(prepared: GraphModule, last: Node) -> _State | None:
    observed, total = last.args[:2]
    shown = [user for user in last.users if user.op == "call_module"]
    if not isinstance(observed, Node) or not isinstance(total, Node) or len(shown) != len(last.users):
        return None
    observers = {observer_of(prepared, node) for node in (observed, total, *shown)}
    if len(observers) > 1 or not _is_int8_observer(observers.pop()):
        return None
    carried, updated = observed.args[0], total.args[0]
    if not isinstance(carried, Node) or not isinstance(updated, Node) or carried.target is not CARRIED:
        return None
    change = _fine_state_change(prepared, updated, observed)
    return None if change is None else _State(carried, last, observed, total, change)


def _is_int8_observer(observer: Any) -> bool:
    return isinstance(observer, ObserverBase) and observer.dtype is torch.int8


def step_of(observer: Any) -> float:
    """Returns an observer's scale."""
    return float(observer.calculate_qparams()[0])


def _fine_state_change(prepared: GraphModule, total: Node, observed: Node) -> Node | None:
    """Returns the summand of a state update, if its scale is finer than the state's."""
    if (
        total.target is not aten.add.Tensor
        or total.kwargs
        or len(total.args) != 2
        or observed not in total.args
    ):
        return None
    change: Any = total.args[1] if total.args[0] is observed else total.args[0]
    observers = [observer_of(prepared, node) for node in (observed, change)]
    if shape_of(total) != shape_of(observed.all_input_nodes[0]) or not all(map(_is_int8_observer, observers)):
        return None
    coarse, fine = map(step_of, observers)
    return change if coarse >= SMALLER * fine else None


@dataclass
class Int16Widening:
    """Collects observer calls to widen to int16, then exchanges them."""

    prepared: GraphModule
    body: frozenset[Node]
    wide: dict[Node, None] = field(default_factory=dict)

    def observer(self, node: Any) -> Any:
        """Returns a node's observer."""
        return observer_of(self.prepared, node)

    def take_state(self, state: _State) -> None:
        """Widens a state, its change, and its copies that only outputs read."""
        self.take(state.held)
        self.take(state.total)
        for end in (state.last, *(user for user in state.total.users if user.target is STACKED)):
            for shown in list(end.users):
                if self._is_read_by_outputs_only(shown) or end is state.last:
                    self.take(shown)
        self.take_change(state.change)

    def take_change(self, node: Any) -> None:
        """Widens a result and its operands back to the layers."""
        source = node.args[0] if self.observer(node) is not None else None
        if source is None or node in self.wide:
            return
        if source.target in MOVES:
            self.take_change(source.args[0])
        elif source.target in ARITHMETIC and self._can_be_int16(node):
            self.take(node)
            for operand in source.args:
                self.take_change(operand)
        elif source.target is normalize_axes and self._can_be_int16(node) and self._is_of_wide(source):
            self.take(node)
            self.take_change(source.args[0])
        elif is_smooth(source) and _source_before_moves(source.args[0]).target in ARITHMETIC:
            self.take_change(source.args[0])

    def take(self, node: Node) -> None:
        """Widens a result, its moves, and functions of it."""
        if node in self.wide:
            return
        self.wide[node] = None
        for user in node.users:
            behind = list(user.users)
            if user.target in MOVES and {self.observer(reader) for reader in behind} == {self.observer(node)}:
                for reader in behind:
                    self.take(reader)
            elif is_smooth(user) and len(behind) == 1 and self._can_be_int16(behind[0]):
                self.take(behind[0])

    def apply(self) -> None:
        """Exchanges the observers; int8 readers get another call of the old one."""
        fine: dict[Any, str] = {}
        coarse = {node: str(node.target) for node in self.wide}
        for node in self.wide:
            observer = self.observer(node)
            if observer not in fine:
                fine[observer] = f"{node.name}_fine_steps"
                self.prepared.add_submodule(fine[observer], Int16Observer(observer))
        for node, name in [(node, fine[self.observer(node)]) for node in self.wide]:
            node.target = name
            narrow = [user for user in node.users if not self._accepts_int16(user)]
            if narrow:
                with self.prepared.graph.inserting_after(node):
                    observed = self.prepared.graph.call_module(coarse[node], (node,))
                observed.meta.update(node.meta)
                for reader in narrow:
                    reader.replace_input_with(node, observed)

    def can_hold(self, before: Node, after: Node) -> bool:
        """Whether a state between runs can be int16: both ends are int8 with equal scale."""
        observers = [self.observer(node) for node in (before, after)]
        return (
            all(map(_is_int8_observer, observers))
            and step_of(observers[0]) == step_of(observers[1])
            and self._can_be_int16(after)
        )

    def _accepts_int16(self, user: Node) -> bool:
        """Whether a call reads int16: sums and products always, others if their result is int16, too."""
        if user.op == "output" or user.target is LAST:
            return True
        behind = list(user.users)
        is_plain = len(behind) == 1 and self.observer(behind[0]) is not None
        if user.target in ARITHMETIC and is_plain and _has_tensors_only(user):
            return True
        return bool(behind) and all(reader in self.wide for reader in behind)

    def _can_be_int16(self, node: Node) -> bool:
        """Whether a result is computed in each step, has its own parameters, and is read only through its
        observer."""
        source, observer = node.all_input_nodes[0], self.observer(node)
        observed = self.prepared.graph.find_nodes(op="call_module")
        others = [n for n in observed if self.observer(n) is observer and n is not node]
        return (
            source in self.body
            and len(source.users) == 1
            and _is_int8_observer(observer)
            and all(peer.all_input_nodes[0].target in MOVES for peer in others)
            and (source.target not in ARITHMETIC or _has_tensors_only(source))
            and (source.target is not aten.mul.Tensor or self._is_in_reach(source, observer))
        )

    def _is_of_wide(self, norm: Node) -> bool:
        """Whether a norm takes 16 bits: its operand can have them, and its rows are short."""
        operand: Any = norm.args[0]
        return (
            self.observer(operand) is not None
            and operand.args[0].target in ARITHMETIC
            and self._can_be_int16(operand)
            and fake_result(norm).numel() <= MOST_ELEMENTS[DType.INT16]
        )

    def _is_in_reach(self, product: Node, observer: Any) -> bool:
        steps = [
            step_of(operand_observer)
            for operand_observer in map(self.observer, product.args)
            if operand_observer is not None
        ]
        return len(steps) == 2 and steps[0] * steps[1] <= MOST_RATIO * step_of(observer)

    def _is_read_by_outputs_only(self, node: Node) -> bool:
        """Whether only outputs of the model read an observed tensor."""
        users = list(node.users)
        return bool(users) and all(
            user.op == "output"
            or (
                user.target in MOVES
                and {self.observer(reader) for reader in user.users} == {self.observer(node)}
                and all(self._is_read_by_outputs_only(reader) for reader in user.users)
            )
            for user in users
        )


def _has_tensors_only(node: Node) -> bool:
    return len(node.args) == 2 and not node.kwargs and all(isinstance(operand, Node) for operand in node.args)


def _source_before_moves(node: Any) -> Node:
    """Returns the producer of a tensor before moves."""
    source: Node = node.args[0] if node.op == "call_module" else node
    while source.target in MOVES:
        source = source.all_input_nodes[0]
        source = source.all_input_nodes[0] if source.op == "call_module" else source
    return source


def _initialize_state_in_int16(prepared: GraphModule, state: _State) -> None:
    """Passes the initial state to the loop in int16."""
    initial: Any = state.carried.args[0]
    begin = initial.args[0] if constant_of(initial.args[0]) is not None else initial
    with prepared.graph.inserting_before(state.carried):
        wide = prepared.graph.call_module(str(state.held.target), (begin,))
    wide.meta.update(initial.meta)
    state.carried.args = (wide, *state.carried.args[1:])
