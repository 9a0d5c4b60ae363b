# SPDX-License-Identifier: Apache-2.0
"""The delegate `PillionBackend` in ExecuTorch's own runtime on emulated cores: `cd tests && python -m judge.delegate` prints a line for each
model of the table in docs/guide/executorch-delegate.md. With `--update`, the figures are recorded in benchmarks/results.json."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pillion
from fuzz.properties import require_same
from image_programs import kernel_numbers
from judge.machine import CORES, FOLDER, IMAGES, RUNTIMES, Answer, Core, judged, missing
from judge.zoo import RESULTS
from pillion import zoo
from pillion.devices import cortex_m
from pillion.emitters.image.kernel_set import kernel_set_files, write_kernel_set
from pillion.emitters.pte import Runtime
from pillion.program import Program
from pillion.run.verify import random_samples
from pillion.targets import find_target

PEERS = RESULTS.with_name("peers.json")
MODELS = (
    "ds_cnn",
    "resnet8",
    "mobilenet_v1_025",
    "deep_autoencoder",
    "mobilenet_v3_small",
    "mobilenet_v2@96",
)
"""The models of ExecuTorch's own flow with recorded figures; mobilenet_v2 in full size takes minutes: name it."""


@cache
def missing_tools() -> str:
    """Why no firmware can be linked here; empty where one can."""
    if missing():
        return missing()
    command = ["arm-none-eabi-g++", "-mcpu=cortex-m55", "-mfloat-abi=hard", "-x", "c++", "-E", "-"]
    found = subprocess.run(command, input=b"#include <cstddef>", capture_output=True, check=False)
    if found.returncode == 0:
        return ""
    return "not installed: libstdc++-arm-none-eabi-newlib"


def firmware(folder: Path, programs: Sequence[Program], core: Core, runtime: Runtime) -> Path:
    """Links ExecuTorch's runtime with the delegate and the kernels of programs, without warnings of ours."""
    kernels, elf = folder / "kernels", folder / f"{core}_{runtime}.elf"
    numbers = kernel_numbers(program.lowered for program in programs)
    files = kernel_set_files(numbers, cortex_m.CORES[CORES[core]], delegate=True)
    write_kernel_set(files, kernels, force=True)
    sources = [str(path) for path in sorted(kernels.rglob("*.c*")) if path.suffix in (".c", ".cpp")]
    flags = (f"-I{kernels}", f"-I{kernels / 'include'}", "-ffp-contract=off")
    script = FOLDER / "sdk" / "build_image.sh"
    subprocess.run(
        ["sh", str(script), core, IMAGES[runtime], str(elf), *sources, *flags],
        check=True,
        capture_output=True,
    )
    return elf


def answer_of(program: Program, elf: Path, core: Core, runtime: Runtime, samples: int = 2) -> Answer:
    """Runs a program in that firmware; the complaint says if an output differs from `program.run`."""
    fed = random_samples(program.graph, samples, seed=3)
    pte = program.pte(runtime, kernels="pillion")
    answer = judged(pte, program.graph.outputs, fed, core, runtime, image=elf)
    try:
        for inputs, outputs in zip(fed, answer.outputs, strict=answer.ok):
            require_same(program.graph, program.run(*inputs), outputs, program.graph.name)
    except AssertionError as difference:
        return dataclasses.replace(answer, complaint=str(difference))
    return answer


@dataclass(frozen=True)
class Row:
    """A model on a core: its answers, and the figures of the C project and of ExecuTorch's own flow."""

    model: str
    core: Core
    answer: Answer
    arena_bytes: int
    project_instructions: int
    peer_instructions: int

    @property
    def share(self) -> float:
        """The instructions of a whole `Method::execute`, as a share of those of ExecuTorch's own flow."""
        return max(self.answer.instructions, default=0) / self.peer_instructions

    def __str__(self) -> str:
        instructions, planned = max(self.answer.instructions, default=0), self.answer.planned
        told = f"{instructions:13,} {self.share:.3f}  planned {planned:,} of {self.arena_bytes:,}"
        return f"{self.model:20} {self.core} {told}  {self.answer.complaint or 'equal'}"


def rows(names: Sequence[str], runtime: Runtime = RUNTIMES[0]) -> Iterator[Row]:
    """One firmware for each core runs all models."""
    peers = json.loads(PEERS.read_text("utf-8"))["executorch"]
    projects = json.loads(RESULTS.read_text("utf-8"))["models"]
    with tempfile.TemporaryDirectory() as folder:
        programs = {name: _compiled(name) for name in names}
        for core, target in CORES.items():
            here = {n: dataclasses.replace(p, target=find_target(target)) for n, p in programs.items()}
            elf = firmware(Path(folder), list(here.values()), core, runtime)
            for name, program in here.items():
                counts = (table[name][target]["instructions"] for table in (projects, peers))
                answer = answer_of(program, elf, core, runtime)
                yield Row(name, core, answer, program.memory.arena_bytes, *counts)


def _compiled(name: str) -> Program:
    model, _, size = name.partition("@")
    module, example = zoo.build(model, int(size) if size else None)
    return pillion.compile(module, example, target=CORES["m33"], name=model)


def record(found: Sequence[Row]) -> None:
    """Records instructions and planned memory."""
    results = json.loads(RESULTS.read_text("utf-8"))
    for one in found:
        figures = {"instructions": max(one.answer.instructions), "planned_bytes": one.answer.planned}
        results.setdefault("delegate", {}).setdefault(one.model, {})[CORES[one.core]] = figures
    RESULTS.write_text(json.dumps(results, indent=1) + "\n", "utf-8")


def main(args: Sequence[str]) -> int:
    """Prints the rows of some models, or of most; how many are wrong."""
    if missing_tools():
        sys.exit(missing_tools())
    found: list[Row] = []
    for one in rows([name for name in args if name != "--update"] or MODELS):
        print(one, flush=True)
        found.append(one)
    wrong = sum(bool(one.answer.complaint) for one in found)
    if "--update" in args and not wrong:
        record(found)
    return wrong


if __name__ == "__main__":
    raise SystemExit(min(main(sys.argv[1:]), 1))
