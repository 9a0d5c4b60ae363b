# SPDX-License-Identifier: Apache-2.0
"""How the tests train: a few steps, with a loss that moves every parameter."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from quantized_graphs import random_inputs
from torch import Tensor, nn
from torch.utils import _pytree as pytree
from torchao.quantization.pt2e import FakeQuantize

from pillion import passes
from pillion.importers.torch.quantize.quantized_program import QuantizedProgram
from pillion.importers.torch.to_graph import import_program
from pillion.importers.torch.train.qat import finish_training
from pillion.importers.torch.train.qat_module import QatModule
from pillion.ir.graph import Graph
from pillion.passes.convert_to_integer import float_ops


def batches(
    inputs: Sequence[Tensor], count: int, size: int | None = None, seed: int = 1
) -> list[tuple[Tensor, ...]]:
    """Random inputs of the same shapes, or with another batch size."""
    shapes = [tuple(x.shape) if size is None else (size, *x.shape[1:]) for x in inputs]
    return [random_inputs(*shapes, seed=seed + i) for i in range(count)]


def train(module: nn.Module, data: Sequence[tuple[Tensor, ...]], rate: float = 0.02) -> list[float]:
    """Pulls every result towards numbers of its own; the losses."""
    parameters = [p for p in module.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(parameters, lr=rate) if parameters else None
    module.train()
    losses = []
    for batch in data:
        loss = sum(((y - _wanted(y)) ** 2).mean() for y in pytree.tree_leaves(module(*batch)))
        if optimizer is not None and loss.requires_grad:
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
        losses.append(float(loss.detach()))
    return losses


def _wanted(y: Tensor) -> Tensor:
    return torch.sin(torch.arange(y.numel(), dtype=torch.float32)).reshape(y.shape) + 0.5


def compiled(trained: QatModule, inputs: Sequence[Tensor]) -> tuple[QuantizedProgram, Graph]:
    """torch's graph of integers, and ours."""
    program = finish_training(trained, inputs)
    graph = passes.run(import_program(program.graph_module, "net"))
    assert not float_ops(graph)
    return program, graph


def without_rounding(trained: QatModule) -> QatModule:
    """The same module with its fake quantization off."""
    for part in trained.modules():
        if isinstance(part, FakeQuantize):
            part.disable_fake_quant()
    return trained
