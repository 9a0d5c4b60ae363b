# SPDX-License-Identifier: Apache-2.0
"""Decomposes recurrent layers into loops over one step, and cells into one such step.

Gates with the same function share one linear layer; others have their own, with their own ranges. A gated state
is computed as state plus change, so that only the change is rounded and an open gate keeps the state exactly:
an int8 sigmoid ends at 255/256, but its complement reaches 0."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from pillion.importers.torch.fx_nodes import aten, call, calls, is_constant, shape_of
from pillion.importers.torch.loop_nodes import CARRIED, ELEMENT, LAST, STACKED, new_loop

State = list[Tensor]
Weights = Sequence[Tensor]
"""Input weights, hidden weights, both biases if any, and the projection if any."""
Step = Callable[[Tensor, State, Weights], State]
"""Returns the next state from an element and the state; its first tensor is the result."""


def _gate_sums(x: Tensor, h: Tensor, weights: Weights, first: int, count: int) -> Tensor:
    """Adds rows of the linear layers on input and hidden state; biases are added to the input's."""
    from_x, from_h = (w.narrow(0, first, count) for w in weights[:2])
    biases = [b.narrow(0, first, count) for b in weights[2:]]
    bias = biases[0] + biases[1] if biases else None
    return aten.linear.default(x, from_x, bias) + aten.linear.default(h, from_h)


def _gate_rows(weights: Tensor, gate: int, hidden: int) -> Tensor:
    return weights.narrow(0, gate * hidden, hidden)


def _split_gates(x: Tensor, count: int) -> list[Tensor]:
    size = x.shape[-1] // count
    return [aten.slice.Tensor(x, -1, i * size, (i + 1) * size) for i in range(count)]


def _lstm_step(x: Tensor, state: State, weights: Weights) -> State:
    h, c = state
    hidden = c.shape[-1]
    projection = weights[-1] if len(weights) % 2 else None
    weights = weights[: len(weights) // 2 * 2]
    gates = [
        torch.cat([_gate_rows(w, 0, hidden), -_gate_rows(w, 1, hidden), _gate_rows(w, 3, hidden)])
        for w in weights
    ]
    read, lost, shown = _split_gates(torch.sigmoid(_gate_sums(x, h, gates, 0, 3 * hidden)), 3)
    new = torch.tanh(_gate_sums(x, h, weights, 2 * hidden, hidden))
    c = c + (read * new - lost * c)
    h = shown * torch.tanh(c)
    return [h if projection is None else aten.linear.default(h, projection), c]


def _gru_step(x: Tensor, state: State, weights: Weights) -> State:
    (h,) = state
    hidden = h.shape[-1]
    gates = [torch.cat([_gate_rows(w, 0, hidden), -_gate_rows(w, 1, hidden)]) for w in weights]
    reset, change = _split_gates(torch.sigmoid(_gate_sums(x, h, gates, 0, 2 * hidden)), 2)
    rows = [_gate_rows(w, 2, hidden) for w in weights]
    of_x = aten.linear.default(x, rows[0], *rows[2:3])
    of_h = aten.linear.default(h, rows[1], *rows[3:4])
    new = torch.tanh(of_x + reset * of_h)
    return [h + change * (new - h)]


def _rnn_step(function: Callable[[Tensor], Tensor]) -> Step:
    def step(x: Tensor, state: State, weights: Weights) -> State:
        (h,) = state
        return [function(_gate_sums(x, h, weights, 0, h.shape[-1]))]

    return step


def _run_layer_direction(
    step: Step, x: Tensor, count: int, initial: State, weights: Weights, reverse: bool
) -> tuple[Tensor, State]:
    """Runs one layer in one direction over a sequence [steps, samples, …], or over one element repeated `count`
    times. Returns all results and the last state."""
    loop = new_loop()
    x_t = ELEMENT(x, loop, reverse) if x.shape[0] == count else x.select(0, 0)
    state = [CARRIED(start, x, loop, index) for index, start in enumerate(initial)]
    following = step(x_t, state, weights)
    y = STACKED(following[0], loop, count, reverse)
    pairs = zip(state, following, strict=True)
    return y, [LAST(old, new, loop, index, count) for index, (old, new) in enumerate(pairs)]


def _apply_recurrent_layers(
    step: Step,
    x: Tensor,
    hx: State | Tensor,
    params: Weights,
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
    steps: int = 0,
) -> tuple[Tensor, ...]:
    """Applies all layers of a module, with the operator's arguments. With `steps`, the input is one element that
    repeats."""
    directions = 2 if bidirectional else 1
    each = len(params) // (num_layers * directions)
    lasts: list[State] = []
    x = x.transpose(0, 1) if batch_first else x
    count = steps or x.shape[0]
    for layer in range(num_layers):
        ys = []
        for direction in range(directions):
            number = layer * directions + direction
            state = [tensor.select(0, number) for tensor in _as_state_list(hx)]
            weights = params[number * each : (number + 1) * each]
            y, last = _run_layer_direction(step, x, count, state, weights, direction == 1)
            ys.append(y)
            lasts.append(last)
        x = torch.cat(ys, -1) if directions > 1 else ys[0]
        if train and dropout and layer < num_layers - 1:
            x = torch.dropout(x, dropout, True)
    y = x.transpose(0, 1) if batch_first else x
    return y, *(torch.stack(column) for column in zip(*lasts, strict=True))


def _as_state_list(hx: State | Tensor) -> State:
    """Returns the states of an LSTM, or the state of another cell."""
    return [hx] if isinstance(hx, Tensor) else hx


def _cell_decomposition(step: Step) -> Callable[..., Any]:
    def decomposed(x: Tensor, hx: State | Tensor, *weights: Tensor | None) -> Any:
        new = step(x, _as_state_list(hx), [w for w in weights if w is not None])
        return new[0] if isinstance(hx, Tensor) else tuple(new)

    return decomposed


_STEPS = {
    "lstm": _lstm_step,
    "gru": _gru_step,
    "rnn_tanh": _rnn_step(torch.tanh),
    "rnn_relu": _rnn_step(torch.relu),
}
LAYERS: dict[Any, Callable[..., Any]] = {
    getattr(aten, name).input: partial(_apply_recurrent_layers, step) for name, step in _STEPS.items()
}
CELLS: dict[Any, Callable[..., Any]] = {
    getattr(aten, f"{name}_cell").default: _cell_decomposition(step) for name, step in _STEPS.items()
}


def reads_inputs(node: Node) -> bool:
    """Whether a layer's sequence depends on inputs; otherwise it is folded."""
    return not is_constant(node.args[0])


def shrink_operands(module: GraphModule) -> None:
    """Shrinks zero initial states to one sample, and sequences of equal elements to one element."""
    for node in calls(module.graph, LAYERS):
        if reads_inputs(node):
            _use_single_element(node)
            node.update_arg(1, map_arg(node.args[1], _shrink_to_one_sample))


def _use_single_element(layer: Node) -> None:
    """Replaces a sequence that repeats an element by that element."""
    x: Any = layer.args[0]
    axis = 1 if layer.args[-1] else 0
    if x.target not in (aten.expand.default, aten.repeat.default):
        return
    shape, element = shape_of(x), shape_of(x.args[0])
    if shape[axis] > 1 and element == (*shape[:axis], 1, *shape[axis + 1 :]):
        layer.args = (x.args[0], *layer.args[1:])
        layer.kwargs = {"steps": shape[axis]}  # for the forms above, which alone compute it


def _shrink_to_one_sample(state: Node) -> Node:
    if state.target is not aten.zeros.default:
        return state
    layers, _, size = shape_of(state)
    return call(state, aten.zeros.default, [layers, 1, size], **state.kwargs)
