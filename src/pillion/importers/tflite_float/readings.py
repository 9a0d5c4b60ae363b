# SPDX-License-Identifier: Apache-2.0
"""The result of a reader: a PyTorch function with its parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pillion.codecs.tflite.read_operator import ReadOperator
from pillion.ir.types import Array, Value
from pillion.schemas.tflite import Activation

Parts = dict[str, nn.Parameter]
Forward = Callable[..., Any]


@dataclass(frozen=True)
class FloatCall:
    """An operator in PyTorch: its function, operands, parameters or inner module, states by name, and results. The
    function takes the states after the operands and returns the new ones after the results."""

    call: ReadOperator
    forward: Forward
    operands: tuple[int, ...]
    parts: Mapping[str, nn.Parameter | nn.Module] = field(default_factory=dict)
    states: Mapping[str, Tensor] = field(default_factory=dict)
    results: tuple[Value, ...] = ()


Reading = Callable[[ReadOperator], FloatCall]
"""Returns the function of an operator of one kind."""


def float_call(
    call: ReadOperator, forward: Forward, *, parts: Parts | None = None, operands: tuple[int, ...] = (0,)
) -> FloatCall:
    """Returns a call of a function on some operands of an operator."""
    return FloatCall(call, forward, operands, parts or {}, results=call.outputs)


def as_tensor(array: Array) -> Tensor:
    """Returns a constant as a tensor."""
    return torch.from_numpy(np.array(array))


def as_parameter(array: Array) -> nn.Parameter:
    """Returns an array as a parameter, copied."""
    return nn.Parameter(torch.from_numpy(np.array(array, np.float32)), requires_grad=False)


def to_nchw(x: Tensor) -> Tensor:
    """Returns an NHWC image as NCHW."""
    return x.permute(0, 3, 1, 2)


def to_nhwc(x: Tensor) -> Tensor:
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


def activation(call: ReadOperator) -> Callable[[Tensor], Tensor]:
    """Returns the fused activation of an operator."""
    code = getattr(call.options, "fused_activation", 0)
    name = Activation(code).name if code in Activation._value2member_map_ else f"number {code}"
    if name not in ACTIVATIONS:
        raise call.refuse(f"a fused activation is one of {', '.join(ACTIVATIONS)}", name)
    return ACTIVATIONS[name]


def without_activation(call: ReadOperator) -> ReadOperator:
    """Returns an operator without its fused activation."""
    options: Any = call.options
    is_fused = getattr(options, "fused_activation", 0)
    return replace(call, options=replace(options, fused_activation=0)) if is_fused else call
