# SPDX-License-Identifier: Apache-2.0
"""Reads recurrent layers as PyTorch functions with states."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from pillion.codecs.tflite.read_operator import ReadOperator
from pillion.importers.tflite.recurrent import (
    BIASES,
    CELL_STATE,
    INPUT_WEIGHTS,
    OUTPUT_STATE,
    RECURRENT_WEIGHTS,
    require_plain,
)
from pillion.importers.tflite_float.readings import FloatCall, Parts, Reading, as_parameter
from pillion.ir.types import Array, DType

GATES = range(4)
"""The gates of an LSTM: input, forget, candidate and output, as in PyTorch."""


def lstm(call: ReadOperator) -> FloatCall:
    """Reads an LSTM along time; like LiteRT, it continues from the previous run."""
    options = require_plain(call)
    if options.cell_clip:
        raise call.refuse(
            "the cell of an LSTM in float is not clipped",
            f"cell_clip {options.cell_clip}",
            "convert with full integer quantization, or without cell_clip",
        )
    x, h, c = call.operand(0), call.operand(OUTPUT_STATE), call.operand(CELL_STATE)
    if (
        (x.dtype, h.dtype, c.dtype) != (DType.FLOAT32,) * 3
        or h.is_constant
        or c.is_constant
        or h.shape != c.shape
        or (x.type.rank, h.type.rank) != (3, 2)
    ):
        raise call.refuse("input and states are float32, and states are no constants", f"{x!r}, {h!r}, {c!r}")
    cells = h.shape[1]
    parts: Parts = {
        "input_weights": as_parameter(_concatenate_gates(call, INPUT_WEIGHTS, (cells, x.shape[2]))),
        "recurrent_weights": as_parameter(_concatenate_gates(call, RECURRENT_WEIGHTS, (cells, cells))),
        "bias": as_parameter(_concatenate_gates(call, BIASES, (cells,))),
    }
    nothing = torch.zeros(len(GATES) * cells)

    def forward(x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, ...]:
        weights = [*parts.values(), nothing]
        y, last_h, last_c = torch.lstm(
            x, (h[None], c[None]), weights, True, 1, 0.0, False, False, not options.time_major
        )
        return y, last_h[0], last_c[0]

    states = {"h": torch.zeros(h.shape), "c": torch.zeros(c.shape)}
    results = (call.result_of_shape((*x.shape[:2], cells)),)
    return FloatCall(call, forward, (0,), parts, states, results)


def _concatenate_gates(call: ReadOperator, first: int, shape: tuple[int, ...]) -> Array:
    """Returns the constants of all gates, concatenated."""
    gates = [call.constant(first + gate) for gate in GATES]
    for value in gates:
        if value.shape != shape:
            raise call.refuse(f"each gate has constants of the shape {list(shape)}", repr(value))
    return np.concatenate([value.constant for value in gates])


ROWS: dict[str, Reading] = {"UNIDIRECTIONAL_SEQUENCE_LSTM": lstm}
"""The readers of this file, by operator name."""
