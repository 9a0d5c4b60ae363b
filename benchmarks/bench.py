# SPDX-License-Identifier: Apache-2.0
"""Measures every model and every kernel shape on emulated Cortex-M55 and -M33, and speed on this computer.

    python benchmarks/bench.py              measure, print, fail where a recorded figure got worse by more than 1 %
    python benchmarks/bench.py --update     measure, print, record in benchmarks/results.json
    python benchmarks/bench.py ds_cnn       only some models
    python benchmarks/bench.py --host       only times on this computer (with --update, they are recorded)
    python benchmarks/bench.py --stripes    only what runs a few rows at a time; models may be named
    python benchmarks/bench.py --streams    only what is fed a few frames at a time; networks may be named
    python benchmarks/bench.py --scalar     only cores without SIMD
    python benchmarks/bench.py --counted    all but these times
    python benchmarks/bench.py --whole      of that, what runs whole: neither a few rows nor a few frames at a time

Instructions are counted in the emulator: they are the same on every computer, and they are not cycles. peers.json has
the figures of others; docs/performance.md is made from both files (make docs)."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import host
import micro
import stripes
import variants
from compare import GUARDED, worse

import pillion
import streams
from pillion import zoo
from pillion.boards.toolchain import QEMU, arm_compiler
from pillion.ops.layer import Layer
from pillion.option_values import Optimize
from pillion.program import Program

HERE = Path(__file__).resolve().parent
RESULTS, PEERS = HERE / "results.json", HERE / "peers.json"

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
WITHOUT_SIMD = {"cortex-m3": "mps2-an385", "cortex-m0": "microbit"}
SMALL = ("ds_cnn", "resnet8", "mobilenet_v1_025", "deep_autoencoder")
"""Models that are measured on these, too."""
FOR_SIZE = ("ds_cnn", "mobilenet_v2@96")
"""Models that are measured with --optimize size too."""
ON_HOST = (
    "mobilenet_v2",
    "mobilenet_v3_small",
    "resnet8",
    "mobilenet_v1_025",
    "ds_cnn",
    "deep_autoencoder",
)
"""The models that are timed on this computer."""
ANY_CORE = "cortex-m55"

Figures = dict[str, Any]


def compiled(label: str, core: str, optimize: Optimize = "speed") -> tuple[Program, float]:
    """The program, all ops of which run whole, and the processor seconds that the compilation took."""
    name, size = MODELS[label]
    module, example = zoo.build(name, size)
    calibrate = zoo.random_inputs(name, 1, size)
    start = time.process_time()
    program = pillion.compile(
        module, example, target=core, calibrate=calibrate, name=name, optimize=optimize, extra=0
    )
    program.files  # noqa: B018  # writing the text is part of compiling
    return program, time.process_time() - start


def measured(label: str, core: str, optimize: Optimize = "speed") -> Figures:
    """All figures of a model on the emulated board of a core."""
    program, seconds = compiled(label, core, optimize)
    name, size = MODELS[label]
    inputs = [x.numpy() for x in zoo.random_inputs(name, 1, size, seed=3)[0]]
    profile = program.measure(*inputs, on={**BOARDS, **WITHOUT_SIMD}[core], timeout=300).profile
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
    layers = [op for op in program.graph.ops if isinstance(op, Layer)]
    return {
        "instructions": profile.instructions,
        "macs": program.graph.macs,
        "macs_per_instruction": round(program.graph.macs / profile.instructions, 3),
        "code_bytes": profile.code_bytes,
        "constant_bytes": program.lowered.constant_bytes,
        "weights": sum(op.weights.type.elements for op in layers),
        "output_channels": sum(op.y.shape[-1] for op in layers),
        "arena_bytes": program.memory.arena_bytes,
        "floor_bytes": program.memory.floor_bytes,
        "stack_bytes": profile.stack_bytes,
        "compile_seconds": round(seconds, 2),
        "ops": ops,
    }


def tools() -> str:
    """Compiler and emulator: the figures hold for these."""
    commands = [[*arm_compiler(), "--version"], [QEMU.path(), "--version"]]
    done = [subprocess.run(c, capture_output=True, text=True, check=True) for c in commands]
    return "; ".join(d.stdout.splitlines()[0] for d in done)


def row(label: str, core: str, ours: Figures, peers: Figures) -> str:
    """One line of what is printed."""
    peer = peers["executorch"].get(label, {}).get(core, {})
    ratio = ours["instructions"] / peer["instructions"] if peer else float("nan")
    return (
        f"{label:20} {core:10} {ours['instructions']:>12,} {ratio:>6.3f} {ours['macs_per_instruction']:>6.2f} "
        f"{ours['code_bytes']:>7,} {ours['constant_bytes']:>10,} {ours['arena_bytes']:>10,} {ours['floor_bytes']:>10,} "
        f"{ours['stack_bytes']:>6,} {ours['compile_seconds']:>6.1f}"
    )


def micro_rows(figures: Figures, peers: Figures) -> Iterator[str]:
    for core, shapes in figures.items():
        for name, ours in shapes.items():
            peer = peers["cmsis_nn"].get(name, {}).get(core)
            ratio = f"{ours['instructions'] / peer:6.3f}" if peer else "     -"
            rate = f"{ours['macs'] / ours['instructions']:6.2f}" if ours["macs"] else "     -"
            yield f"{name:26} {core:10} {ours['instructions']:>12,} {ratio} {rate}  {ours['kernel']}"


def measure_models(labels: list[str], peers: Figures) -> Figures:
    print(
        f"{'model':20} {'core':10} {'instructions':>12} {'/peer':>6} {'MAC/i':>6} {'code':>7} {'constants':>10} {'arena':>10} "
        f"{'floor':>10} {'stack':>6} {'comp s':>6}"
    )
    models: Figures = {}
    for label in labels:
        for core in BOARDS:
            figures = measured(label, core)
            models.setdefault(label, {})[core] = figures
            print(row(label, core, figures, peers), flush=True)
    return models


def measure_ways(labels: list[str], way: ModuleType) -> Figures:
    """Models that run in a way of their own: a few rows at a time (`stripes`), or fed a few frames at a time (`streams`)."""
    found: Figures = {}
    for label in labels:
        for core, board in BOARDS.items():
            figures = way.measured(label, core, board)
            found.setdefault(label, {})[core] = figures
            print(way.lines(label, core, figures), flush=True)
    return found


def measure_variants() -> Figures:
    """Ops that have kernels for the core, in networks that have these ops."""
    found: Figures = {}
    for label in variants.NETS:
        for core, board in BOARDS.items():
            figures = variants.measured(label, core, board)
            found.setdefault(label, {})[core] = figures
            before, now = figures["portable"]["instructions"], figures["instructions"]
            print(f"{label:46} {core:10} {before:>12,} {now:>12,}", flush=True)
    return found


def measure_scalar(peers: Figures) -> Figures:
    """Models on cores without SIMD."""
    scalar: Figures = {}
    print("cores without SIMD:")
    for label in SMALL:
        for core in WITHOUT_SIMD:
            figures = measured(label, core)
            print(row(label, core, figures, peers), flush=True)
            scalar.setdefault(label, {})[core] = {
                key: figures[key] for key in (*GUARDED, "macs_per_instruction") if key in figures
            }
    return scalar


def measure_whole(peers: Figures) -> Figures:
    """What is not asked for by a model's name, of ops that run whole."""
    sizes: Figures = {}
    print("--optimize size:")
    for label in FOR_SIZE:
        for core in BOARDS:
            figures = measured(label, core, "size")
            print(row(label, core, figures, peers), flush=True)
            sizes.setdefault(label, {})[core] = {key: figures[key] for key in GUARDED if key in figures}
    scalar = measure_scalar(peers)
    micros = {core: micro.measured(core, board) for core, board in BOARDS.items()}
    print("\n".join(micro_rows(micros, peers)))
    return {"size": sizes, "scalar": scalar, "micro": micros, "variants": measure_variants()}


def measure_parts() -> Figures:
    """What runs a few rows or a few frames at a time."""
    rows = measure_ways(list(stripes.MODELS), stripes)
    return {"stripes": rows, "streams": measure_ways(list(streams.MODELS), streams)}


def measure_times() -> Figures:
    """What depends on this computer, and on what else it does."""
    speeds, seconds = measure_on_host(), host.commands()
    print(seconds)
    return {"host": speeds, "seconds": seconds}


def measure_on_host() -> Figures:
    """Milliseconds on this computer, beside LiteRT's."""
    models: Figures = {}
    for label in ON_HOST:
        models[label] = host.speeds(compiled(label, ANY_CORE)[0])
        print(f"{label:20}", models[label], flush=True)
    return {"computer": host.computer(), "models": models}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--update", action="store_true", help="record the figures")
    parser.add_argument("--host", action="store_true", help="only times on this computer")
    parser.add_argument("--stripes", action="store_true", help="only what runs a few rows at a time")
    parser.add_argument("--streams", action="store_true", help="only what is fed a few frames at a time")
    parser.add_argument("--scalar", action="store_true", help="only cores without SIMD")
    parser.add_argument("--counted", action="store_true", help="all but times on this computer")
    parser.add_argument("--whole", action="store_true", help="of that, only what runs whole")
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"some of {', '.join(MODELS)}")
    arguments = parser.parse_args()
    peers = json.loads(PEERS.read_text("utf-8"))
    before = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
    if arguments.scalar:
        results: Figures = {"scalar": measure_scalar(peers), "models": {}}
    elif arguments.host:
        results = {"host": measure_on_host(), "models": {}}
    elif arguments.stripes:
        results = {"stripes": measure_ways(arguments.models or list(stripes.MODELS), stripes), "models": {}}
    elif arguments.streams:
        results = {"streams": measure_ways(arguments.models or list(streams.MODELS), streams), "models": {}}
    else:
        results = {"tools": tools(), "models": measure_models(arguments.models or list(MODELS), peers)}
        results |= {} if arguments.models else measure_whole(peers)
        results |= {} if arguments.models or arguments.whole else measure_parts()
        results |= {} if arguments.models or arguments.whole or arguments.counted else measure_times()
    grown = worse(before, results)
    if arguments.update:
        merged = {**before, **results}
        for part in ("models", "stripes", "streams"):
            merged[part] = {**before.get(part, {}), **results.get(part, {})}
        RESULTS.write_text(json.dumps(merged, indent=1) + "\n", "utf-8")
    elif grown:
        sys.exit("worse than recorded (--update records the new figures):\n" + "\n".join(grown))


if __name__ == "__main__":
    main()
