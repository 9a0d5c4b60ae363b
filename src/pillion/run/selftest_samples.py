# SPDX-License-Identifier: Apache-2.0
"""Self-tests: their samples, and their runs on this computer and on emulated boards."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pillion.boards import selftest_runner
from pillion.boards.board import find_board
from pillion.emitters.c.manifest import Manifest, read_manifest
from pillion.errors import PillionError
from pillion.host_io.npy_files import UNREADABLE, read_arrays, reason
from pillion.ir.graph import Graph
from pillion.ir.types import Array, Value
from pillion.run.emulated_board import check_board
from pillion.run.executor import HOST, TIMEOUT_SECONDS
from pillion.run.input_checks import check_fit, fit_to_graph

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
    columns = [
        list(_split_input_array(graph, file, i, a)) for i, a in enumerate(_input_arrays_of_file(graph, file))
    ]
    counts = {len(column) for column in columns}
    if len(counts) != 1 or 0 in counts:
        raise _sample_mismatch_error(
            file, "as many samples for each input, and at least one", f"{sorted(counts)} samples"
        )
    return [list(sample) for sample in zip(*columns, strict=True)]


def _input_arrays_of_file(graph: Graph, file: Path) -> list[Array]:
    try:
        content = read_arrays(file)
    except UNREADABLE as error:
        raise _sample_mismatch_error(
            file, "a .npz file of arrays, or a .npy file of one", reason(error)
        ) from None
    arrays = list(content.values()) if isinstance(content, dict) else [content]
    names = [value.name for value in graph.inputs]
    if isinstance(content, dict) and set(content) == set(names):
        arrays = [content[name] for name in names]
    if len(arrays) != len(names):
        raise _sample_mismatch_error(
            file, f"an array for each of {', '.join(names)}", f"{len(arrays)} arrays"
        )
    return arrays


def _split_input_array(graph: Graph, file: Path, number: int, array: Array) -> Iterator[Array]:
    """Yields the samples of one input: an array of its shape, without the batch axis, or with a longer
    one."""
    value = graph.inputs[number]
    shape = value.shape
    if shape and array.shape == shape[1:] and shape[0] == 1:
        array = array[np.newaxis]
    is_whole = bool(shape) and array.ndim == len(shape) and array.shape[1:] == shape[1:]
    if array.shape != shape and not (is_whole and shape[0] and array.shape[0] % shape[0] == 0):
        rule = f"`{value.name}`: {list(shape)}, or a multiple of the first axis"
        raise _sample_mismatch_error(file, rule, f"{list(array.shape)}")
    exact = _convert_exactly(file, value, array)
    _require_finite([value], [exact], str(file))
    step = shape[0] if shape else 1
    parts = [exact] if not shape else [exact[at : at + step] for at in range(0, len(exact), step)]
    if len(parts) > MOST_SAMPLES:
        raise _sample_mismatch_error(
            file, f"at most {MOST_SAMPLES:,} samples: they lie in a device's flash", f"{len(parts):,}"
        )
    yield from parts


def _convert_exactly(file: Path, value: Value, array: Array) -> Array:
    """Returns the numbers in the input's type; floats may be rounded to float32, integers not at all."""
    dtype = value.dtype.numpy
    if array.dtype.kind not in "fiub":
        raise _sample_mismatch_error(file, f"`{value.name}`: {value.dtype.value}", f"{array.dtype}")
    with np.errstate(all="ignore"):
        cast = array.astype(dtype)
    is_float = np.dtype(dtype).kind == "f"
    if not is_float and (
        array.dtype.kind == "f" or not np.array_equal(cast.astype(np.int64), array.astype(np.int64))
    ):
        raise _sample_mismatch_error(
            file,
            f"`{value.name}`: {value.dtype.value}, as the program takes it",
            f"{array.dtype} from {_ends(array)}",
        )
    return np.ascontiguousarray(cast)


def _ends(array: Array) -> str:
    return f"{array.min()} to {array.max()}" if array.size else "no element"


def _sample_mismatch_error(file: Path, rule: str, here: str) -> PillionError:
    return PillionError(
        f"the samples of the self-test do not fit the model: {file}",
        rule=rule,
        here=here,
        help="numpy.savez('samples.npz', x0=…, x1=…) with an array for each input, samples along the first axis",
    )


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
    if on != HOST:
        check_board(manifest, find_board(on))
    output = selftest_runner.run(
        folder, None if on == HOST else find_board(on), manifest.files, manifest.optimize, timeout
    )
    return _parse_outcome(manifest, on, output)


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
