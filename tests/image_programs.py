# SPDX-License-Identifier: Apache-2.0
"""Builds kernel sets for this computer, and runs program images with them (tests/data/images/driver.c)."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from pillion.devices.cortex_m import CORES
from pillion.emitters.c.lower import CProgram
from pillion.emitters.c.npu_segments import npu_header, segment_reference_files, segment_steps
from pillion.emitters.image.kernel_abi import kernel_abi
from pillion.emitters.image.kernel_set import kernel_set_files, write_kernel_set
from pillion.emitters.image.reader import ProgramImage
from pillion.emitters.image.writer import image_bytes
from pillion.host_io.atomic_files import Content
from pillion.ir.types import Array

DRIVER = Path(__file__).parent / "data" / "images" / "driver.c"
FLAGS = ("-std=c11", "-O1", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-ffp-contract=off")
CHECKED = ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def kernel_numbers(programs: Iterable[CProgram | ProgramImage]) -> list[int]:
    """Returns the numbers of the kernels that programs call."""
    abi, numbers = kernel_abi(), set[int]()
    for p in programs:
        numbers.update(p.kernels if isinstance(p, ProgramImage) else (abi.number(r.name) for r in p.routines))
    return sorted(numbers)


def build_driver(
    folder: Path, programs: Sequence[CProgram | ProgramImage], flags: Sequence[str] = CHECKED
) -> Path:
    """Returns the driver with a set of the kernels of these programs, as an executable for this computer. The references of a single
    program's NPU segments are linked, too."""
    files: dict[str, Content] = {}
    inner: list[CProgram] = []
    first = programs[0]
    if len(programs) == 1 and isinstance(first, CProgram) and segment_steps(first):
        files, inner = segment_reference_files(first)
        files |= npu_header(first)
        name, more = first.graph.name, ", workspace" * bool(first.workspaces)
        cases = [
            f"case {n}: {name}_npu_segment_{n}(inputs, outputs{more}); break;" for n in range(len(inner))
        ]
        flags = (*flags, f"-DSEGMENTS={' '.join(cases)}")
    numbers = kernel_numbers([*programs, *inner])
    kernels = folder / hashlib.sha256(repr(numbers).encode()).hexdigest()[:12]
    write_kernel_set(kernel_set_files(numbers, CORES["cortex-m3"]), kernels)
    for path, content in files.items():
        (kernels / path).write_bytes(content.encode() if isinstance(content, str) else bytes(content))
    sources = [str(path) for path in sorted(kernels.rglob("*.c"))]
    command = ["cc", *FLAGS, *flags, f"-I{kernels}", f"-I{kernels}/include", str(DRIVER), *sources]
    subprocess.run([*command, "-lm", "-o", str(kernels / "driver")], check=True)
    return kernels / "driver"


def write_image(folder: Path, program: CProgram, core: str = "cortex-m3") -> Path:
    """Returns the file of a program's image."""
    file = folder / f"{program.graph.name}.plm"
    file.write_bytes(image_bytes(program, core))
    return file


def run_image(driver: Path, image: Path, samples: Sequence[Sequence[Array]]) -> bytes:
    """Returns the outputs of an image for samples, of which the first follows a reset."""
    given, made = image.with_suffix(".in"), image.with_suffix(".out")
    given.write_bytes(b"".join(np.ascontiguousarray(x).tobytes() for sample in samples for x in sample))
    done = subprocess.run(
        [str(driver), str(image), str(given), str(made)], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.split()[0] == "0", f"refused: {done.stdout}"
    outputs = made.read_bytes()
    plain, bound = outputs[: len(outputs) // 2], outputs[len(outputs) // 2 :]
    assert plain == bound, "the run-time gives other bytes when its calls are resolved"
    return plain


def status_of(driver: Path, image: bytes, folder: Path) -> int:
    """Returns the result of pillion_image_open."""
    file = folder / "one.plm"
    file.write_bytes(image)
    (folder / "empty").write_bytes(b"")
    command = [str(driver), str(file), str(folder / "empty"), str(folder / "none")]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return int(done.stdout.split()[0])
