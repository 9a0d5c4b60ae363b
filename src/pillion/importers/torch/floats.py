# SPDX-License-Identifier: Apache-2.0
"""The float model that a program was quantized from, kept so that its tensors can be compared with the program's."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from pillion.importers.torch.export import quiet
from pillion.importers.torch.inputs import as_in_model
from pillion.importers.torch.layout import Order
from pillion.importers.torch.loops import LoopingInterpreter
from pillion.importers.torch.nodes import value_of
from pillion.ir.types import Array, Shape


@dataclass(frozen=True)
class Origin:
    """The node of the float model that a value of the graph stands for, and the order in which its axes lie."""

    node: str
    order: Order


LARGEST_COPY = 64 << 20
"""The most bytes of weights that are kept a second time, in float: no microcontroller has more in flash."""


def copied(module: GraphModule) -> GraphModule | None:
    """Gives a module of its own: quantization changes the nodes of the other, and its author may train on. None if it is too large."""
    if sum(p.numel() * p.element_size() for p in (*module.parameters(), *module.buffers())) > LARGEST_COPY:
        return None
    with quiet():
        return copy.deepcopy(module)


@dataclass(frozen=True, eq=False)
class FloatNet:
    """A float model with the place of each of its tensors in the graph."""

    module: GraphModule
    origins: Mapping[str, Origin]

    @property
    def input_shapes(self) -> tuple[Shape, ...]:
        """The shapes of the model's inputs, as its author wrote them."""
        held = [value_of(node) for node in self.module.graph.find_nodes(op="placeholder")]
        return tuple(tuple(int(d) for d in tensor.shape) for tensor in held if tensor is not None)

    def __call__(self, inputs: Sequence[Array]) -> dict[str, Array]:
        """Computes the model in float: the tensors by the names that they were imported by, as they lie in a graph's memory."""
        recorder = _Recorder(self.module, frozenset(origin.node for origin in self.origins.values()))
        with torch.no_grad():
            recorder.run(*as_in_model(self.module.graph, map(torch.from_numpy, inputs)))
        return {
            name: recorder.seen[origin.node].transpose(origin.order)
            for name, origin in self.origins.items()
            if origin.node in recorder.seen and recorder.seen[origin.node].ndim == len(origin.order)
        }


class _Recorder(LoopingInterpreter):
    """Runs a module, and keeps the tensors of some of its nodes."""

    def __init__(self, module: GraphModule, wanted: frozenset[str]) -> None:
        super().__init__(module)
        self.wanted = wanted
        self.seen: dict[str, Any] = {}

    def run_node(self, n: Node) -> Any:
        result = super().run_node(n)
        if n.name in self.wanted and isinstance(result, Tensor):
            self.seen[n.name] = result.detach().cpu().numpy()
        return result
