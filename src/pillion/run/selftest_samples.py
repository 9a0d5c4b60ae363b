# SPDX-License-Identifier: Apache-2.0
"""Self-tests: their samples, and their runs on this computer and on emulated boards."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from pillion.boards import selftest_runner
from pillion.boards.board import find_board
from pillion.boards.serial_link import open_board
from pillion.boards.serial_transport import is_board_place
from pillion.data.python_data import open_data
from pillion.data.sample import InputSpec, batch_samples
from pillion.emitters.c.manifest import Manifest, read_manifest
from pillion.errors import PillionError
from pillion.ir.graph import Graph
from pillion.ir.types import Array, Value
from pillion.run.emulated_board import check_board
from pillion.run.executor import HOST, TIMEOUT_SECONDS
from pillion.run.input_checks import check_fit, fit_to_graph
from pillion.run.serial_executor import require_same_program

SelfTestSamples = str | os.PathLike[str] | Sequence[Any]
"""A .npz or .npy file, or an array per input for each sample; a single input needs no list."""
MOST_SAMPLES = 10_000


def samples_of(graph: Graph, given: SelfTestSamples) -> list[list[Array]]:
    """Returns arrays that fit a graph's inputs exactly; arrays that would need rounding are refused."""
    if isinstance(given, (str, os.PathLike)):
        return _samples_of_file(graph, Path(given))
    return [_fit_sample(graph, sample if isinstance(sample, (list, tuple)) else [sample]) for sample in given]


def _fit_sample(graph: Graph, sample: Sequence[Any]) -> list[Array]:
    arrays = fit_to_graph(graph, sample)
    check_fit(graph, arrays)
    _require_finite(graph.inputs, arrays, "the samples")
    return arrays


def _require_finite(values: Sequence[Value], arrays: Sequence[Array], where: str) -> None:
    for value, array in zip(values, arrays, strict=True):
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise PillionError(
                f"input `{value.name}` of a self-test holds what is no number",
                rule="all elements are finite: cores differ in what they make of others",
                here=f"{int((~np.isfinite(array)).sum())} of {array.size} elements in {where}",
                help="numpy.nan_to_num(x), or other samples",
            )


def _samples_of_file(graph: Graph, file: Path) -> list[list[Array]]:
    """Returns the samples in a file, whose numbers are the inputs' own: no integer is rounded."""
    specs = [InputSpec(value.name, value.shape, value.dtype) for value in graph.inputs]
    read = islice(batch_samples(open_data(file).samples(specs), specs), MOST_SAMPLES + 1)
    samples = [list(arrays) for arrays, _ in read]
    for sample in samples:
        _require_finite(graph.inputs, sample, str(file))
    if len(samples) > MOST_SAMPLES:
        raise PillionError(
            f"{file} holds too many samples for a self-test",
            rule=f"at most {MOST_SAMPLES:,} samples: they lie in a device's flash",
            here="more",
            help="save fewer with numpy.savez",
        )
    return samples


def no_selftest_error(path: Path) -> PillionError:
    """Returns the error for an output format without a self-test."""
    return PillionError(
        f"{path} cannot hold a self-test",
        rule="--selftest goes with C projects and .pte files",
        here=f"suffix {path.suffix}",
        help=f"-o {path.stem}/ or -o {path.stem}.pte",
    )


@dataclass(frozen=True)
class SelfTestOutcome:
    """The result of a self-test: no difference, or the first differing op and element."""

    on: str
    differs: bool
    sample: int = 0
    op: int = 0
    op_name: str = ""
    result: int = 0
    element: int | None = None
    """None if only a checksum of the result is known."""


def run_selftest(folder: Path, on: str = HOST, timeout: float = TIMEOUT_SECONDS) -> SelfTestOutcome:
    """Compiles and runs the self-test of a C project, on this computer or on a board."""
    manifest = read_manifest(folder)
    if is_board_place(on):
        return _run_on_line(manifest, on, timeout)
    if on != HOST:
        check_board(manifest, find_board(on))
    output = selftest_runner.run_selftest(
        folder, None if on == HOST else find_board(on), manifest.files, manifest.optimize, timeout
    )
    return _parse_outcome(manifest, on, output)


def _run_on_line(manifest: Manifest, place: str, timeout: float) -> SelfTestOutcome:
    """Returns the result of the self-test of a board that holds the program."""
    with open_board(place) as link:
        require_same_program(manifest, link)
        wrong, sample, op, result, element = link.selftest(timeout)
    facts = {"selftest": wrong, "sample": sample, "op": op, "result": result, "element": element}
    return _parse_outcome(manifest, place, json.dumps(facts))


def _parse_outcome(manifest: Manifest, on: str, output: str) -> SelfTestOutcome:
    try:
        facts = next(json.loads(line) for line in output.splitlines() if line.startswith('{"selftest"'))
        wrong = int(facts["selftest"])
        if wrong == 0:
            return SelfTestOutcome(on, False)
        op = manifest.ops[wrong - 1]
        element = int(facts["element"])
        known = None if element == 2**32 - 1 else element
        return SelfTestOutcome(
            on, True, int(facts["sample"]), wrong - 1, f"{op.kind} {op.name}", int(facts["result"]), known
        )
    except (StopIteration, ValueError, KeyError, IndexError, TypeError):
        raise PillionError(
            f"the self-test of `{manifest.model}` gave no answer that makes sense",
            rule="main.c of the self-test prints one line of JSON",
            here="\n".join(output.strip().splitlines()[-4:]) or "nothing was printed",
            help="compile the model again: the files of this project may not belong together",
        ) from None
