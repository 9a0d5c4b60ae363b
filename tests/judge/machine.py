# SPDX-License-Identifier: Apache-2.0
"""The judge: ExecuTorch's own runtime and `cortex_m` kernels, with CMSIS-NN, on an emulated core. It lies beside the
project where Pillion is developed and is no part of it; everywhere else its recorded answers stand for it."""

from __future__ import annotations

import importlib.util
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Literal

import numpy as np

from pillion.emitters.pte import Runtime
from pillion.ir.types import Array, Value

FOLDER = Path(__file__).resolve().parents[2].parent / "shared" / "judge"
QEMU = "qemu-system-arm"
Core = Literal["m55", "m33"]
CORES: dict[Core, str] = {"m55": "cortex-m55", "m33": "cortex-m33"}
"""The judge's name of a core and Pillion's."""
RUNTIMES: tuple[Runtime, ...] = ("1.4", "1.5")
IMAGES = {"1.4": "1.4", "1.5": "main"}
"""The judge's name of a runtime."""
VERSIONS = {
    "ExecuTorch 1.4": "1.4.1 (e4d02f41)",
    "ExecuTorch 1.5": "cff6f4dd, August 2026: 1.5.1 without its operators for explicit layouts",
    "CMSIS-NN": "dbf45dbf",
    "boards": "mps3-an547 (Cortex-M55), mps2-an505 (Cortex-M33), QEMU",
}
"""What the judge's images were built of."""


def missing() -> str:
    """Why the judge cannot be asked here; empty where it can."""
    if not (FOLDER / "judge.py").is_file():
        return "the judge is not here: it lies in ../shared/judge where Pillion is developed"
    return "" if shutil.which(QEMU) else f"not installed: {QEMU} (make tools)"


@dataclass(frozen=True)
class Answer:
    """What became of a program: its outputs for each sample, or why there are none."""

    ok: bool
    outputs: tuple[tuple[Array, ...], ...]
    instructions: tuple[int, ...]
    complaint: str
    steps: tuple[int, ...] = ()
    """Instructions of each call, where asked for."""
    planned: int = 0
    """The planned memory in bytes."""


@cache
def _judge() -> ModuleType:
    spec = importlib.util.spec_from_file_location("pillion_judge", FOLDER / "judge.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def judged(
    program: bytes,
    outputs: Sequence[Value],
    samples: Sequence[Sequence[Array]],
    core: Core,
    runtime: Runtime,
    steps: bool = False,
    image: Path | None = None,
) -> Answer:
    """Runs a `.pte` on an emulated core, all samples in one go; in a firmware `image` with more than the judge's, if there is one."""
    fed = b"".join(array.tobytes() for sample in samples for array in sample)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.pte"
        path.write_bytes(program)
        facts, raw = _judge().judge(path, fed, core=core, runtime=IMAGES[runtime], steps=steps, image=image)
    complaint = "; ".join([*facts["failed"], *facts["log"]][:4]) or f"exit code {facts['exit']}"
    wanted = sum(v.type.size_bytes for v in outputs) * len(samples)
    ok = facts["ok"] and not facts["failed"] and len(raw) == wanted
    arrays = _cut(raw, outputs, len(samples)) if ok else ()
    made = tuple(facts["instructions"])
    return Answer(
        ok, arrays, made, "" if ok else complaint, tuple(facts.get("steps", ())), sum(facts["planned"])
    )


def _cut(raw: bytes, outputs: Sequence[Value], count: int) -> tuple[tuple[Array, ...], ...]:
    found, at = [], 0
    for _ in range(count):
        arrays = []
        for value in outputs:
            size = value.type.size_bytes
            arrays.append(np.frombuffer(raw[at : at + size], value.dtype.numpy).reshape(value.shape))
            at += size
        found.append(tuple(arrays))
    return tuple(found)
