# SPDX-License-Identifier: Apache-2.0
"""What a sweep costs beyond its jobs: many tiny variants in a bare loop and on workers, in processor seconds and by the clock.

    python benchmarks/sweep.py [--jobs 1000] [--workers 2]

Processor seconds are those of all processes together, start and imports included; other programs on the same cores do not change them
much. By the clock, overhead is the part of the workers' time, from the first result to the last, in which they did no job."""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

NET = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv, self.linear = nn.Conv2d(1, width, 3), nn.Linear(width, 10)

    def forward(self, x):
        return self.linear(self.conv(x).relu().mean((2, 3)))

def example_inputs(side):
    return (torch.randn(1, 1, side, side),)
"""
PLAN = """
[[model]]
source = "net.py:Net"
[model.arguments]
width = {{ low = 1, high = {widths}, step = 1 }}
side = {{ low = 6, high = 15, step = 1 }}
[options]
target = ["cortex-m3", "cortex-m33", "cortex-m55", "imxrt700"]
[measure]
instructions = false
"""
LOOP = """
import sys
from pathlib import Path
from pillion.sweep import job_worker
from pillion.sweep.sweep_file import read_plan
from pillion.sweep.variants import all_jobs
for job in all_jobs(read_plan(Path(sys.argv[1]))):
    assert job_worker.run_job(job).result.failure is None
"""
PER_WIDTH = 40


def processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def timed(command: list[str]) -> tuple[float, float, str]:
    """Processor seconds and seconds of a command, and what it printed."""
    before, begun = processor_seconds(), time.perf_counter()
    done = subprocess.run([sys.executable, *command], check=True, capture_output=True, text=True)
    return processor_seconds() - before, time.perf_counter() - begun, done.stdout


def idle_share(folder: Path, rows: list[dict[str, float]], workers: int) -> float:
    """The part of the workers' time in which they did no job, by the times at which results were written. What each was doing when the
    first result came is not known, so the first jobs, which import PyTorch, are left out."""
    written = sorted((path.stat().st_mtime, path.parent.name) for path in folder.glob("jobs/*/result.json"))
    seconds = {str(row["folder"]).rpartition("/")[2]: row["seconds"] for row in rows}
    first = workers * 2
    span = written[-1][0] - written[first - 1][0]
    return 1 - sum(seconds[name] for _, name in written[first:]) / (workers * span)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=2)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "net.py").write_text(NET)
        (folder / "sweep.toml").write_text(PLAN.format(widths=max(2, asked.jobs // PER_WIDTH)))
        file, out = str(folder / "sweep.toml"), folder / "out"
        bare, bare_clock, _ = timed(["-c", LOOP, file])
        command = ["-m", "pillion", "sweep", file, "-o", str(out), "--workers", str(asked.workers), "--json"]
        swept, clock, answer = timed(command)
        again, again_clock, _ = timed(command)
        facts = json.loads(answer)
        assert facts["failed"] == 0
        print(f"{facts['variants']:,} variants on {asked.workers} workers")
        print(f"bare loop      {bare:7.1f} processor seconds  {bare_clock:7.1f} s")
        print(f"sweep          {swept:7.1f} processor seconds  {clock:7.1f} s")
        print(f"all kept       {again:7.1f} processor seconds  {again_clock:7.1f} s")
        print(f"overhead       {swept / bare - 1:7.1%} of processor seconds")
        print(f"workers idle   {idle_share(out, facts['table'], asked.workers):7.1%} of their time")


if __name__ == "__main__":
    main()
