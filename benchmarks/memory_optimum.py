# SPDX-License-Identifier: Apache-2.0
"""Compares the choice of memories with the optimum that CP-SAT proves, on random small networks.

    pip install ortools
    python benchmarks/memory_optimum.py [COUNT]

A network is a chain with shortcuts and branches. Two memories hold it, the fast one between a fifth and two thirds of what
one arena takes. Prints the estimated wait cycles of both, and the difference."""

from __future__ import annotations

import random
import sys
import warnings
from collections.abc import Sequence
from itertools import combinations

import torch
from ortools.sat.python import cp_model
from torch import nn

import pillion
from pillion.chip_memory import ChipMemory
from pillion.memory import divided_memory
from pillion.memory.live_blocks import LiveBlock
from pillion.memory.memory_choice import ChosenMemories, choose_memories
from pillion.memory.memory_units import MemoryUnit

SECONDS = 60
Placed = dict[LiveBlock, tuple[list[cp_model.IntVar], cp_model.IntVar]]
"""Block → whether it lies in each memory, and its offset."""
SCALE = 16
"""Offsets are multiples of it."""


class Network(nn.Module):
    """A random chain of convolutions with shortcuts and branches."""

    def __init__(self, dice: random.Random) -> None:
        super().__init__()
        self.channels = dice.choice([3, 4, 5, 8])
        self.kinds = [
            dice.choice(["conv", "down", "skip", "branch", "pool", "act"]) for _ in range(dice.randint(4, 9))
        ]
        self.layers = nn.ModuleList()
        channels = self.channels
        for kind in self.kinds:
            more = channels + dice.choice([0, 2, 8]) if kind in ("conv", "down") else channels
            stride = 2 if kind == "down" else 1
            self.layers.append(
                nn.Conv2d(channels, more, dice.choice([1, 3]), stride, padding="same" if stride == 1 else 1)
            )
            channels = 2 * more if kind == "branch" else more

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        earlier = x
        for kind, layer in zip(self.kinds, self.layers, strict=True):
            y = layer(x)
            if kind == "skip":
                y = y + earlier if earlier.shape == y.shape else y
            elif kind == "branch":
                y = torch.cat([torch.relu(y), x], 1)
            elif kind == "pool" and min(y.shape[2:]) > 3:
                y = nn.functional.max_pool2d(y, 2)
            elif kind == "act":
                y = torch.sigmoid(y)
            earlier, x = x, y
        return x.mean((2, 3))


def optimum(
    units: Sequence[MemoryUnit], memories: Sequence[ChipMemory], flash: ChipMemory
) -> tuple[float, bool]:
    """Returns the fewest wait cycles, and whether they are proven."""
    model = cp_model.CpModel()
    placed: Placed = {}
    costs, loads = [], [[] for _ in memories]
    for unit in units:
        here = [model.new_bool_var("") for _ in memories]
        stays = model.new_bool_var("")
        model.add_exactly_one([*here, stays])
        if unit.constants_of is None:
            model.add(stays == 0)
        costs += [round(unit.waits(m)) * b for m, b in zip(memories, here, strict=True)]
        costs.append(round(unit.waits(flash)) * stays if unit.constants_of is not None else 0)
        for load, b in zip(loads, here, strict=True):
            load.append(unit.bytes // SCALE * b)
        for block in unit.blocks:
            placed[block] = here, model.new_int_var(0, max(m.bytes for m in memories) // SCALE, "")
    room = [model.new_int_var(0, m.bytes // SCALE, "") for m in memories]
    for number, memory in enumerate(memories):
        model.add(room[number] + sum(loads[number]) <= memory.bytes // SCALE)
        for block, (here, at) in placed.items():
            model.add(at + -(-(block.size + block.overread_bytes) // SCALE) <= room[number]).only_enforce_if(
                here[number]
            )
    _keep_apart(model, placed)
    model.minimize(sum(costs))
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = SECONDS
    solver.parameters.num_workers = 2
    status = solver.solve(model)
    return solver.objective_value, status == cp_model.OPTIMAL


def _keep_apart(model: cp_model.CpModel, placed: Placed) -> None:
    """Keeps blocks apart that are live at the same time in one memory, unless one may overwrite the other."""
    for (a, (in_a, at_a)), (b, (in_b, at_b)) in combinations(placed.items(), 2):
        if a.first > b.last or b.first > a.last:
            continue
        below, above, same = (model.new_bool_var("") for _ in range(3))
        model.add(at_a + a.size // SCALE <= at_b).only_enforce_if(below)
        model.add(at_b + b.size // SCALE <= at_a).only_enforce_if(above)
        model.add(at_a == at_b).only_enforce_if(same)
        if a.overlaid is not b and b.overlaid is not a:
            model.add(same == 0)
        for x, y in zip(in_a, in_b, strict=True):
            model.add_bool_or([below, above, same, x.negated(), y.negated()])


def compare(seed: int) -> tuple[int, float, float, bool]:
    """Returns the number of units, our waits, the optimum's, and whether it is proven."""
    dice = random.Random(seed)
    torch.manual_seed(seed)
    network = Network(dice)
    example = torch.rand(1, network.channels, dice.choice([9, 12, 17]), dice.choice([8, 13]))
    plain = pillion.compile(
        network, example, target="cortex-m55", optimize="size", io_dtype="int8", progress=False
    )
    fast = int(plain.memory.arena_bytes * dice.uniform(0.2, 0.65)) // 32 * 32
    found: list[tuple[int, float, float, bool]] = []

    def watched(
        name: str,
        units: Sequence[MemoryUnit],
        memories: Sequence[ChipMemory],
        flash: ChipMemory,
        ticks: int,
        perturbations: int,
    ) -> ChosenMemories:
        chosen = choose_memories(name, units, memories, flash, ticks)
        best, is_proven = optimum(units, memories, flash)
        found.append((len(units), chosen.waits, best, is_proven))
        return chosen

    divided_memory.choose_memories = watched
    memories = [f"sram={fast}", "psram=1M,slow=20", f"flash=4M,read={dice.choice([0, 5, 40])},constants"]
    pillion.compile(
        network,
        example,
        target="cortex-m55",
        optimize="size",
        io_dtype="int8",
        chip_memories=memories,
        progress=False,
    )
    return found[0]


def main(count: int) -> None:
    """Prints the comparison of so many networks."""
    warnings.simplefilter("ignore")
    worst = 0.0
    for seed in range(count):
        units, ours, best, is_proven = compare(seed)
        more = ours / best - 1 if best else 0.0 if not ours else float("inf")
        worst = max(worst, more)
        print(
            f"{seed:3} {units:3} units  ours {ours:12,.0f}  {'optimum' if is_proven else 'best found'} {best:12,.0f}  {100 * more:5.2f} %",
            flush=True,
        )
    print(f"at most {100 * worst:.2f} % above")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 30)
