# SPDX-License-Identifier: Apache-2.0
"""Loops over time in a user's forward: torch writes them out, and they become one repetition again, if they are one."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import pillion
from nightly import seeds
from pillion.importers.torch.export import export
from pillion.importers.torch.float_model import float_model
from pillion.importers.torch.float_tensors import FloatTensors
from pillion.importers.torch.loop_nodes import LoopNodes, in_execution_order, run_with_loops
from pillion.importers.torch.rewrite import pipeline as stages
from pillion.importers.torch.rewrite.pipeline import rewrite_for_quantization
from pillion.ir.constraints import QuantizationConstraints
from pillion.ops import Scan, unroll_loops
from pillion.program import Program
from pillion.targets import find_target
from written_loops import NETS, OF_NINE, Lifted, cell, each, of_cell, zeros

Shapes = tuple[tuple[int, ...], ...]


def inputs(shapes: Shapes) -> tuple[Tensor, ...]:
    return tuple(torch.rand(shape) * 2 - 1 for shape in shapes)


def steps_of(
    module: nn.Module, given: tuple[Tensor, ...], constraints: QuantizationConstraints | None = None
) -> list[int]:
    """How often each loop of a net's graph runs; the graph computes what the net computes."""
    graph = rewrite_for_quantization(export(module.eval(), given).module(check_guards=False), constraints)
    with torch.no_grad():
        wanted, found = module(*given), run_with_loops(graph, *given)
    for a, b in zip(_tuple(wanted), _tuple(found), strict=True):
        torch.testing.assert_close(b, a)
    return [item.count for item in in_execution_order(graph.graph) if isinstance(item, LoopNodes)]


def _tuple(made: Any) -> tuple[Tensor, ...]:
    return tuple(made) if isinstance(made, (tuple, list)) else (made,)


@pytest.mark.turns(11)
@pytest.mark.parametrize("net", NETS.values(), ids=NETS)
def test_written_loops_are_rolled_and_keep_their_results(net: Any) -> None:
    make, shapes, loops = net
    torch.manual_seed(1)
    module = make()
    assert steps_of(module, inputs(shapes(4))) == [4] * loops


@pytest.mark.turns(3)
@pytest.mark.parametrize("net", OF_NINE.values(), ids=OF_NINE)
def test_loops_that_feed_themselves_and_each_other(net: Any) -> None:
    make, shapes, loops = net
    torch.manual_seed(1)
    assert steps_of(make(), inputs(shapes)) == [9] * (2 * loops if len(shapes) == 1 else loops)


@pytest.mark.turns(4)
@pytest.mark.parametrize(("steps", "loops"), [(1, []), (2, []), (3, [3]), (50, [50])])
def test_few_steps_stay_copies(steps: int, loops: list[int]) -> None:
    torch.manual_seed(1)
    assert steps_of(of_cell(cell()), inputs(((2, steps, 4),))) == loops


def _own_weights(parts: Any, x: Tensor) -> Tensor:
    h = zeros(x, 6)
    for t, one in enumerate(parts["cells"]):
        h = one(x[:, t], h)
    return h


def _growing(parts: Any, x: Tensor) -> Tensor:
    """Each step sees one element more than the one before."""
    h = zeros(x, 6)
    for t in range(1, 6):
        h = parts["cell"](x[:, :t].mean(1), h)
    return h


def _at_odd_places(parts: Any, x: Tensor) -> Tensor:
    return each(parts["cell"], x, zeros(x, 6), [0, 1, 3, 2, 5])[-1]


def _other_numbers(parts: Any, x: Tensor) -> Tensor:
    h = zeros(x, 6)
    for t in range(5):
        h = h + parts["linear"](h + 0.1 * t)
    return h + x[:, 0, :1]


def _pools(parts: Any, x: Tensor) -> Tensor:
    y = [x]
    for _ in range(4):
        y.append(nn.functional.max_pool2d(y[-1], 5, 1, 2))
    return torch.cat(y, 1)


NO_LOOPS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "weights of each step": (
        lambda: Lifted(_own_weights, cells=nn.ModuleList(cell() for _ in range(5))),
        (1, 5, 4),
    ),
    "operands of other sizes": (lambda: Lifted(_growing, cell=cell()), (1, 5, 4)),
    "steps with numbers of their own": (
        lambda: Lifted(_other_numbers, linear=nn.Linear(6, 6)),
        (1, 5, 4),
    ),
    "a function of itself": (lambda: Lifted(_pools), (1, 2, 8, 8)),
}


@pytest.mark.parametrize("net", NO_LOOPS.values(), ids=NO_LOOPS)
def test_differing_steps_are_no_loop(net: Any) -> None:
    make, shape = net
    torch.manual_seed(1)
    assert steps_of(make(), inputs((shape,))) == []


def test_irregular_slices_end_a_loop() -> None:
    torch.manual_seed(1)
    given = inputs(((1, 6, 4),))
    assert steps_of(Lifted(_at_odd_places, cell=cell()), given) == []

    def jumps(parts: Any, x: Tensor) -> Tensor:
        return each(parts["cell"], x, zeros(x, 6), [7, 0, 2, 4, 6])[-1]

    assert steps_of(Lifted(jumps, cell=cell()), inputs(((1, 8, 4),))) == [4]  # the first one stays outside


def test_computations_over_all_steps_stay_outside() -> None:
    def attention(parts: Any, x: Tensor) -> Tensor:
        outs = each(parts["cell"], x, zeros(x, 6))
        mean = torch.stack(outs).mean(0)
        return torch.stack([h * mean for h in outs], 1)

    torch.manual_seed(1)
    assert steps_of(Lifted(attention, cell=cell()), inputs(((2, 5, 4),))) == [5]


class RandomCell(nn.Module):
    """A few states, and what is next of them by operators that are drawn."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        drawn = random.Random(seed)
        self.states = drawn.randint(1, 3)
        self.ops = [(drawn.randrange(7), drawn.random(), drawn.random()) for _ in range(drawn.randint(3, 9))]
        self.layers = nn.ModuleList(nn.Linear(5, 5) for _ in range(3))

    def forward(self, x: Tensor, states: list[Tensor]) -> list[Tensor]:
        held = [x, *states]
        for kind, first, second in self.ops:
            a, b = held[int(first * len(held))], held[int(second * len(held))]
            made = (
                lambda a, b: torch.tanh(a + b),
                lambda a, b: torch.sigmoid(a) * b,
                lambda a, b: self.layers[0](a),
                lambda a, b: self.layers[1](b) - a,
                lambda a, b: torch.cat([a[:, 2:], b[:, :2]], 1),
                lambda a, b: torch.relu(self.layers[2](a)),
                lambda a, b: 0.5 * a,
            )[kind](a, b)
            held.append(made)
        return [torch.tanh(s + 0.5 * made) for s, made in zip(states, held[::-1], strict=False)]


@pytest.mark.turns(2)
@pytest.mark.parametrize("seed", seeds(24))
def test_random_cells(seed: int) -> None:
    torch.manual_seed(seed)
    inner = RandomCell(seed)
    backwards, every = seed % 3 == 1, seed % 2

    def forward(parts: Any, x: Tensor, h: Tensor) -> tuple[Tensor, ...]:
        states, outs = [torch.tanh((i + 1) * h) for i in range(inner.states)], []
        for t in range(5)[:: -1 if backwards else 1]:
            states = parts["cell"](x[:, 2 * t + 1], states)
            outs.append(states[0] * 2 if every else states[-1])
        return torch.stack(outs[:: -1 if seed % 4 == 1 else 1], seed % 3), states[-1]

    loops = steps_of(Lifted(forward, cell=inner), inputs(((2, 11, 5), (2, 5))))
    assert sum(loops) <= 5 * inner.states
    FOUND.append(bool(loops))


FOUND: list[bool] = []
"""Which random cells were loops."""
FEWEST = 4
"""Fewer cells say nothing of most."""


def test_most_random_cells_are_loops() -> None:
    if len(FOUND) < FEWEST:
        pytest.skip(f"this process has compiled {len(FOUND)} random cells, other processes the others")
    assert sum(FOUND) * 2 > len(FOUND)


def compiled(module: nn.Module, data: list[Any], target: str = "cortex-m33") -> Program:
    return pillion.compile(module.eval(), data[0], target=target, calibrate=data, progress=False)


def noise(module: nn.Module, program: Program, data: list[Any]) -> float:
    """Decibels of the signal over the noise."""
    signal = noise = 0.0
    for one in data:
        with torch.no_grad():
            wanted = _tuple(module(*one))
        for real, found in zip(wanted, program.run(*one), strict=True):
            signal += float((real**2).sum())
            noise += float(((real.numpy() - found) ** 2).sum())
    return 10 * float(np.log10(signal / noise))


@pytest.mark.turns(4)
@pytest.mark.parametrize("name", ["minGRU", "lstm, a layer in each step", "ConvLSTM", "from the end"])
def test_programs_of_loops_are_exact_and_no_worse_than_copies(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, shapes, loops = NETS[name]
    torch.manual_seed(2)
    module = make().eval()
    data = [inputs(shapes(7)) for _ in range(8)]
    program = compiled(module, data)
    assert sum(isinstance(op, Scan) for op in program.graph.ops) == loops
    copies = unroll_loops(program.graph)
    for one in data[:2]:
        wanted = program.run(*one)
        again = copies.reference(*(x.numpy() for x in one))
        for a, b, c in zip(wanted, again, program.run(*one, on="host"), strict=True):
            assert a.tobytes() == b.tobytes() == c.tobytes()
    monkeypatch.setattr(stages, "reroll_loops", lambda *_: None)
    assert noise(module, program, data) >= noise(module, compiled(module, data), data) - 2


@pytest.mark.turns(4)
def test_code_does_not_grow_with_the_steps() -> None:
    texts = []
    for steps in (5, 40):
        torch.manual_seed(0)
        module = of_cell(cell())
        program = compiled(module, [inputs(((1, steps, 4),)) for _ in range(2)])
        text = re.sub(r"-?\d[\d.e-]*", "0", str(program.files["model/model.c"]))
        texts.append([line.strip() for line in text.splitlines()])
    assert texts[0] == texts[1]


@pytest.mark.turns(3)
@pytest.mark.parametrize("target", ["cortex-m33", "cortex-m55"])
@pytest.mark.qemu
def test_boards_give_the_same(target: str) -> None:
    make, shapes, _ = NETS["lstm, a layer in each step"]
    torch.manual_seed(0)
    data = [inputs(shapes(6)) for _ in range(4)]
    program = compiled(make(), data, target)
    wanted = program.run(*data[0])
    for a, b in zip(wanted, program.run(*data[0], on=program.target.core.board), strict=True):
        assert a.tobytes() == b.tobytes()


def test_an_npu_gets_copies_of_convolutions() -> None:
    make, shapes, _ = NETS["ConvLSTM"]
    torch.manual_seed(0)
    npu = find_target("imxrt700").quantization
    assert steps_of(make(), inputs(shapes(3)), npu) == []
    assert steps_of(of_cell(cell()), inputs(((1, 3, 4),)), npu) == [3]


def test_floats_of_a_net_with_a_loop_have_their_names() -> None:
    torch.manual_seed(0)
    module, given = of_cell(cell()).eval(), inputs(((1, 4, 4),))
    tensors = FloatTensors(float_model(module, given))
    arrays = [x.numpy() for x in given]
    values = tensors.run(arrays)
    with torch.no_grad():
        wanted = module(*given)
    for real, found in zip(wanted, tensors.outputs(values), strict=True):
        np.testing.assert_allclose(found, real.numpy(), atol=1e-6)
    changed = tensors.outputs_with(values, "inputs_0", 0 * arrays[0])
    with torch.no_grad():
        of_zeros = module(0 * given[0])
    for real, found in zip(of_zeros, changed, strict=True):
        np.testing.assert_allclose(found, real.numpy(), atol=1e-6)


def test_training_goes_through_the_steps() -> None:
    torch.manual_seed(0)
    module = of_cell(MinCell())
    x = torch.rand(4, 5, 4)
    trained = pillion.prepare_qat(module, (x,), target="cortex-m33")
    optimizer = torch.optim.Adam(trained.parameters(), 0.02)
    losses = []
    for _ in range(4):
        optimizer.zero_grad()
        loss = (trained(x)[1] - 1).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0]
    program = pillion.compile(trained.eval(), (x,), target="cortex-m33", progress=False)
    assert any(isinstance(op, Scan) for op in program.graph.ops)


class MinCell(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.both = nn.Linear(10, 6)

    def forward(self, x: Tensor, h: Tensor) -> Tensor:
        return h + 0.5 * (torch.tanh(self.both(torch.cat([x, h], 1))) - h)
