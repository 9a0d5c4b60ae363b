# SPDX-License-Identifier: Apache-2.0
"""Small sweeps: files that describe them, and workers that are this process."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from pillion.ir.graph import Graph
from pillion.ir.types import DType, PerTensor, TensorType, Value
from pillion.ops import Add, Lut
from pillion.ops.unary_functions import Function
from pillion.program import Program
from pillion.sweep import job_worker
from pillion.sweep.job_result import JobOutput
from pillion.sweep.jobs import Job
from pillion.sweep.sweep_file import SweepFile, read_plan
from pillion.targets import find_target

NET = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, width=4, bias=True):
        super().__init__()
        self.conv, self.linear = nn.Conv2d(1, width, 3, bias=bias), nn.Linear(width, 5)

    def forward(self, x):
        return self.linear(self.conv(x).relu().mean((2, 3)))

def example_inputs(side=7):
    return (torch.randn(1, 1, side, 5),)

def samples(side=7):
    return [torch.randn(1, 1, side, 5) for _ in range(3)]

def test(side=7):
    source = torch.Generator().manual_seed(1)
    return torch.randn(11, 1, side, 5, generator=source).numpy(), torch.arange(11).numpy() % 5

def spread(outputs, labels):
    return float(outputs.max() - outputs.min())
"""
FAST = "[measure]\ninstructions = false\n"
"""No emulator, which takes most of the time of a small job."""


def sweep_file(folder: Path, text: str, net: str = NET) -> Path:
    (folder / "net.py").write_text(net)
    (folder / "sweep.toml").write_text(text)
    return folder / "sweep.toml"


def plan_of(folder: Path, text: str, net: str = NET) -> SweepFile:
    return read_plan(sweep_file(folder, text, net))


def int8_file(folder: Path, name: str = "small.tflite") -> Path:
    """A model for which nobody needs PyTorch."""
    scale = PerTensor(0.05, 3)
    x, y, z = (Value(n, TensorType((1, 3, 5, 2), DType.INT8, scale)) for n in "xyz")
    graph = Graph("small", (x,), (Lut(x=x, y=y, function=Function.TANH), Add(a=x, b=y, y=z)), (z,))
    (folder / name).write_bytes(Program(graph, find_target("cortex-m3")).tflite())
    return folder / name


INT8 = """
[[model]]
source = "small.tflite"
[options]
target = ["cortex-m0plus", "cortex-m3", "cortex-m4", "cortex-m7", "cortex-m23", "cortex-m33", "cortex-m35p", "cortex-m55", "cortex-m85"]
optimize = ["speed", "size"]
io_dtype = ["float32", "int8"]
"""
"""36 variants that take milliseconds."""


class Here:
    """Workers that are this process: a job is done when somebody waits for it."""

    count = 2

    def __init__(self) -> None:
        self.jobs: deque[Job] = deque()
        self.did: list[str] = []

    @property
    def waiting(self) -> int:
        return len(self.jobs)

    def submit(self, job: Job) -> None:
        self.jobs.append(job)

    def finished(self) -> tuple[Job, JobOutput]:
        job = self.jobs.popleft()
        self.did.append(job.key)
        return job, job_worker.run_job(job)

    @contextmanager
    def opened(self) -> Iterator[Here]:
        yield self


def labelled(folder: Path, count: int = 9) -> None:
    rng = np.random.default_rng(0)
    np.savez(
        folder / "data.npz",
        x=rng.standard_normal((count, 1, 7, 5)).astype(np.float32),
        y=np.arange(count) % 5,
    )
