# SPDX-License-Identifier: Apache-2.0
"""PyTorch as a judge: every quantized tensor of its converted or trained model against ours, each op fed with our integers."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import permutations
from typing import Any

import numpy as np
import torch
from torch.fx import GraphModule, Interpreter, Node

from pillion.importers.torch.quantize.quantized_program import QUANTIZE
from pillion.importers.torch.train.batch_norm_calls import batch_norm, undo_weight_scaling
from pillion.importers.torch.train.qat_module import QatModule
from pillion.ir.graph import Graph
from pillion.ir.types import Array

CHANNELS_FIRST = (0, 3, 1, 2)


@dataclass
class Comparison:
    """Largest difference in steps of the result and share of differing elements, per tensor."""

    largest: dict[str, int] = field(default_factory=dict)
    share: dict[str, float] = field(default_factory=dict)


class _Forced(Interpreter):
    """Runs torch's graph; after each quantize the integers are compared and then replaced by ours."""

    def __init__(self, module: GraphModule, ours: dict[str, Array]) -> None:
        super().__init__(module)
        self.ours = ours
        self.comparison = Comparison()

    def run_node(self, n: Node) -> Any:
        theirs = super().run_node(n)
        if n.target not in QUANTIZE:
            return theirs
        mine = self.ours.get(f"{n.args[0].name}_i{8 * theirs.element_size()}")  # type: ignore[union-attr]  # quantize reads a node
        if mine is None:
            return theirs
        mine = in_logical_order(mine, tuple(theirs.shape))
        difference = np.abs(mine.astype(int) - theirs.numpy().astype(int))
        self.comparison.largest[n.name] = int(difference.max())
        self.comparison.share[n.name] = float((difference > 0).mean())
        return torch.from_numpy(np.array(mine))


def in_logical_order(array: Array, shape: tuple[int, ...]) -> Array:
    """An array whose axes lie in some other order, as torch sees it: tests use sizes that tell axes apart."""
    if array.ndim != len(shape):
        return in_logical_order(array.squeeze(), tuple(d for d in shape if d != 1)).reshape(shape)
    orders = [
        order for order in permutations(range(array.ndim)) if tuple(array.shape[a] for a in order) == shape
    ]
    images = [order for order in orders if order in (CHANNELS_FIRST, tuple(range(array.ndim)))]
    return np.ascontiguousarray(array.transpose((images or orders)[-1]))


def compare(module: GraphModule, graph: Graph, *inputs: torch.Tensor) -> Comparison:
    """Every quantized tensor, torch against the reference, op by op."""
    values = graph.reference_values(*(x.numpy() for x in inputs))
    forced = _Forced(module, {v.name: array for v, array in values.items()})
    with torch.no_grad():
        forced.run(*inputs)
    return forced.comparison


class _ForcedTraining(Interpreter):
    """The same with a module that was prepared for training, in eval mode: fake quantization instead of quantize."""

    def __init__(self, trained: QatModule, ours: dict[str, Array]) -> None:
        super().__init__(trained.rounding)
        self.submodules = dict(trained.rounding.named_modules())  # an Interpreter has some of its own
        self.ours = ours
        self.comparison = Comparison()

    def run_node(self, n: Node) -> Any:
        theirs = super().run_node(n)
        rounding = self.submodules.get(str(n.target)) if n.op == "call_module" else None
        if rounding is None:
            return theirs
        bits = torch.iinfo(rounding.dtype).bits
        mine = self.ours.get(f"{_name_on_the_device(n.args[0])}_i{bits}")  # type: ignore[arg-type]  # a node
        if mine is None:
            return theirs
        mine = in_logical_order(mine, tuple(theirs.shape)).astype(int)
        scale, zero_point = float(rounding.scale), int(rounding.zero_point)
        difference = np.abs(mine - np.round(theirs.numpy().astype(np.float64) / scale) - zero_point)
        self.comparison.largest[n.name] = int(difference.max())
        self.comparison.share[n.name] = float((difference > 0).mean())
        return torch.from_numpy((mine - zero_point).astype(np.float32) * np.float32(scale))


def _name_on_the_device(node: Node) -> str:
    """A batch norm that is folded has the name of its layer."""
    source: Any = node.args[0] if node.target is batch_norm else None
    return source.args[0].name if source is not None and source.target is undo_weight_scaling else node.name


def compare_trained(trained: QatModule, graph: Graph, *inputs: torch.Tensor) -> Comparison:
    """Every activation that a trained module rounds in eval mode, against the reference, op by op."""
    values = graph.reference_values(*(x.numpy() for x in inputs))
    forced = _ForcedTraining(trained, {v.name: array for v, array in values.items()})
    with torch.no_grad():
        forced.run(*inputs)
    return forced.comparison
