# SPDX-License-Identifier: Apache-2.0
"""Fits what each kernel costs to instructions counted in the emulator, and records how close the estimates are.

    python benchmarks/kernel_costs.py             count other random ops, print how close their estimates are
    python benchmarks/kernel_costs.py --missing   fit kernels that have no costs yet, and add theirs
    python benchmarks/kernel_costs.py --update    fit anew first; write the costs and the figures of docs/reference/time.md

The costs are src/pillion/emitters/c/kernel_costs.json, the figures benchmarks/kernel_costs.json. Counts are the same on
every computer with the same compiler."""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from random_ops import (
    random_data,
    random_ops,
    random_ops_4,
    random_ops_8,
    random_ops_8_16,
    random_ops_16,
    widened_ops,
)
from scipy.optimize import nnls

from kernels import rig
from kernels.op_cases import case_of
from pillion.boards import instruction_trace
from pillion.boards.disassembly import disassemble
from pillion.boards.elf import read_elf
from pillion.devices.cortex_m import CORES
from pillion.devices.cortex_m.classes import ExecutedLine, MemoryAccesses, executed
from pillion.emitters.c.cost_features import cost_features
from pillion.emitters.c.kernel import Kernel
from pillion.emitters.c.kernel_choice import choose_kernels, kernels
from pillion.emitters.c.kernel_costs import TABLE, kernel_costs, kernel_instructions
from pillion.errors import PillionError
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.verdict import all_ok

os.environ.setdefault("PILLION_CACHE", tempfile.gettempdir())
FIGURES = Path(__file__).with_suffix(".json")
COSTS_FILE = Path(__file__).resolve().parents[1] / "src" / "pillion" / "emitters" / "c" / TABLE
TARGETS = {"cortex-m55": rig.M55, "cortex-m33": rig.M33, "cortex-m3": rig.M3, "cortex-m0": rig.M0}
FITTED, FIT_SEED = 12_000, 1
FITTED_16, FITTED_8, FITTED_4 = 2400, 2400, 1600
CHECKED, CHECK_SEED = 500, 2
IN_ONE_RUN = 400
MOST_ROWS = 150
"""Further kernels of an op are counted until they have so many rows."""
CLOSE = 0.25
TRACED = 12
"""The ops of a kernel whose instructions are sorted into classes."""
Counted = list[tuple[Op, Kernel, int]]


def chosen_kernel(op: Op, core: str) -> Kernel | None:
    """Returns the kernel that the compiler chooses, or None if none takes the op."""
    try:
        return choose_kernels(Graph("g", op.activations, (op,), op.results), CORES[core].isa)[0].kernel
    except PillionError:
        return None


def counted(core: str, pairs: Sequence[tuple[Op, Kernel]]) -> Counted:
    """Returns the instructions of ops by their kernels."""
    rng = np.random.default_rng(0)
    found: Counted = []
    for start in range(0, len(pairs), IN_ONE_RUN):
        some = pairs[start : start + IN_ONE_RUN]
        results = rig.run(TARGETS[core], [case(op, kernel, rng) for op, kernel in some])
        found += [
            (op, kernel, result.instructions) for (op, kernel), result in zip(some, results, strict=True)
        ]
    return found


def case(op: Op, kernel: Kernel, rng: np.random.Generator) -> rig.Case:
    """Returns an op with random data; operands of wide elements lie first, so that each is aligned."""
    made = case_of(op, kernel, random_data(op, rng))
    operands = dict(sorted(made.operands.items(), key=lambda pair: -pair[0].dtype.size_bytes))
    return replace(made, operands=operands)


def chosen_pairs(core: str, count: int, seed: int) -> list[tuple[Op, Kernel]]:
    """Returns random ops with the kernels that the compiler chooses."""
    pairs = ((op, chosen_kernel(op, core)) for op in random_ops(count, seed))
    return [(op, kernel) for op, kernel in pairs if kernel is not None]


def pairs_to_fit(core: str) -> Iterator[tuple[Op, Kernel]]:
    """Yields random ops with their kernels, and with others that are rarely chosen."""
    rows: dict[str, int] = defaultdict(int)
    for op, chosen in chosen_pairs(core, FITTED, FIT_SEED):
        rows[chosen.name] += 1
        yield op, chosen
        others = [
            k for k in kernels(CORES[core].isa) if k.op is type(op) and not k.is_tiled and k is not chosen
        ]
        others = [k for k in others if all_ok(k.check(op, Arithmetic.CMSIS_NN))]
        rarest = min(others, key=lambda k: rows[k.name], default=chosen)
        if rows[rarest.name] < MOST_ROWS and rarest is not chosen:
            rows[rarest.name] += 1
            yield op, rarest
    yield from with_every_kernel(core, FAMILIES)


FAMILIES = (
    *((random_ops_8, FITTED_8), (random_ops_16, FITTED_16), (widened_ops, FITTED_16)),
    *((random_ops_4, FITTED_4), (random_ops_8_16, FITTED_4)),
)
"""Layers of 8 bits, ops with 16-bit operands or results, and layers with weights of 4 bits."""


def with_every_kernel(
    core: str, families: Sequence[tuple[Any, int]], known: Collection[str] = ()
) -> Iterator[tuple[Op, Kernel]]:
    """Yields ops, each with every kernel that takes it and is not `known`."""
    rows: dict[str, int] = defaultdict(int)
    for op in (op for family, count in families for op in family(count, FIT_SEED)):
        for k in kernels(CORES[core].isa):
            is_wanted = k.op is type(op) and k.name not in known and rows[k.name] < MOST_ROWS
            if is_wanted and all_ok(k.check(op, Arithmetic.CMSIS_NN)):
                rows[k.name] += 1
                yield op, k


def fitted(rows: Sequence[tuple[Op, Kernel, int]]) -> dict[str, float]:
    """Returns coefficients that are not negative, for the least relative error; features that say little are dropped."""
    features = [cost_features(op, kernel) for op, kernel, _ in rows]
    if len(rows) < FEWEST and all("work" in found for found in features):
        ratios_of_work = [count / found["work"] for found, (*_, count) in zip(features, rows, strict=True)]
        return {"work": float(f"{np.median(ratios_of_work):.3g}")}
    names = sorted({name for found in features for name in found})
    counts = np.array([count for *_, count in rows], float)
    shares = np.array([[found.get(name, 0.0) for name in names] for found in features]) / counts[:, None]
    while True:
        coefficients = least_relative_error(shares, counts**LARGE)
        parts = np.percentile(shares * coefficients, 98, axis=0)
        left = parts > LEAST_PART
        if left.all() or not left.any():
            return {name: float(f"{c:.3g}") for name, c in zip(names, coefficients, strict=True)}
        names = [name for name, is_left in zip(names, left, strict=True) if is_left]
        shares = shares[:, left]


FEWEST = 12
"""Fewer ops than these say less of a kernel than its own estimate."""
LEAST_PART = 0.02
"""A feature stays if it makes out such a part of the instructions of one op in fifty."""
LARGE = 0.25
"""An op counts by its instructions to this power, because those of a network are mostly those of its large ops."""


def least_relative_error(
    shares: np.ndarray[Any, Any], importance: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    """Returns the coefficients for which the sums of the shares are closest to 1; outliers count less."""
    scale = shares.max(axis=0)
    scale[scale == 0] = 1
    weights = importance
    for _ in range(12):
        coefficients = nnls(shares / scale * weights[:, None], weights, maxiter=10_000)[0] / scale
        errors = np.abs(shares @ coefficients - 1)
        weights = importance / np.sqrt(np.maximum(errors, 0.05))
    return coefficients


def mix_of(core: str, rows: Counted) -> dict[str, float]:
    """Returns the instructions of a kernel by class, further registers and taken jumps, for each instruction."""
    rng = np.random.default_rng(0)
    program, _ = rig.build(TARGETS[core])
    elf = read_elf(program)
    main, text = elf.symbols["main"], elf.places[".text"]
    options = (
        f"./{instruction_trace.PLUGIN},out=counts.txt,code={main.address + main.bytes:#x}-{text.stop:#x}"
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / instruction_trace.PLUGIN).symlink_to(instruction_trace.build_plugin())
        cases = [case(op, kernel, rng) for op, kernel, _ in rows]
        rig.run_in(folder, TARGETS[core], cases, options=("-plugin", options))
        (window,) = instruction_trace.counted_windows(
            (folder / "counts.txt").read_text(), disassemble(program, core)
        )
    lines = (ExecutedLine(line.instruction, line.times, line.left) for line in window.lines)
    ran = executed(lines, MemoryAccesses(), MemoryAccesses())
    parts = {one.name: count for one, count in ran.counts.items()}
    parts |= {"registers": ran.more_registers, "taken": ran.taken}
    shares = {name: round(part / ran.instructions, 3) for name, part in parts.items()}
    return {name: share for name, share in shares.items() if share}


def costs_of(core: str, pairs: Iterable[tuple[Op, Kernel]]) -> dict[str, Any]:
    """Returns the row of each kernel on a core that ops were drawn for: coefficients and mix."""
    by_kernel: dict[str, Counted] = defaultdict(list)
    for row in counted(core, list(pairs)):
        by_kernel[row[1].name].append(row)
    return {
        name: {"coefficients": fitted(rows), "mix": mix_of(core, rows[:TRACED])}
        for name, rows in sorted(by_kernel.items())
    }


def ratios(core: str) -> dict[str, list[float]]:
    """Returns estimated over counted instructions of other random ops, by kind."""
    found: dict[str, list[float]] = defaultdict(list)
    for op, kernel, count in counted(core, chosen_pairs(core, CHECKED, CHECK_SEED)):
        found[op.kind].append(kernel_instructions(op, kernel, core) / count)
    return found


def figures_of(core: str) -> dict[str, Any]:
    """Returns the ops, the median ratio and the share within 25 % of each kind, and of all."""
    by_kind = ratios(core)
    groups = {**dict(sorted(by_kind.items())), "all": [r for some in by_kind.values() for r in some]}
    return {
        kind: {
            "ops": len(some),
            "median": round(float(np.median(some)), 2),
            "close": round(float(np.mean([abs(r - 1) <= CLOSE for r in some])), 3),
        }
        for kind, some in groups.items()
    }


def table_text(costs: Mapping[str, Mapping[str, Any]]) -> str:
    """Returns the JSON of the costs, a kernel a line."""
    cores = []
    for core, rows in costs.items():
        lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(row)}" for name, row in rows.items())
        cores.append(f" {json.dumps(core)}: {{\n{lines}\n }}")
    return "{\n" + ",\n".join(cores) + "\n}\n"


def main() -> None:
    """Counts, fits where that is wanted, and prints or records the figures."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--update", action="store_true", help="fit anew, and record costs and figures")
    parser.add_argument("--missing", action="store_true", help="fit kernels without costs, and add theirs")
    wanted = parser.parse_args()
    if wanted.update:
        COSTS_FILE.write_text(table_text({core: costs_of(core, pairs_to_fit(core)) for core in TARGETS}))
        kernel_costs.cache_clear()
    if wanted.missing:
        known = json.loads(COSTS_FILE.read_text())
        for core, rows in known.items():
            tiled = {kernel.name for kernel in kernels(CORES[core].isa) if kernel.is_tiled}
            families = (*FAMILIES, (random_ops, FITTED_8))
            rows |= costs_of(core, with_every_kernel(core, families, rows.keys() | tiled))
            COSTS_FILE.write_text(table_text({c: dict(sorted(r.items())) for c, r in known.items()}))
        return
    figures = {core: figures_of(core) for core in TARGETS}
    for core, kinds in figures.items():
        print(f"{core}: {100 * kinds['all']['close']:.1f} % of {kinds['all']['ops']} ops within {CLOSE:.0%}")
    if wanted.update:
        FIGURES.write_text(table_text(figures))


if __name__ == "__main__":
    main()
