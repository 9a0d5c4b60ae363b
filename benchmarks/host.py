# SPDX-License-Identifier: Apache-2.0
"""What depends on the computer: the generated C beside LiteRT in one run, and how long commands take."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pillion.boards.host import HostModel
from pillion.boards.project_layout import host_folder
from pillion.program import Program
from pillion.run.executor import DEFAULTS, RunOptions
from pillion.run.host_executor import files_for_host
from pillion.run.project_folder import temporary_project

Figures = dict[str, Any]
PILLION = str(Path(sys.executable).with_name("pillion"))
LARGE = Path(__file__).resolve().with_name("large.py")
KIB_OF_MB = 1e6 / 1024


ROUNDS = 15
MOST_RUNS, SECONDS_OF_TURN = 20, 0.03
"""Runs of one turn, of which the shortest counts: as many as fit in so many seconds, one at least."""
NATIVE = RunOptions(native=True)

Turn = Callable[[int], float]
"""Makes so many runs, and gives the seconds of the shortest."""


def speeds(program: Program) -> Figures:
    """Milliseconds of one inference on one core: ours, and LiteRT's two sets of kernels. They take turns, and the shortest run of
    each counts, so that whatever else the computer does disturbs them alike and as little as can be."""
    with ExitStack() as stack:
        generic, native = (_model(stack, program, options) for options in (DEFAULTS, NATIVE))
        turns: dict[str, Turn] = {
            "generic_ms": lambda runs: min(generic.nanoseconds(runs)) / 1e9,
            "native_ms": lambda runs: min(native.nanoseconds(runs)) / 1e9,
            **litert(program.tflite()),
        }
        best = {name: turn(1) for name, turn in turns.items()}
        for _ in range(ROUNDS):
            for name, turn in turns.items():
                runs = max(1, min(MOST_RUNS, int(SECONDS_OF_TURN / best[name])))
                best[name] = min(best[name], turn(runs))
    return {name: round(1000 * least, 4) for name, least in best.items()}


def _model(stack: ExitStack, program: Program, options: RunOptions) -> HostModel:
    """The C of a program, ready to run as `pillion run` would do it."""
    folder = stack.enter_context(temporary_project(files_for_host(program, options)))
    return stack.enter_context(HostModel(host_folder(folder), native=options.native))


def litert(model: bytes) -> dict[str, Turn]:
    """Turns of LiteRT's reference kernels, and of those that it takes by default; none where it is not installed."""
    try:
        import ai_edge_litert.interpreter as lib
    except ImportError:
        return {}
    resolvers = {
        "litert_reference_ms": lib.OpResolverType.BUILTIN_REF,
        "litert_default_ms": lib.OpResolverType.AUTO,
    }
    return {
        name: partial(_shortest, _interpreter(lib, model, resolver).invoke)
        for name, resolver in resolvers.items()
    }


def _shortest(action: Callable[[], object], runs: int) -> float:
    return min(_seconds(action) for _ in range(runs))


def _interpreter(lib: Any, model: bytes, resolver: Any) -> Any:
    runner = lib.Interpreter(model_content=model, experimental_op_resolver_type=resolver, num_threads=1)
    runner.allocate_tensors()
    for wanted in runner.get_input_details():
        runner.set_tensor(wanted["index"], np.zeros(wanted["shape"], wanted["dtype"]))
    return runner


def _seconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def computer() -> str:
    """The processor, as far as the system says."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{(names or [platform.machine()])[0]}, {os.cpu_count()} cores"


def command(arguments: list[str], repeat: int, code: int = 0) -> Figures:
    """A command line from process start to end, the best of some: seconds by the clock, of the processors' time, and the most
    memory. On a computer that does other things too only the last two say much."""
    runs = []
    for _ in range(repeat):
        start = time.perf_counter()
        process = subprocess.Popen(
            [PILLION, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != code:
            raise subprocess.CalledProcessError(process.returncode, process.args)
        clock = time.perf_counter() - start
        runs.append((clock, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / KIB_OF_MB))
    clock, processors, peak = (min(column) for column in zip(*runs, strict=True))
    return {"clock": round(clock, 2), "processors": round(processors, 2), "peak_mb": round(peak)}


FIRST_ANSWERS: dict[str, tuple[list[str], int]] = {
    "targets": (["targets"], 0),
    "models": (["models"], 0),
    "ops": (["ops"], 0),
    "doctor": (["doctor"], 0),
    "wrong_option": (["compile", "--nothing"], 2),
    "wrong_model": (["compile", "-m", "ds_cn", "-t", "cortex-m55", "-q", "-o", "out"], 2),
    "wrong_target": (["compile", "-m", "ds_cnn", "-t", "cortex-m5", "-q", "-o", "out"], 2),
}
"""What is to be answered within 0.3 s, with its exit code."""


def commands() -> Figures:
    """`pillion --help` and other first answers, MobileNetV2 to a .pte, and nets that are large in one way each."""
    with tempfile.TemporaryDirectory() as folder:
        out, chain = (str(Path(folder) / name) for name in ("model.pte", "chain.tflite"))
        project = str(Path(folder) / "project")
        from_torch = ["compile", "-t", "cortex-m55", "--quantize"]
        return {
            "help": command(["--help"], 3),
            **{name: command(words, 3, code) for name, (words, code) in FIRST_ANSWERS.items()},
            "mobilenet_v2_pte": command([*from_torch, "-m", "mobilenet_v2", "-o", out], 2),
            "dense": command([*from_torch, "-m", f"{LARGE}:dense", "-o", project], 1),
            "chain": command([*from_torch, "-m", f"{LARGE}:chain", "-o", chain], 1),
            "chain_tflite": command(["compile", "-m", chain, "-t", "cortex-m55", "-o", project], 1),
            "chain_tflite_npu": command(["compile", "-m", chain, "-t", "imxrt700", "-o", project], 1),
            "wide": command([*from_torch, "-m", f"{LARGE}:wide", "-o", project], 1),
        }
