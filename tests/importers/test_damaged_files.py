# SPDX-License-Identifier: Apache-2.0
"""Damaged files through the whole compiler: what is not refused becomes C that compiles. Seeded; longer runs found nothing
more in 23,000 files."""

from __future__ import annotations

import io
import random
import subprocess
from pathlib import Path

import numpy as np
import pytest
from damage import changed_tables, damaged
from pte_seeds import FOREIGN, small_files
from test_tflite_hostile import SEEDS

from nightly import part_of
from pillion.boards.firmware import C_FLAGS
from pillion.compiler import compile_graph
from pillion.errors import PillionError
from pillion.host_io.atomic_files import write_parts
from pillion.host_io.npy_files import UNREADABLE, read_arrays
from pillion.importers.pte import read as read_pte
from pillion.importers.tflite import read as read_tflite
from pillion.partition import inline_segments
from pillion.program import Program
from pillion.targets import find_target

TARGETS = ("cortex-m3", "cortex-m33", "cortex-m55", "imxrt700")
COMPILED = 6
"""Of the programs of a part: that many go to the C compiler."""


def compiled(raw: bytes, target: str, is_pte: bool) -> Program | None:
    """The program with all its files; None where it was refused."""
    try:
        graph = inline_segments(read_pte(raw).graph) if is_pte else read_tflite(raw)
        program = compile_graph(graph, find_target(target))
        assert program.files
        return program
    except PillionError:
        return None


def require_c(program: Program, folder: Path) -> None:
    """The model's own C, as portable as it comes, without a warning."""
    for path, content in program.files.items():
        write_parts(folder / path, content)
    inside = folder / ("host" if (folder / "host").is_dir() else "model")
    command = ["cc", *C_FLAGS, "-Ikernels/include", "-fsyntax-only", "model.c", "weights.c"]
    done = subprocess.run(command, cwd=inside, capture_output=True, text=True)
    assert not done.returncode, done.stderr


@pytest.mark.parametrize("part", part_of(range(3), 3))
def test_damaged_tflite_files(part: int, tmp_path: Path) -> None:
    rng = random.Random(part)
    made = [compiled(changed_tables(rng, rng.choice(SEEDS)), rng.choice(TARGETS), False) for _ in range(120)]
    programs = [program for program in made if program is not None]
    assert 10 < len(programs) < 110
    for number, program in enumerate(programs[:: len(programs) // COMPILED]):
        require_c(program, tmp_path / str(number))


def test_damaged_pte_files(tmp_path: Path) -> None:
    rng = random.Random(7)
    files = [*small_files(), *(path.read_bytes() for path in FOREIGN)]
    made = [compiled(damaged(rng, raw), "cortex-m33", True) for raw in rng.choices(files, k=200)]
    programs = [program for program in made if program is not None]
    assert 3 < len(programs) < 150
    for number, program in enumerate(programs[:2]):
        require_c(program, tmp_path / str(number))


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed, np.save], ids=lambda save: save.__name__)
def test_damaged_arrays(save: object, tmp_path: Path) -> None:
    held = io.BytesIO()
    arrays = {"x": np.arange(60.0).reshape(3, 20), "y": np.asfortranarray(np.eye(5, dtype=np.int8))}
    if save is np.save:
        np.save(held, arrays["x"])
    else:
        save(held, **arrays)  # type: ignore[operator]  # the two others
    rng, path, read = random.Random(3), tmp_path / "x.npz", 0
    path.write_bytes(held.getvalue())
    whole = read_arrays(path)
    found = {"x": whole} if isinstance(whole, np.ndarray) else whole
    assert all(np.array_equal(found[name], arrays[name]) for name in found)
    for _ in range(600):
        path.write_bytes(damaged(rng, held.getvalue()))
        try:
            read += bool(len(read_arrays(path)))
        except UNREADABLE:
            continue
    assert 0 < read < 600
