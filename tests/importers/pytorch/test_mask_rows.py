# SPDX-License-Identifier: Apache-2.0
"""Masks of attention by rows: masked in part, as a whole, by every depth, in every shape that broadcasts, answer as in PyTorch."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import pillion
from nightly import runs_all
from pillion.errors import PillionError
from pillion.importers.torch.quantize.ptq import ptq

pytestmark = [pytest.mark.torch, pytest.mark.slow]

HEADS, DEPTH = 2, 8
LOWEST = torch.finfo(torch.float32).min
TO_FLOAT = 0.04
"""Of the largest value: what int8 may be away from the float model (probabilities, values and products are all rounded)."""


class Attention(nn.Module):
    """The usual ways to write it."""

    def __init__(self, way: str, mask: Tensor, depth: float) -> None:
        super().__init__()
        self.way = way
        self.register_buffer("mask", mask)
        self.register_buffer("low", torch.zeros(mask.shape).masked_fill(mask, depth))
        self.depth = depth

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        scores = q @ k.mT
        match self.way:
            case "booleans":
                return F.scaled_dot_product_attention(q, k, v, ~self.mask)
            case "numbers":
                return F.scaled_dot_product_attention(q, k, v, self.low)
            case "filled, then scaled":
                scores = scores.masked_fill(self.mask, self.depth) / math.sqrt(DEPTH)
            case "added":
                scores = scores / math.sqrt(DEPTH) + self.low
            case "subtracted":
                scores = scores / math.sqrt(DEPTH) - (-self.low)
            case "two of them":
                scores = (scores / math.sqrt(DEPTH) + self.low) + 0.3 * torch.arange(k.shape[-2])
            case "in another shape":
                scores = (scores / math.sqrt(DEPTH) + self.low).reshape(-1, *scores.shape[-2:])
                return (scores.softmax(-1) @ v.reshape(-1, *v.shape[-2:])).reshape(*q.shape[:-1], v.shape[-1])
            case "transposed":
                scores = (scores / math.sqrt(DEPTH) + self.low).permute(0, 1, 3, 2)
                return scores.softmax(-2).permute(0, 1, 3, 2) @ v
        return scores.softmax(-1) @ v


WAYS = (
    "booleans",
    "numbers",
    "filled, then scaled",
    "added",
    "subtracted",
    "two of them",
    "in another shape",
    "transposed",
)


def samples(queries: int, keys: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    g = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(1, HEADS, n, DEPTH, generator=g) for n in (queries, keys, keys))  # type: ignore[return-value]  # three of them


@st.composite
def attentions(draw: st.DrawFn) -> tuple[Attention, tuple[Tensor, ...]]:
    queries, keys = draw(st.integers(2, 6)), draw(st.integers(2, 6))
    seed = draw(st.integers(0, 9))
    shape = draw(
        st.sampled_from(
            [(queries, keys), (1, keys), (HEADS, queries, keys), (1, 1, queries, keys), (HEADS, 1, keys)]
        )
    )
    mask = torch.rand(shape, generator=torch.Generator().manual_seed(seed)) < draw(
        st.sampled_from([0.2, 0.6, 0.9])
    )
    way = draw(st.sampled_from(WAYS))
    depth = draw(st.sampled_from([-math.inf, -1e4, -3e4, -1e9, LOWEST]))
    return Attention(way, mask, -math.inf if way == "booleans" else depth), samples(queries, keys, seed)


@settings(max_examples=20 if runs_all() else 6, deadline=None, derandomize=True)
@given(attentions())
def test_masked_rows_answer_as_in_pytorch(drawn: tuple[Attention, tuple[Tensor, ...]]) -> None:
    module, inputs = drawn
    with torch.no_grad():
        wanted = module(*inputs)
    if bool(wanted.isnan().any()):
        with pytest.raises(PillionError, match="nothing but minus infinity"):
            pillion.compile(module, inputs, target="cortex-m33")
    else:
        near(module, inputs, wanted)


def near(module: nn.Module, inputs: tuple[Tensor, ...], wanted: Tensor) -> None:
    """Near to the float model, and where that answers nothing but zeros, equal."""
    found = pillion.compile(module, inputs, target="cortex-m33").run(*inputs)[0]
    assert np.abs(found - wanted.numpy()).max() <= TO_FLOAT * float(wanted.abs().max()) + 1e-6
    assert not found[(wanted == 0).all(-1).numpy()].any()


WHOLE_ROWS = torch.tensor([[True] * 4, [True, False, True, False], [True] * 4])


@pytest.mark.turns(3)
@pytest.mark.parametrize(
    ("way", "depth", "answer"),
    [
        ("booleans", -math.inf, "zeros"),
        ("numbers", -math.inf, "zeros"),
        ("numbers", -1e9, "the mean"),
        ("numbers", LOWEST, "the mean"),
        ("numbers", -1e4, "unmasked"),
        ("filled, then scaled", -1e4, "the mean"),
        ("filled, then scaled", LOWEST, "the mean"),
        ("added", -1e9, "the mean"),
        ("two of them", -1e9, "the mean"),
        ("transposed", -1e4, "unmasked"),
    ],
)
def test_a_row_that_is_masked_as_a_whole(way: str, depth: float, answer: str) -> None:
    q, k, v = samples(3, 4, 1)
    wanted = Attention(way, WHOLE_ROWS, depth)(q, k, v)
    row = {"zeros": torch.zeros(DEPTH), "mean": v[0, 0].mean(0)}.get(answer.removeprefix("the "))
    unmasked = F.scaled_dot_product_attention(q, k, v)[0, 0, 0]
    assert torch.allclose(wanted[0, 0, 0], unmasked if row is None else row, atol=1e-2), (
        "PyTorch's own answer"
    )
    near(Attention(way, WHOLE_ROWS, depth), (q, k, v), wanted)


class Causal(nn.Module):
    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


@pytest.mark.parametrize(("queries", "keys"), [(2, 5), (5, 2), (4, 4), (1, 3), (3, 1)])
def test_causal_attention(queries: int, keys: int) -> None:
    inputs = samples(queries, keys, 3)
    near(Causal(), inputs, Causal()(*inputs))


@pytest.mark.parametrize("depth", [-1e6, -1e7, -1e8])
def test_scores_that_float32_rounds_beside_the_mask_are_refused(depth: float) -> None:
    with pytest.raises(PillionError, match="leaves some of the scores"):
        pillion.compile(Attention("numbers", WHOLE_ROWS, depth), samples(3, 4, 1), target="cortex-m33")


def test_masks_that_keep_a_key_in_each_row_add_no_ops() -> None:
    mask = torch.ones(4, 4).triu(1) == 1
    kinds = [
        [
            op.kind
            for op in pillion.compile(Attention(way, mask, depth), samples(4, 4, 0), target="imxrt700").graph
        ]
        for way, depth in (("added", -1e9), ("filled, then scaled", -1e9))
    ]
    assert kinds[0] == kinds[1]


def test_torchs_own_simulation_of_int8_is_steps_away() -> None:
    """Six: a step of a probability becomes several in a product with values of a wide range."""
    module, inputs = Attention("booleans", WHOLE_ROWS, -math.inf), samples(3, 4, 2)
    program = pillion.compile(module, inputs, target="cortex-m33", io_dtype="int8")
    scale = program.graph.outputs[0].scale
    simulated = next(iter(ptq(module, inputs)(*inputs))).numpy()  # type: ignore[call-overload]  # a tuple
    found = pillion.compile(module, inputs, target="cortex-m33").run(*inputs)[0]
    assert np.abs(found - simulated).max() <= 6 * scale
