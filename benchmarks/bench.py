# SPDX-License-Identifier: Apache-2.0
"""Measures every model on emulated Cortex-M55 and -M33 and on this computer, beside the peer's recorded figures.

    python benchmarks/bench.py              measure, print, fail where a recorded figure got worse by more than 1 %
    python benchmarks/bench.py --update     measure, print, record in benchmarks/results.json

Instructions are counted in the emulator: they are the same on every computer, and they are not cycles."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pillion
from pillion import zoo
from pillion.boards.host import HostModel
from pillion.executors import host_folder
from pillion.program import Program

HERE = Path(__file__).resolve().parent
RESULTS, PEERS = HERE / "results.json", HERE / "peers.json"
WORSE = 1.01
GUARDED = ("instructions", "code_bytes", "constant_bytes", "arena_bytes", "stack_bytes")
"""Figures that are the same on every computer with the same compiler."""

BOARDS = {"cortex-m55": "mps3-an547", "cortex-m33": "mps2-an505"}
MODELS: dict[str, tuple[str, int | None]] = {
    "ds_cnn": ("ds_cnn", None),
    "resnet8": ("resnet8", None),
    "mobilenet_v1_025": ("mobilenet_v1_025", None),
    "deep_autoencoder": ("deep_autoencoder", None),
    "mobilenet_v2": ("mobilenet_v2", 224),
    "mobilenet_v3_small": ("mobilenet_v3_small", 224),
    "mobilenet_v2@96": ("mobilenet_v2", 96),
}

Figures = dict[str, Any]


def compiled(label: str, core: str) -> tuple[Program, float]:
    """The program, and the seconds that the compilation took in this process."""
    name, size = MODELS[label]
    module, example = zoo.build(name, size)
    start = time.perf_counter()
    program = pillion.compile(
        module, example, target=core, calibrate=zoo.random_inputs(name, 1, size), name=name
    )
    program.files  # noqa: B018  # writing the text is part of compiling
    return program, time.perf_counter() - start


def measured(label: str, core: str) -> Figures:
    program, seconds = compiled(label, core)
    name, size = MODELS[label]
    inputs = [x.numpy() for x in zoo.random_inputs(name, 1, size, seed=3)[0]]
    profile = program.measure(*inputs, on=BOARDS[core], timeout=300).profile
    assert profile is not None
    ops = [
        {
            "kind": step.choice.op.kind,
            "kernel": step.choice.kernel.name,
            "macs": step.choice.op.macs,
            "instructions": n,
        }
        for step, n in zip(program.lowered.steps, profile.op_instructions, strict=True)
    ]
    return {
        "instructions": profile.instructions,
        "macs": program.graph.macs,
        "macs_per_instruction": round(program.graph.macs / profile.instructions, 3),
        "code_bytes": profile.code_bytes,
        "constant_bytes": program.lowered.constant_bytes,
        "arena_bytes": program.memory.arena_bytes,
        "floor_bytes": program.memory.floor_bytes,
        "stack_bytes": profile.stack_bytes,
        "compile_seconds": round(seconds, 2),
        "host_microseconds": round(host_microseconds(program)),
        "ops": ops,
    }


def host_microseconds(program: Program) -> float:
    """Median of some runs of the portable C on this computer."""
    with tempfile.TemporaryDirectory() as folder:
        project = program.firmware(Path(folder) / "fw")
        return HostModel(host_folder(project), native=True).microseconds(9)


def command_line_seconds() -> float:
    """`pillion --help`, as a process: the best of three."""
    program = str(Path(sys.executable).with_name("pillion"))
    times = []
    for _ in range(3):
        start = time.perf_counter()
        subprocess.run([program, "--help"], capture_output=True, check=True)
        times.append(time.perf_counter() - start)
    return round(min(times), 3)


def row(label: str, core: str, ours: Figures, peers: Figures) -> str:
    peer = peers["executorch"].get(label, {}).get(core, {})
    ratio = ours["instructions"] / peer["instructions"] if peer else float("nan")
    return (
        f"{label:20} {core:10} {ours['instructions']:>12,} {ratio:>6.3f} {ours['macs_per_instruction']:>6.2f} "
        f"{ours['code_bytes']:>7,} {ours['constant_bytes']:>10,} {ours['arena_bytes']:>10,} {ours['floor_bytes']:>10,} "
        f"{ours['stack_bytes']:>6,} {ours['compile_seconds']:>6.1f} {ours['host_microseconds']:>9,}"
    )


def worse(before: Figures, now: Figures) -> list[str]:
    """Recorded figures that grew by more than one percent."""
    found = []
    for label, cores in now["models"].items():
        for core, figures in cores.items():
            old = before.get("models", {}).get(label, {}).get(core, {})
            found += [
                f"{label} on {core}: {key} {old[key]:,} → {figures[key]:,}"
                for key in GUARDED
                if key in old and figures[key] > old[key] * WORSE
            ]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--update", action="store_true", help="record the figures")
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"some of {', '.join(MODELS)}")
    arguments = parser.parse_args()
    peers = json.loads(PEERS.read_text("utf-8"))
    print(
        f"{'model':20} {'core':10} {'instructions':>12} {'/peer':>6} {'MAC/i':>6} {'code':>7} {'constants':>10} {'arena':>10} "
        f"{'floor':>10} {'stack':>6} {'comp s':>6} {'host us':>9}"
    )
    results: Figures = {"help_seconds": command_line_seconds(), "models": {}}
    for label in arguments.models or MODELS:
        for core in BOARDS:
            figures = measured(label, core)
            results["models"].setdefault(label, {})[core] = figures
            print(row(label, core, figures, peers), flush=True)
    before = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
    if arguments.update or not before:
        merged = {**before.get("models", {}), **results["models"]}
        RESULTS.write_text(json.dumps({**results, "models": merged}, indent=1) + "\n", "utf-8")
        return
    grown = worse(before, results)
    if grown:
        sys.exit("worse than recorded (--update records the new figures):\n" + "\n".join(grown))


if __name__ == "__main__":
    main()
