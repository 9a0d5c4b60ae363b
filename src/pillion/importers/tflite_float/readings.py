# SPDX-License-Identifier: Apache-2.0
"""The result of a reader: a PyTorch function with its parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pillion.codecs.tflite.read_operator import ReadOperator
from pillion.schemas.tflite import Activation

Parts = dict[str, nn.Parameter]
Forward = Callable[..., Any]


@dataclass(frozen=True)
class FloatCall:
    """An operator in PyTorch: its function, operands, parameters, and states by name. The function takes the states after the operands and
    returns the new ones after the results."""

    call: ReadOperator
    forward: Forward
    operands: tuple[int, ...]
    parts: Mapping[str, nn.Parameter] = field(default_factory=dict)
    states: Mapping[str, Tensor] = field(default_factory=dict)


Reading = Callable[[ReadOperator], FloatCall]
"""Returns the function of an operator of one kind."""


def float_call(
    call: ReadOperator, forward: Forward, *, parts: Parts | None = None, operands: tuple[int, ...] = (0,)
) -> FloatCall:
    """Returns a call of a function on some operands of an operator."""
    return FloatCall(call, forward, operands, parts or {})


def nchw(x: Tensor) -> Tensor:
    """Returns an NHWC image as NCHW."""
    return x.permute(0, 3, 1, 2)


def nhwc(x: Tensor) -> Tensor:
    """Returns an NCHW image as NHWC."""
    return x.permute(0, 2, 3, 1)


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "NONE": lambda x: x,
    "RELU": F.relu,
    "RELU6": F.relu6,
    "RELU_N1_TO_1": lambda x: torch.clamp(x, -1.0, 1.0),
    "RELU_0_TO_1": lambda x: torch.clamp(x, 0.0, 1.0),
    "TANH": torch.tanh,
}
"""Fused and separate activations."""


def activation(call: ReadOperator, code: int) -> Callable[[Tensor], Tensor]:
    """Returns the fused activation of an operator."""
    name = Activation(code).name if code in Activation._value2member_map_ else f"number {code}"
    if name not in ACTIVATIONS:
        raise call.refuse(f"a fused activation is one of {', '.join(ACTIVATIONS)}", name)
    return ACTIVATIONS[name]
