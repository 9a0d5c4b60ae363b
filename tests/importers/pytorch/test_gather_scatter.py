# SPDX-License-Identifier: Apache-2.0
"""What is taken from, put at and added to places that are computed, read through strides and warps, and chosen by `torch.cond`: what only
moves is moved exactly, and C answers what the reference says."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import pillion
from nightly import part_of
from pillion.errors import PillionError
from pillion.ir.types import Array
from plain_int8 import arrays_of, decibels, plain_answers

pytestmark = [pytest.mark.torch]
ON = ("reference", "host") if shutil.which("cc") else ("reference",)
aten = torch.ops.aten


class Call(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(*inputs)


def levels(*shape: int, seed: int = 0) -> Tensor:
    """Numbers of which each is a level of the scale that calibration finds, so that what only moves is exact."""
    drawn = torch.randint(-128, 128, shape, generator=torch.Generator().manual_seed(seed)).float() / 16
    drawn.view(-1)[0], drawn.view(-1)[-1] = -8.0, 127 / 16
    return drawn


def places(*numbers: int) -> Tensor:
    return torch.tensor(numbers)


def answers(function: Callable[..., Any], *inputs: Tensor) -> tuple[Array, ...]:
    """What the reference answers; C answers the same."""
    program = pillion.compile(Call(function), inputs, target="cortex-m55")
    wanted = program.run(*inputs)
    for on in ON[1:]:
        found = program.run(*inputs, on=on)
        assert all(np.array_equal(a, b) for a, b in zip(wanted, found, strict=True)), on
    return tuple(wanted)


def check_exact(function: Callable[..., Any], *inputs: Tensor) -> None:
    found, wanted = answers(function, *inputs), arrays_of(Call(function)(*inputs))
    for ours, exact in zip(found, wanted, strict=True):
        assert ours.shape == exact.shape
        assert np.array_equal(ours, exact)


def set_items(x: Tensor, i: Tensor) -> Tensor:
    x = x * 1.0
    x[:, i] = 0.5
    return x


def counted(x: Tensor, i: Tensor) -> Tensor:
    return torch.zeros(6, dtype=torch.int64).index_put(
        (i,), torch.ones(5, dtype=torch.int64), accumulate=True
    )


EXACT: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...]]] = {
    "two axes": (lambda x, i, j: x[i, j], (levels(5, 7), places(0, 4, -1), places(6, -7, 2))),
    "axes that are broadcast": (
        lambda x, i, j: x[i, j],
        (levels(5, 7, 3), places(0, 4, -1).reshape(3, 1), places(6, -7)),
    ),
    "axes that lie apart": (
        lambda x, i, j: x[i, :, j],
        (levels(5, 4, 7), places(0, 4, -1), places(6, -7, 2)),
    ),
    "all axes": (
        lambda x, i, j, k: x[i, j, k],
        (levels(5, 4, 7), places(0, 4, -1), places(3, -4, 2), places(6, 0, -2)),
    ),
    "a constant axis beside": (lambda x, i: x[torch.arange(3), i], (levels(3, 7), places(6, 0, -1))),
    "from the end": (lambda x, i: x[:, i], (levels(5, 7), places(-1, 0, -7, 3))),
    "in order of memory": (lambda x, i: torch.take(x, i), (levels(4, 5), places(0, 19, -1, 7))),
    "whole numbers": (lambda x, i: x[:, i], (places(4, 5, 6, 7, 8, 9).reshape(2, 3), places(2, -3))),
    "one row": (
        lambda x, i, y: x.index_copy(1, i, y),
        (levels(3, 7, 2), places(4), levels(3, 1, 2)),
    ),
    "some rows": (
        lambda x, i, y: x.index_copy(1, i, y),
        (levels(3, 7, 2), places(4, 0, 6), levels(3, 3, 2)),
    ),
    "the last of equal ones": (
        lambda x, i, y: x.index_put((i,), y),
        (levels(6, 3), places(2, 5, 2), levels(3, 3)),
    ),
    "pairs of places": (
        lambda x, i, j, y: x.index_put((i, j), y),
        (levels(6, 5, 3), places(1, -1, 0), places(0, 2, -1), levels(3, 3)),
    ),
    "a row for all": (lambda x, i, y: x.index_put((i,), y), (levels(6, 3), places(2, 5), levels(3))),
    "a number": (set_items, (levels(6, 5), places(1, -1))),
    "filled": (lambda x, i: x.index_fill(0, i, 2.5), (levels(6, 3), places(1, 5))),
    "a mask of an inner axis": (
        lambda x, m: aten.index_put.default(x, [None, m], torch.tensor(0.25)),
        (levels(4, 3, 2), torch.tensor([True, False, True])),
    ),
    "a mask with a row for all": (
        lambda x, m, y: x.index_put((m,), y),
        (levels(4, 3), torch.tensor([True, False, True, True]), levels(1, 3)),
    ),
    "sums of whole numbers": (
        lambda x, i, y: x.index_put((i,), y, accumulate=True),
        (places(*range(18)).reshape(6, 3), places(1, 5, 1), places(*range(-4, 5)).reshape(3, 3)),
    ),
    "a histogram": (counted, (places(9), places(1, 5, 1, 0, 1))),
    "a view by strides": (lambda x: x.as_strided((3, 4), (5, 1), 1), (levels(4, 5),)),
    "windows by strides": (lambda x: torch.as_strided(x, (1, 9, 4), (12, 1, 1)), (levels(1, 12),)),
    "pixels one of four": (
        lambda x: F.grid_sample(
            x, torch.tensor([[[[-1.0, -1.0], [1.0, 1.0]]]]).expand(2, 1, 2, 2), "nearest", align_corners=True
        ),
        (levels(2, 3, 5, 7),),
    ),
    "a border that no maximum sees": (
        lambda x: F.max_pool2d(F.pad(x, (0, 1, 1, 1), value=float("-inf")), 3, 2),
        (levels(2, 3, 8, 9) - 1.0,),
    ),
    "one branch": (
        lambda x: torch.cond(torch.tensor(True), lambda x: x.flip(0), lambda x: x.clone(), (x,)),
        (levels(4, 5),),
    ),
    "a branch by its input": (
        lambda x, n: torch.cond(n > 0, lambda x: x.flip(0), lambda x: x.clone(), (x,)),
        (levels(4, 5), torch.tensor(3)),
    ),
    "booleans and a constant mask": (
        lambda x, y: (x & y) & torch.tensor([True, False, True]),
        (torch.tensor([True, True, False]), torch.tensor([True, True, True])),
    ),
    "bounds beyond 32 bits": (lambda i: i.clamp(-(2**40), 2**40), (places(5, -7),)),
}


@pytest.mark.turns(12)
@pytest.mark.parametrize("name", EXACT)
def test_moves_are_exact(name: str) -> None:
    function, inputs = EXACT[name]
    check_exact(function, *inputs)


@pytest.mark.turns(3)
@pytest.mark.parametrize("outside", part_of([-8, 7, 2**31 - 1, -(2**31)], 3))
def test_out_of_range_indices_are_clamped_or_ignored(outside: int) -> None:
    """The nearest one is read, and nothing is written."""
    x, y, inside = levels(7, 3), levels(2, 3, seed=1), places(0, 3)
    given = torch.tensor([outside, 3], dtype=torch.int32)
    taking = pillion.compile(Call(lambda x, i, j: x[i, j]), (x, inside, places(0, 1)), target="cortex-m33")
    putting = pillion.compile(
        Call(lambda x, i, y: x.index_copy(0, i, y)), (x, inside, y), target="cortex-m33"
    )
    one = pillion.compile(
        Call(lambda x, i, y: x.index_put((i,), y)), (x, inside[:1], y[:1]), target="cortex-m33"
    )
    pairs = pillion.compile(
        Call(lambda x, i, j, y: x.index_put((i, j), y)),
        (x, inside, places(0, 1), y[:, 0]),
        target="cortex-m33",
    )
    nearest = 0 if outside < 0 else 6
    for on in ON:
        (found,) = taking.run(x, given, places(2, 1).int(), on=on)
        assert np.array_equal(found, x.numpy()[[nearest, 3], [2, 1]])
        wanted = x.clone()
        wanted[3] = y[1]
        assert np.array_equal(putting.run(x, given, y, on=on)[0], wanted.numpy())
        assert np.array_equal(one.run(x, given[:1], y[:1], on=on)[0], x.numpy())
        wanted = x.clone()
        wanted[3, 1] = y[1, 0]
        assert np.array_equal(pairs.run(x, given, places(2, 1).int(), y[:, 0], on=on)[0], wanted.numpy())
        wanted = x.clone()
        wanted[3, 1] = y[1, 0]
        assert np.array_equal(
            pairs.run(x, places(2, 3).int(), torch.tensor([outside, 1]).int(), y[:, 0], on=on)[0],
            wanted.numpy(),
        )


FIXED = torch.randn(2, 5, 4, 2, generator=torch.Generator().manual_seed(3)) * 0.8
NEAR: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...], float]] = {
    "rows that are added": (
        lambda x, i, y: x.index_add(0, i, y, alpha=2),
        (levels(6, 3, 2), places(1, 5, 0, 1), levels(4, 3, 2)),
        3,
    ),
    "sums over the edges of a graph": (
        lambda x, i: torch.zeros(6, 4).index_add(0, i, x),
        (levels(40, 4), torch.arange(40) * 7 % 6),
        3,
    ),
    "a way back from a pool": (
        lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2, output_size=x.shape[-2:]),
        (levels(2, 3, 9, 6),),
        1,
    ),
    "of other windows": (
        lambda x: F.max_unpool2d(*F.max_pool2d(x, (3, 2), return_indices=True), (3, 2)),
        (levels(1, 9, 9, 6),),
        1,
    ),
    "an affine grid": (
        lambda t: F.affine_grid(t, (2, 1, 4, 5), align_corners=False),
        (levels(2, 2, 3),),
        2,
    ),
    **{
        f"a warp by {mode}, {padding}, {corners}": (
            lambda x, mode=mode, padding=padding, corners=corners: F.grid_sample(
                x, FIXED, mode=mode, padding_mode=padding, align_corners=corners
            ),
            (levels(2, 3, 9, 7),),
            9,
        )
        for mode in ("bilinear", "nearest")
        for padding, corners in (
            ("zeros", False),
            ("border", True),
            ("reflection", False),
            ("reflection", True),
        )
    },
}
"""With the decibels that each may lose against a simulation that rounds the whole operator once."""


@pytest.mark.turns(7)
@pytest.mark.parametrize("name", NEAR)
def test_as_near_as_eight_bits_are(name: str) -> None:
    function, inputs, may_lose = NEAR[name]
    (found,), (wanted,) = answers(function, *inputs), arrays_of(Call(function)(*inputs))
    assert found.shape == wanted.shape
    real = tuple(x for x in inputs if x.is_floating_point())
    plain = decibels(wanted, plain_answers(Call(function), inputs)[0]) if len(real) == len(inputs) else 45.0
    assert decibels(wanted, found) >= min(plain, 50.0) - may_lose


@pytest.mark.turns(5)
@pytest.mark.parametrize(
    "window",
    [
        {"kernel_size": 2},
        {"kernel_size": 3, "stride": 2, "padding": 1},
        {"kernel_size": 2, "stride": 2, "ceil_mode": True},
        {"kernel_size": (3, 2), "stride": 1, "dilation": (2, 1)},
        {"kernel_size": 3, "stride": 2, "padding": 1, "dilation": 2},
        {"kernel_size": 3, "stride": 2, "padding": 1, "dilation": (3, 2), "ceil_mode": True},
    ],
)
def test_places_of_a_pool(window: dict[str, Any]) -> None:
    """Of numbers that differ; the first one where all are the same."""
    image = (torch.randperm(200, generator=torch.Generator().manual_seed(5))[: 9 * 7] - 100.0).reshape(
        1, 1, 9, 7
    )
    image = torch.cat([image, torch.zeros(1, 1, 9, 7)], 1)
    image[0, 0, 0, 0], image[0, 0, 8, 6] = -128.0, 127.0
    check_exact(lambda x: F.max_pool2d(x, return_indices=True, **window), image)


def test_places_of_a_pool_along_one_axis() -> None:
    """Padding is not among the taps of a dilated window."""
    rows = (torch.randperm(39, generator=torch.Generator().manual_seed(5)) - 19.0).reshape(1, 3, 13)
    rows[0, 0, 0], rows[0, 2, 12] = -128.0, 127.0
    check_exact(lambda x: F.max_pool1d(x, 3, 2, 1, 2, ceil_mode=True, return_indices=True), rows)


def test_whole_bytes_as_a_cache() -> None:
    """A key and value cache: one row of a state is written, at a place that comes with each call."""

    class Cache(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("rows", torch.zeros(8, 4))

        def forward(self, x: Tensor, place: Tensor) -> Tensor:
            self.rows[place] = x
            return self.rows.sum(0)

    x = levels(1, 4)
    program = pillion.compile(Cache(), (x, places(2)), target="cortex-m33")
    wanted = Cache()(x, places(2)).detach().numpy()
    for on in ON:
        assert np.abs(program.run(x, places(2), on=on)[0] - wanted).max() <= 0.2


REFUSED: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...], str]] = {
    "pixels where an input says": (
        lambda x, y: F.grid_sample(x, y, align_corners=False),
        (levels(1, 3, 4, 4), levels(1, 4, 4, 2)),
        "grid_sampler",
    ),
    "too many places": (
        lambda x, i, y: x.index_copy(0, i, y),
        (levels(50, 2), torch.arange(40), levels(40, 2)),
        "32 places",
    ),
    "two masks": (
        lambda x, m, n: aten.index_put.default(x, [m, n], torch.tensor(0.0)),
        (levels(2, 3, 4), torch.tensor([False, True]), torch.tensor([True, False, False])),
        "one mask",
    ),
    "a loop that depends on data": (
        lambda x: torch.ops.higher_order.while_loop(
            lambda x: x.sum() < 30.0, lambda x: (x + x,), (x.abs() + 1,), ()
        )[0],
        (levels(2, 3),),
        "torch.while_loop",
    ),
    "places of windows that overlap": (
        lambda x: F.max_unpool2d(*F.max_pool2d(x, 3, 2, return_indices=True), 3, 2),
        (levels(1, 3, 9, 9),),
        "max_unpool2d",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    function, inputs, said = REFUSED[name]
    with pytest.raises(PillionError) as caught:
        pillion.compile(Call(function), inputs, target="cortex-m33")
    assert said in f"{caught.value.here} {caught.value.rule}"
    assert caught.value.help
