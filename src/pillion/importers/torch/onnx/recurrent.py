# SPDX-License-Identifier: Apache-2.0
"""Converts recurrent layers of ONNX to PyTorch's: gates in PyTorch's order, separate biases for inputs and states."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pillion.importers.torch.onnx.reading import Operator, UnreadableOperator


@dataclass(frozen=True)
class Cell:
    """A kind of recurrent layer."""

    gates: tuple[int, ...]
    """The place of each of PyTorch's gates in ONNX's order."""
    activations: tuple[str, ...]


CELLS = {
    "LSTM": Cell((0, 2, 3, 1), ("Sigmoid", "Tanh", "Tanh")),
    "GRU": Cell((1, 0, 2), ("Sigmoid", "Tanh")),
    "RNN": Cell((0,), ("Tanh",)),
}
_LENGTHS, _FIRST, _FIRST_CELL, _PEEPHOLES = 4, 5, 6, 7
"""Places of optional operands."""


def recurrent_operands(op: Operator, x: Tensor) -> list[str | Tensor]:
    """Returns operands for `recurrent`: the sequence, first states, and each direction's weights in PyTorch's form."""
    _require_plain(op, x)
    cell, size = CELLS[op.kind], op.get("hidden_size")
    w, r, bias = (*op.constants, None)[1:4]
    if w is None or r is None or (op.has(3) and bias is None) or size is None:
        raise UnreadableOperator("its weights and hidden_size must be constant")
    directions, rows = w.shape[0], len(cell.gates) * size
    bias = torch.zeros(directions, 2 * rows) if bias is None else bias
    shapes = (tuple(w.shape[:2]), tuple(r.shape), tuple(bias.shape))
    if shapes != ((directions, rows), (directions, rows, size), (directions, 2 * rows)):
        raise UnreadableOperator(f"its weights and biases have the shapes {shapes}")
    own: list[str | Tensor] = [op.names[0]]
    own += [op.names[i] if op.has(i) else "" for i in (_FIRST, _FIRST_CELL)]
    for d in range(directions):
        for part in (w[d], r[d], bias[d, :rows], bias[d, rows:]):
            own.append(part.reshape(len(cell.gates), size, -1)[list(cell.gates)].reshape(part.shape))
    return own


def _require_plain(op: Operator, x: Tensor) -> None:
    """Raises for forms that PyTorch's layers do not have."""
    cell, direction = CELLS[op.kind], op.get("direction", "forward")
    count = 2 if direction == "bidirectional" else 1
    usual = list(cell.activations) * count
    op.require("activations", usual, *([["Relu"] * count] if op.kind == "RNN" else []))
    op.require("layout", 0)
    op.require("input_forget", 0)
    if op.kind == "GRU":
        op.require("linear_before_reset", 0, 1)
        if not op.get("linear_before_reset", 0):
            raise UnreadableOperator("linear_before_reset is 0: PyTorch's GRU has 1")
    for name in ("clip", "activation_alpha", "activation_beta"):
        if op.get(name):
            raise UnreadableOperator(f"it has {name}")
    if op.has(_PEEPHOLES):
        raise UnreadableOperator("it has peepholes")
    if op.has(_LENGTHS) and set(op.required_numbers(_LENGTHS, "lengths")) != {x.shape[0]}:
        raise UnreadableOperator("its sequences have lengths of their own")


def recurrent(
    op: Operator, x: Tensor, first: Tensor | None, cell: Tensor | None, *weights: Tensor
) -> tuple[Tensor, ...]:
    """Computes a recurrent layer: the states of all steps, and the last ones."""
    direction, size = op.get("direction", "forward"), op.get("hidden_size")
    both = direction == "bidirectional"
    steps, batch = x.shape[0], x.shape[1]
    zeros = x.new_zeros(1 + both, batch, size)
    h = zeros if first is None else first
    x = x.flip(0) if direction == "reverse" else x
    options = (list(weights), True, 1, 0.0, False, both, False)
    if op.kind == "LSTM":
        y, *last = torch.lstm(x, (h, zeros if cell is None else cell), *options)
    else:
        rectified = op.get("activations", ["Tanh"])[0] == "Relu"
        function = torch.gru if op.kind == "GRU" else torch.rnn_relu if rectified else torch.rnn_tanh
        y, *last = function(x, h, *options)
    y = y.flip(0) if direction == "reverse" else y
    return y.reshape(steps, batch, 1 + both, size).transpose(1, 2), *last
