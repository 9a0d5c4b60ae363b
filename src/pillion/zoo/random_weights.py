# SPDX-License-Identifier: Apache-2.0
"""Random weights for the zoo with which a net behaves like a trained one.

Activations keep a sensible range, batch norms have the statistics of real activations, and outputs depend on the input. Draws use
exact arithmetic and statistics double precision, so that the rounded results do not depend on threads or vector units."""

from __future__ import annotations

import hashlib
import math
from enum import Enum, auto

import torch
from torch import Tensor, nn

from pillion.host_io.torch_threads import one_thread

NORMS = (nn.BatchNorm1d, nn.BatchNorm2d)
OUTPUT_STD = 1.0  # of the outputs before softmax: classes differ clearly, and none takes all
UNIFORM_DRAWS = 12  # their sum has a variance of exactly one
UNIFORM_BITS = 20


class RandomStream(Enum):
    """The uses of random numbers, each with an independent stream."""

    WEIGHTS = auto()
    STATISTICS = auto()
    EXAMPLE = auto()
    INPUTS = auto()


def seeded_generator(seed: int, stream: RandomStream) -> torch.Generator:
    """Returns torch's CPU generator for a seed. It uses only 32 bits, so the seed is hashed."""
    digest = hashlib.blake2b(f"{seed} {stream.name}".encode(), digest_size=4).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest, "little"))


def normal_like(shape: tuple[int, ...], source: torch.Generator) -> Tensor:
    """Returns nearly normal numbers of mean 0 and variance 1, as sums of uniform integers, which are equal on
    all machines."""
    draws = torch.randint(2**UNIFORM_BITS, (UNIFORM_DRAWS, *shape), generator=source, dtype=torch.int64)
    total: Tensor = draws.sum(0) - UNIFORM_DRAWS * 2**UNIFORM_BITS // 2
    normal: Tensor = total.to(torch.float64) / 2**UNIFORM_BITS
    return normal.to(torch.float32)


def initialize_weights(model: nn.Module, batch_shape: tuple[int, ...], seed: int) -> None:
    """Draws all weights, and sets the batch norms with one batch of data and the layer named head with
    another. The second batch is independent, because the first fits its own statistics too well."""
    weights, data = (
        seeded_generator(seed, RandomStream.WEIGHTS),
        seeded_generator(seed, RandomStream.STATISTICS),
    )
    with torch.no_grad(), one_thread():
        for layer in model.modules():
            _draw_weights(layer, weights)
        model.double()
        _set_batch_norm_statistics(model.train(), normal_like(batch_shape, data).double())
        model.eval()
        head = getattr(model, "head", None)
        if isinstance(head, nn.Linear):
            _standardize_head(head, _input_of(head, model, normal_like(batch_shape, data).double()))
        model.float()


def _draw_weights(layer: nn.Module, source: torch.Generator) -> None:
    match layer:
        case nn.Conv2d() | nn.Linear():
            fan_in = layer.weight[0].numel()
            layer.weight.copy_(
                _uniform_symmetric(layer.weight, source) * math.sqrt(6 / fan_in)
            )  # Kaiming, for relu
            if layer.bias is not None:
                layer.bias.copy_(_uniform_symmetric(layer.bias, source) / 8)
        case nn.BatchNorm1d() | nn.BatchNorm2d():
            layer.weight.copy_(1 + _uniform_symmetric(layer.weight, source) / 2)
            layer.bias.copy_(_uniform_symmetric(layer.bias, source) / 4)


def _uniform_symmetric(like: Tensor, source: torch.Generator) -> Tensor:
    """Returns uniform numbers between -1 and 1, exact in float32."""
    uniform: Tensor = torch.rand(like.shape, generator=source, dtype=torch.float32)
    return uniform * 2 - 1


def _set_batch_norm_statistics(model: nn.Module, batch: Tensor) -> None:
    norms = [layer for layer in model.modules() if isinstance(layer, NORMS)]
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = 1.0  # the running statistics become this batch's
    model(batch)
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum


def _input_of(layer: nn.Module, model: nn.Module, batch: Tensor) -> Tensor:
    seen: list[Tensor] = []
    with layer.register_forward_pre_hook(lambda _, args: seen.append(args[0])):
        model(batch)
    return seen[0]


def _standardize_head(head: nn.Linear, features: Tensor) -> None:
    """Standardizes the outputs: otherwise the mean of many random channels hides the input, and every image
    gets the same class."""
    outputs = head(features)
    mean = outputs.mean(0)
    scale = OUTPUT_STD / (outputs - mean).std()
    head.weight.mul_(scale)
    head.bias.sub_(mean).mul_(scale)
