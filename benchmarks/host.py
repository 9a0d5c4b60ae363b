# SPDX-License-Identifier: Apache-2.0
"""What depends on the computer: the generated C beside LiteRT in one run, and how long commands take."""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from pillion.boards.host import HostModel
from pillion.executors import host_folder
from pillion.program import Program

Figures = dict[str, Any]
PILLION = str(Path(sys.executable).with_name("pillion"))


def speeds(program: Program) -> Figures:
    """Milliseconds of one inference on one core, median of some: ours, and LiteRT's two sets of kernels."""
    with tempfile.TemporaryDirectory() as folder:
        project = host_folder(program.firmware(Path(folder) / "fw"))
        generic, native = HostModel(project), HostModel(project, native=True)
        figures = {
            "generic_ms": round(generic.microseconds(5) / 1000, 2),
            "native_ms": round(native.microseconds(15) / 1000, 2),
        }
    return {"computer": computer(), **figures, **litert(program.tflite())}


def litert(model: bytes) -> Figures:
    """LiteRT's reference kernels, and the ones that it takes by default; nothing where it is not installed."""
    try:
        import ai_edge_litert.interpreter as lib
    except ImportError:
        return {}
    resolvers = {
        "litert_reference_ms": (lib.OpResolverType.BUILTIN_REF, 3),
        "litert_default_ms": (lib.OpResolverType.AUTO, 15),
    }
    return {name: _interpreted(lib, model, *how) for name, how in resolvers.items()}


def _interpreted(lib: Any, model: bytes, resolver: Any, repeat: int) -> float:
    runner = lib.Interpreter(model_content=model, experimental_op_resolver_type=resolver, num_threads=1)
    runner.allocate_tensors()
    for wanted in runner.get_input_details():
        runner.set_tensor(wanted["index"], np.zeros(wanted["shape"], wanted["dtype"]))
    runner.invoke()
    return round(1000 * statistics.median(_seconds(runner.invoke) for _ in range(repeat)), 2)


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


def command_seconds(arguments: list[str], repeat: int) -> tuple[float, float]:
    """A command line from process start to end, the best of some: by the clock, and of the processors' time. On a computer
    that does other things too only the second says much."""
    times = []
    for _ in range(repeat):
        before = os.times()
        subprocess.run([PILLION, *arguments], capture_output=True, check=True)
        after = os.times()
        spent = after.children_user - before.children_user + after.children_system - before.children_system
        times.append((after.elapsed - before.elapsed, spent))
    clock, processors = (min(column) for column in zip(*times, strict=True))
    return round(clock, 2), round(processors, 2)


def commands() -> Figures:
    """`pillion --help`, and MobileNetV2 to a .pte."""
    with tempfile.TemporaryDirectory() as folder:
        out = str(Path(folder) / "model.pte")
        compile_pte = ["compile", "-m", "mobilenet_v2", "-t", "cortex-m55", "--quantize", "-o", out]
        measured = {
            "help": command_seconds(["--help"], 3),
            "mobilenet_v2_pte": command_seconds(compile_pte, 2),
        }
    return {name: {"clock": clock, "processors": spent} for name, (clock, spent) in measured.items()}
