# SPDX-License-Identifier: Apache-2.0
"""The work of the default search for stripes: in proportion to the ops, and little where nothing is gained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest

import pillion
from call_counts import SLACK, assert_grows, work
from pillion import compiled_program, read_model
from pillion.compile_options import Memory
from pillion.devices.cortex_m import Isa
from pillion.emitters.c.accumulators import channels_of
from pillion.emitters.c.lower import lower
from pillion.ir.graph import Graph
from pillion.ir.types import DType, PerTensor, TensorType, Value
from pillion.ir.verify import verify_graph
from pillion.memory.warm_up import predict_from_first_steps
from pillion.ops import Conv2d
from pillion.tiling import candidates, search
from pillion.tiling.search import find_stripes

LEVELS = PerTensor(0.05, -3)


def chain(count: int, side: int = 16, channels: int = 8, *, mixed: bool = False) -> Graph:
    """Small convolutions one after another: a further call of each costs more than 1 % of it. With `mixed`, every second one is 1x1."""
    random = np.random.default_rng(1)
    of_image = TensorType((1, side, side, channels), DType.INT8, LEVELS)
    x = first = Value("x", of_image)
    ops = []
    for number in range(count):
        size = 1 if mixed and number % 2 else 3
        weights = random.integers(-127, 128, (channels, size, size, channels)).astype(np.int8)
        bias = random.integers(-999, 999, channels).astype(np.int32)
        y = Value(f"y{number}", of_image)
        w = Value(f"w{number}", TensorType(weights.shape, DType.INT8, PerTensor(0.004)), weights)
        b = Value(f"b{number}", TensorType(bias.shape, DType.INT32, PerTensor(0.0002)), bias)
        ops.append(Conv2d(x=x, weights=w, bias=b, y=y, stride=(1, 1), padding=(size // 2,) * 4))
        x = y
    return verify_graph(Graph("chain", (first,), tuple(ops), (x,)))


def search_of(isa: Isa) -> Callable[[int], Callable[[], object]]:
    def action(count: int) -> Callable[[], object]:
        graph = chain(count)
        whole = lower(graph, isa)
        return lambda: find_stripes(graph, whole, Memory())

    return action


@pytest.mark.parametrize("isa", [Isa.MVE, Isa.DSP])
def test_the_search_takes_work_in_proportion_to_the_ops(isa: Isa) -> None:
    assert_grows(search_of(isa), 50)


def test_a_fruitless_search_for_stripes_takes_little_work() -> None:
    """Measured: 3.1 times as much as lowering; 11 to 23 % of the processor time of a compilation from PyTorch with 100 such layers."""
    graph = chain(60)
    whole = lower(graph, Isa.MVE)
    assert find_stripes(graph, whole, Memory()).stripes == ()
    searching = work(lambda: find_stripes(graph, whole, Memory()))
    assert searching <= 3.2 * SLACK * work(lambda: lower(graph, Isa.MVE))


@pytest.mark.turns(2)
def test_equal_blocks_are_simulated_once() -> None:
    """Stripes save up to 20 % of this chain's RAM by estimate, so that the search looks at many parts: as many for 96 ops as for 24."""
    simulated = []
    for count in (24, 96):
        graph = chain(count, channels=32, mixed=True)
        whole = lower(graph, Isa.DSP)
        with mock.patch.object(candidates, "predict_from_first_steps", wraps=predict_from_first_steps) as sim:
            find_stripes(graph, whole, Memory())
        simulated.append(sim.call_count)
    assert 0 < simulated[1] <= SLACK * simulated[0], simulated


def test_less_ram_than_is_worth_it_ends_the_search() -> None:
    """Live bytes could shrink by 2.3 KB here, where 4 KB are the least."""
    graph = chain(24, channels=16, mixed=True)
    whole = lower(graph, Isa.DSP)
    with mock.patch.object(search, "plan_stripes", wraps=search.plan_stripes) as plans:
        assert find_stripes(graph, whole, Memory()).stripes == ()
    assert plans.call_count == 1


def test_forms_of_a_layer_share_its_channels() -> None:
    """The zero point is folded into the sums of a layer once, not for each kernel that is tried for each form."""
    (op,) = chain(1).ops
    form = replace(op, padding=(0, 1, 2, 1))
    assert channels_of(form).with_folded_zero_point is channels_of(op).with_folded_zero_point
    other = replace(op, low=0)
    assert channels_of(other).with_folded_zero_point is not channels_of(op).with_folded_zero_point
    assert channels_of(other).low == 0


def test_a_compilation_lowers_and_searches_once() -> None:
    """What the last stage has made is in the program that the user gets."""
    graph = chain(2)
    with (
        mock.patch.object(compiled_program, "lower", wraps=lower) as lowering,
        mock.patch.object(compiled_program, "find_stripes", wraps=find_stripes) as searching_once,
        mock.patch.object(read_model, "_read_int8", return_value=graph),
    ):
        program = pillion.compile("chain.pte", target="cortex-m33", extra="5%")
        assert program.memory.arena_bytes
    assert (lowering.call_count, searching_once.call_count) == (1, 1)
