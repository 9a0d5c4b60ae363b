# SPDX-License-Identifier: Apache-2.0
"""Converts buffers that forward writes to into states of the graph. During capture and quantization they are
inputs and outputs."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.export import ExportedProgram
from torch.func import functional_call
from torch.utils import _pytree

from pillion.errors import PillionError
from pillion.importers.torch.export import in_mode
from pillion.importers.torch.layout import NHWC
from pillion.ir.graph import Graph, UniqueNames, c_identifier, clean_name
from pillion.ir.state import State
from pillion.ir.types import Array


class StatefulModule(nn.Module):
    """A module whose written buffers are its last inputs and outputs. It carries their values from one call of
    `observed` to the next."""

    def __init__(self, module: nn.Module, names: Sequence[str], inputs: int) -> None:
        super().__init__()
        self.module, self.names, self.count = module, tuple(names), inputs
        buffers = dict(module.named_buffers())
        self.first = tuple(buffers[name].detach().clone() for name in names)
        self.now: tuple[Tensor, ...] | None = None
        self.steps, self.squares = 0, [0.0] * len(self.names)
        self.exported: ExportedProgram | None = None
        """The captured module, if it was captured already."""
        self.forward = self._with_names()

    def _with_names(self) -> Callable[..., tuple[Tensor, ...]]:
        """Returns the function to capture; its signature names the inputs as the module does, and the states as the
        buffers."""
        fresh = UniqueNames()
        names = (*_forward_argument_names(self.module, self.count), *self.names)
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        parameters = [inspect.Parameter(fresh.fresh(c_identifier(name)), kind) for name in names]

        def forward(*given: Tensor) -> tuple[Tensor, ...]:
            inputs, states = given[: self.count], given[self.count :]
            own = {name: state.clone() for name, state in zip(self.names, states, strict=True)}
            outputs = _pytree.tree_leaves(functional_call(self.module, own, inputs))
            return (*outputs, *own.values())

        forward.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # inspect looks for it
        return forward

    def observed(self, sample: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Appends the current states to a sample and advances them. The first sample gets the initial states and
        advances nothing."""
        if self.now is None:
            self.now = self.first
            return (*sample, *self.first)
        with torch.no_grad(), in_mode(self):
            inputs = (*sample, *self.now)
            self.now = tuple(self(*inputs)[-len(self.names) :])
        self.steps += 1
        for at, (before, after) in enumerate(zip(inputs[-len(self.names) :], self.now, strict=True)):
            self.squares[at] += float((after - before).square().mean())
        return inputs

    @property
    def changes(self) -> list[float]:
        """Root mean square change of each state from one run to the next, over the calibration data."""
        return [math.sqrt(total / max(self.steps, 1)) for total in self.squares]

    def with_states(self, graph: Graph, nhwc: bool) -> Graph:
        """Returns the graph with the trailing inputs and outputs turned into states."""
        count = len(self.names)
        states = tuple(
            State(clean_name(name), before, after, _array_in_layout(first, nhwc))
            for name, first, before, after in zip(
                self.names, self.first, graph.inputs[-count:], graph.outputs[-count:], strict=True
            )
        )
        return graph.replace(inputs=graph.inputs[:-count], outputs=graph.outputs[:-count], states=states)


def _forward_argument_names(module: nn.Module, count: int) -> list[str]:
    """Returns the argument names of forward; positional names (`x0`) for variable arguments."""
    parameters = list(inspect.signature(module.forward).parameters.values())[:count]
    named = [p.name for p in parameters if p.kind is not inspect.Parameter.VAR_POSITIONAL]
    return [*named, *(f"x{i}" for i in range(len(named), count))]


def _array_in_layout(tensor: Tensor, nhwc: bool) -> Array:
    array: Array = tensor.cpu().numpy()
    return np.ascontiguousarray(array.transpose(NHWC)) if nhwc and array.ndim == len(NHWC) else array


def as_stateful(module: Any, inputs: Sequence[Tensor]) -> StatefulModule | None:
    """Returns a module with its written buffers as inputs and outputs; None if forward writes to none, or fails."""
    if not isinstance(module, nn.Module) or not any(True for _ in module.buffers()):
        return None
    first = {name: buffer.detach().clone() for name, buffer in module.named_buffers()}
    versions = {name: buffer._version for name, buffer in first.items()}
    buffers = dict(
        first
    )  # where forward puts another tensor in the place of a buffer, so does functional_call here
    try:
        with torch.no_grad(), in_mode(module):
            functional_call(module, buffers, tuple(x.clone() for x in inputs))
    except Exception:  # whatever it is, it is reported where the model is captured
        return None
    written = [n for n, buffer in buffers.items() if buffer is not first[n] or buffer._version != versions[n]]
    _require_floats(module, {name: buffers[name] for name in written}, first)
    return StatefulModule(module, written, len(inputs)) if written else None


def _require_floats(module: nn.Module, written: Mapping[str, Tensor], first: Mapping[str, Tensor]) -> None:
    others = [
        f"{name}: {buffer.dtype}{list(buffer.shape)}, at first {list(first[name].shape)}"
        for name, buffer in written.items()
        if buffer.dtype != torch.float32 or buffer.shape != first[name].shape
    ]
    if others:
        raise PillionError(
            f"{type(module).__name__} remembers what cannot be a state of a program",
            rule="buffers that forward writes to are float32, and keep their shape",
            here=", ".join(others),
            help="self.register_buffer(name, torch.zeros(...)) of the shape that forward writes",
        )
