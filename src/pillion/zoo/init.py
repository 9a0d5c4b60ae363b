# SPDX-License-Identifier: Apache-2.0
"""Weights for the zoo: random, but such that a net behaves like a trained one.

Activations keep a sensible range, batch norms hold the statistics of real activations, and the outputs depend on
the input. Draws use exact arithmetic and statistics are taken in double precision, so that the rounded
results do not depend on the number of threads or on the vector unit of the machine that computes them.
"""

from __future__ import annotations

import math
from enum import IntEnum

import torch
from torch import Tensor, nn

NORMS = (nn.BatchNorm1d, nn.BatchNorm2d)
OUTPUT_STD = 1.0  # of the outputs before softmax: classes differ clearly, and none takes all
UNIFORM_DRAWS = 12  # their sum has a variance of exactly one
UNIFORM_BITS = 20


class Stream(IntEnum):
    """What random numbers are for: each use has a stream of its own, and none can shift another's."""

    WEIGHTS = 0
    STATISTICS = 1
    EXAMPLE = 2
    INPUTS = 3


def generator(seed: int, stream: Stream) -> torch.Generator:
    return torch.Generator().manual_seed((len(Stream) * seed + stream) % 2**63)


def normal_like(shape: tuple[int, ...], source: torch.Generator) -> Tensor:
    """Nearly normal numbers, mean 0 and variance 1: a sum of uniform integers, on which all machines agree."""
    draws = torch.randint(2**UNIFORM_BITS, (UNIFORM_DRAWS, *shape), generator=source, dtype=torch.int64)
    total = draws.sum(0) - UNIFORM_DRAWS * 2**UNIFORM_BITS // 2
    return (total.to(torch.float64) / 2**UNIFORM_BITS).to(torch.float32)


def initialize(model: nn.Module, data: tuple[Tensor, Tensor], source: torch.Generator) -> None:
    """Draw all weights, set the batch norms up with the first batch of data, and the layer named head with the second.

    The second batch goes through the net as any later input does; the first one fits its own statistics too well.
    """
    with torch.no_grad():
        for layer in model.modules():
            _draw(layer, source)
        model.double()
        _take_statistics(model.train(), data[0].double())
        model.eval()
        head = getattr(model, "head", None)
        if isinstance(head, nn.Linear):
            _standardize(head, _input_of(head, model, data[1].double()))
        model.float()


def _draw(layer: nn.Module, source: torch.Generator) -> None:
    match layer:
        case nn.Conv2d() | nn.Linear():
            fan_in = layer.weight[0].numel()
            layer.weight.copy_(_symmetric(layer.weight, source) * math.sqrt(6 / fan_in))  # Kaiming, for relu
            if layer.bias is not None:
                layer.bias.copy_(_symmetric(layer.bias, source) / 8)
        case nn.BatchNorm1d() | nn.BatchNorm2d():
            layer.weight.copy_(1 + _symmetric(layer.weight, source) / 2)
            layer.bias.copy_(_symmetric(layer.bias, source) / 4)


def _symmetric(like: Tensor, source: torch.Generator) -> Tensor:
    """Uniform numbers between -1 and 1, exact in float32."""
    return torch.rand(like.shape, generator=source, dtype=torch.float32) * 2 - 1


def _take_statistics(model: nn.Module, batch: Tensor) -> None:
    norms = [layer for layer in model.modules() if isinstance(layer, NORMS)]
    usual = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = 1.0  # the running statistics become those of this one batch
    model(batch)
    for norm, momentum in zip(norms, usual):
        norm.momentum = momentum


def _input_of(layer: nn.Module, model: nn.Module, batch: Tensor) -> Tensor:
    seen: list[Tensor] = []
    with layer.register_forward_pre_hook(lambda _, args: seen.append(args[0])):
        model(batch)
    return seen[0]


def _standardize(head: nn.Linear, features: Tensor) -> None:
    """Without this, the mean of many random channels hides the input, and every picture gets the same class."""
    outputs = head(features)
    mean = outputs.mean(0)
    scale = OUTPUT_STD / (outputs - mean).std()
    head.weight.mul_(scale)
    head.bias.sub_(mean).mul_(scale)
