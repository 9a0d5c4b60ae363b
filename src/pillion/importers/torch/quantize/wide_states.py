# SPDX-License-Identifier: Apache-2.0
"""Which states of loops have 16 bits: those to which each step adds a change that is smaller. In int8 such a sum is rounded to the steps of
the state, which are coarser than those of the change, and what is rounded off adds up from step to step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torchao.quantization.pt2e import ObserverBase

from pillion.importers.torch.loops import CARRIED, LAST
from pillion.importers.torch.nodes import aten, constant_of, shape_of
from pillion.ir.types import DType
from pillion.ir.wishes import Wishes
from pillion.ops import Add
from pillion.ops.wide_add import STEPS

SMALLER = 1.2
"""How much coarser the steps of a state are than those of its change, where it has 16 bits. (Measured: cells with gates that remember have 1.2 to 3.2
and gain 1 to 2 dB; layers as PyTorch draws them 0.6 to 1.15, and gain nothing.)"""


class FinerSteps(ObserverBase):
    """What another observer came to, with each of its steps in 256: the same range in 16 bits."""

    def __init__(self, coarse: Any) -> None:
        super().__init__(torch.int16)
        self.coarse = coarse
        self.qscheme = torch.per_tensor_affine
        self.quant_min, self.quant_max = DType.INT16.bounds

    def forward(self, x: Tensor) -> Tensor:
        """Gives the tensor back as it is: all that there is to see the other has seen."""
        return x

    def calculate_qparams(self, **arguments: Any) -> tuple[Tensor, Tensor]:
        """Gives the scale and the zero point."""
        scale, zero_point = self.coarse.calculate_qparams()
        return scale / STEPS, zero_point * STEPS


@dataclass(frozen=True)
class _State:
    """The calls of one state of a loop, and the one observer that stands behind each of them."""

    carried: Node
    total: Node
    last: Node
    observers: tuple[Node, ...]
    """Behind what is carried, the sum, and what the last step leaves."""


def widen_states(prepared: GraphModule, wishes: Wishes) -> None:
    """Gives 16 bits to states of loops that are sums of themselves and a smaller change; all else reads them in the 8 bits that it would read."""
    if Add.kind in wishes.fixed:
        return
    for last in prepared.graph.find_nodes(op="call_function", target=LAST):
        state = _state(prepared, last)
        if state is not None:
            _widen(prepared, state)
    prepared.recompile()


def _state(prepared: GraphModule, last: Node) -> _State | None:
    held, following = last.args[:2]
    shown = [user for user in last.users if user.op == "call_module"]
    if not isinstance(held, Node) or not isinstance(following, Node) or len(shown) != len(last.users):
        return None
    observers = (held, following, *shown)
    found = {_observer(prepared, node) for node in observers}
    observer: Any = found.pop()
    if found or not isinstance(observer, ObserverBase) or observer.dtype is not torch.int8:
        return None
    carried, total = held.args[0], following.args[0]
    is_sum = (
        isinstance(carried, Node)
        and isinstance(total, Node)
        and carried.target is CARRIED
        and total.target is aten.add.Tensor
        and not total.kwargs
        and _adds_less(prepared, total, held)
    )
    return _State(carried, total, last, observers) if is_sum else None  # type: ignore[arg-type]  # nodes


def _observer(prepared: GraphModule, node: Node) -> Any:
    """What stands behind a call, if something does: calls that share parameters share it under names of their own."""
    return prepared.get_submodule(str(node.target)) if node.op == "call_module" else None


def _adds_less(prepared: GraphModule, total: Node, held: Node) -> bool:
    """Whether a sum is that of a state and a change in finer steps."""
    if len(total.args) != 2 or held not in total.args or shape_of(total) != shape_of(held.all_input_nodes[0]):
        return False
    change: Any = total.args[1] if total.args[0] is held else total.args[0]
    observers: list[Any] = [
        _observer(prepared, node) if isinstance(node, Node) else None for node in (held, change)
    ]
    if not all(isinstance(one, ObserverBase) for one in observers):
        return False
    coarse, fine = (float(one.calculate_qparams()[0]) for one in observers)
    return coarse >= SMALLER * fine


def _widen(prepared: GraphModule, state: _State) -> None:
    coarse = str(state.observers[0].target)
    fine = f"{state.last.name}_fine_steps"
    prepared.add_submodule(fine, FinerSteps(prepared.get_submodule(coarse)))
    for node in state.observers:
        node.target = fine
        readers = [user for user in node.users if user not in (state.total, state.last)]
        if readers:
            narrow = _behind(prepared, node, coarse)
            for reader in readers:
                reader.replace_input_with(node, narrow)
    initial: Any = state.carried.args[0]
    begin = initial.args[0] if constant_of(initial.args[0]) is not None else initial
    with prepared.graph.inserting_before(state.carried):
        wide = prepared.graph.call_module(fine, (begin,))
    wide.meta.update(initial.meta)
    state.carried.args = (wide, *state.carried.args[1:])


def _behind(prepared: GraphModule, node: Node, observer: str) -> Node:
    with prepared.graph.inserting_after(node):
        made = prepared.graph.call_module(observer, (node,))
    made.meta.update(node.meta)
    return made
