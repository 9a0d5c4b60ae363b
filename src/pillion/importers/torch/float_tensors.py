# SPDX-License-Identifier: Apache-2.0
"""Runs a float model tensor by tensor, under the program's tensor names, and recomputes outputs after one tensor
is changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from pillion.importers.torch.float_model import TorchModel
from pillion.importers.torch.loop_nodes import LoopInterpreter, LoopNodes, compute_node, in_execution_order
from pillion.importers.torch.rewrite.pipeline import rewrite_for_quantization
from pillion.ir.constraints import QuantizationConstraints
from pillion.ir.graph import c_identifier
from pillion.ir.types import Array

Values = dict[Node, Any]
"""Result of every node for one sample."""


class FloatTensors:
    """The float model's graph after the quantizer's rewrites: batch norms folded, operators in canonical form."""

    def __init__(self, model: TorchModel, constraints: QuantizationConstraints | None = None) -> None:
        self.module: GraphModule = rewrite_for_quantization(model.module(), constraints)
        self._items = list(in_execution_order(self.module.graph))
        item_nodes = [item.ends if isinstance(item, LoopNodes) else [item] for item in self._items]
        self._places = {node: index for index, nodes in enumerate(item_nodes) for node in nodes}
        self._last = self.module.graph.output_node()
        self._named = {
            c_identifier(node.name): node
            for node in self._places
            if node.op in ("placeholder", "call_function")
        }

    def run(self, inputs: Sequence[Array]) -> Values:
        """Computes all tensors of one sample."""
        interpreter = LoopInterpreter(self.module)
        with torch.no_grad():
            interpreter.run(*(torch.from_numpy(np.ascontiguousarray(x)) for x in inputs))
        return {node: value for node, value in interpreter.env.items() if node in self._places}

    def tensor(self, values: Values, name: str) -> Array | None:
        """Returns a tensor by name; None if the model has no such tensor."""
        value = values.get(self._named[name]) if name in self._named else None
        return value.detach().cpu().numpy() if isinstance(value, Tensor) else None

    def outputs(self, values: Values) -> list[Array]:
        """Returns the outputs as arrays."""
        return [y.detach().cpu().numpy() for y in _flatten_tensors(values[self._last])]

    def outputs_with(self, values: Values, name: str, instead: Array) -> list[Array]:
        """Recomputes the outputs after replacing one tensor."""
        changed = self._recompute_dependents(values, {name: instead}, self._last)
        return [
            y.detach().cpu().numpy() for y in _flatten_tensors(changed.get(self._last, values[self._last]))
        ]

    def tensor_with(self, values: Values, instead: Mapping[str, Array], name: str) -> Array:
        """Recomputes a tensor after replacing tensors upstream of it."""
        target = self._named[name]
        tensor: Tensor = {**values, **self._recompute_dependents(values, instead, target)}[target]
        return tensor.detach().cpu().numpy()

    def _recompute_dependents(self, values: Values, instead: Mapping[str, Array], last: Node) -> Values:
        """Recomputes all nodes up to `last` that depend on the replaced tensors."""
        changed: Values = {
            self._named[name]: torch.from_numpy(np.ascontiguousarray(array, np.float32))
            for name, array in instead.items()
        }
        first = min((self._places[node] for node in changed), default=self._places[last])
        with torch.no_grad():
            for item in self._items[first + 1 : self._places[last] + 1]:
                if isinstance(item, LoopNodes):
                    if any(source in changed for source in item.reads):
                        again = LoopInterpreter(self.module).steps(item, {**values, **changed})
                        changed.update((node, value) for node, value in again.items() if node not in changed)
                elif item not in changed and any(source in changed for source in item.all_input_nodes):
                    changed[item] = compute_node(
                        self.module, item, lambda n: changed[n] if n in changed else values[n]
                    )
        return changed


def _flatten_tensors(value: Any) -> list[Tensor]:
    parts = (
        value.values() if isinstance(value, dict) else value if isinstance(value, (tuple, list)) else (value,)
    )
    return [part for part in parts if isinstance(part, Tensor)]
