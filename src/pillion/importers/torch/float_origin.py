# SPDX-License-Identifier: Apache-2.0
"""Keeps the float model that a program was quantized from, so that tensors can be compared."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from pillion.importers.torch.export import quiet_torch
from pillion.importers.torch.fx_nodes import fake_result
from pillion.importers.torch.input_types import cast_to_model
from pillion.importers.torch.layout import Order
from pillion.importers.torch.loop_nodes import LoopInterpreter
from pillion.ir.types import Array, Shape


@dataclass(frozen=True)
class Origin:
    """The float model's node for a value of the graph, and the layout of that value."""

    node: str
    order: Order


LARGEST_COPY = 64 << 20
"""Maximum bytes of float weights that are kept a second time; no microcontroller has more flash."""


def copy_module(module: GraphModule) -> GraphModule | None:
    """Returns a deep copy of a module, because quantization modifies the original; None if it exceeds
    LARGEST_COPY."""
    if sum(p.numel() * p.element_size() for p in (*module.parameters(), *module.buffers())) > LARGEST_COPY:
        return None
    with quiet_torch():
        return copy.deepcopy(module)


@dataclass(frozen=True, eq=False)
class FloatNet:
    """A float model, and the graph value of each of its tensors."""

    module: GraphModule
    origins: Mapping[str, Origin]

    @property
    def input_shapes(self) -> tuple[Shape, ...]:
        """Logical shapes of the model's inputs."""
        tensors = [fake_result(node) for node in self.module.graph.find_nodes(op="placeholder")]
        return tuple(tuple(int(d) for d in tensor.shape) for tensor in tensors if tensor is not None)

    def __call__(self, inputs: Sequence[Array]) -> dict[str, Array]:
        """Runs the model in float and returns its tensors by the graph's value names, in the graph's layout."""
        wanted, seen = {origin.node for origin in self.origins.values()}, dict[str, Array]()

        def record(node: Node, result: Any) -> None:
            if node.name in wanted and isinstance(result, Tensor):
                seen[node.name] = result.detach().cpu().numpy()

        with torch.no_grad():
            own = cast_to_model(self.module.graph, map(torch.from_numpy, inputs))
            LoopInterpreter(self.module, record).run(*own)
        return {
            name: seen[origin.node].transpose(origin.order)
            for name, origin in self.origins.items()
            if origin.node in seen and seen[origin.node].ndim == len(origin.order)
        }
