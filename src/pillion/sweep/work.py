# SPDX-License-Identifier: Apache-2.0
"""What a worker does with a job: compile, measure, write; whatever goes wrong is a result, too."""

from __future__ import annotations

import contextlib
import io
import math
import sys
import threading
import time
import traceback
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from pillion import compiler
from pillion.errors import PillionError, PillionWarning
from pillion.evaluation.costs import Costs, can_be_measured, costs_of
from pillion.evaluation.evaluate import evaluate
from pillion.named import is_int8_file
from pillion.outside.arguments import taken_by
from pillion.outside.files import parts_of
from pillion.outside.user_code import beside, function_of, run_user_code, split_spec
from pillion.place import PlacementOptions
from pillion.program import Program
from pillion.sweep.contents import name_of_content, name_of_pillion, name_of_tools
from pillion.sweep.jobs import Job, names_a_function
from pillion.sweep.result import Done, Failure, Figures, Result, failure_of

MOST_LOG = 100_000
"""Characters of what a job printed that are kept: the last ones."""
ALONE = threading.Lock()
"""Jobs print, import and draw random numbers as if they had the process for themselves: a worker does one at a time."""


MOST_MODELS = 2
"""Modules that a worker remembers: variants of one follow each other, and making it may have meant training it."""
_MODELS: dict[str, Any] = {}


class WrongWorker(PillionError):
    """The error of a worker that cannot do any job of this sweep: another version, or no such files."""


def do(job: Job) -> Done:
    """Does a job; everything but a worker that is not fit for it becomes a result."""
    with ALONE, _heard() as (log, warned):
        begun = time.perf_counter()
        files: dict[str, bytes] = {}
        try:
            check_worker(job)
            with _own_modules(job):
                result = _compiled(job, files)
        except WrongWorker:
            raise
        except PillionError as error:
            result = Result(failure=failure_of(error))
        except Exception as error:
            traceback.print_exc(file=log)
            result = Result(failure=_accident(job, error))
        seconds = time.perf_counter() - begun
    kept = Result(
        result.figures, result.metrics, result.failure, result.left_out, tuple(warned), round(seconds, 4)
    )
    return Done(kept, files if result.figures else {}, log.getvalue()[-MOST_LOG:])


def _accident(job: Job, error: Exception) -> Failure:
    return Failure(
        f"`{job.model}` ended in {type(error).__name__}",
        "a variant compiles, or is refused with a reason",
        str(error).strip()[:500] or "no message",
        "log.txt beside the job has the whole story; the next sweep tries it again",
        is_lasting=False,
    )


@contextmanager
def _heard() -> Iterator[tuple[io.StringIO, list[str]]]:
    """What a job prints is kept, not shown: many of them would speak at once."""
    log, warned = io.StringIO(), list[str]()
    with redirect_stdout(log), redirect_stderr(log), warnings.catch_warnings():
        warnings.simplefilter("always", PillionWarning)

        def note(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
            if issubclass(category, PillionWarning):
                warned.append(str(message))

        warnings.showwarning = note
        yield log, warned


_FOLDERS: set[tuple[str, str]] = set()
"""Folders whose content was compared, which takes long."""


def check_worker(job: Job) -> None:
    """Raises where this process would do something else than the job says: it has another Pillion, or other files."""
    if name_of_pillion() != job.pillion:
        raise WrongWorker(
            "a worker has another Pillion",
            rule="all workers have the version, and the PyTorch, of the computer that starts the sweep",
            here=f"{name_of_pillion()} there, {job.pillion} here",
            help="install the same version on all workers, and start them anew",
        )
    if job.tools and name_of_tools() != job.tools:
        raise WrongWorker(
            "a worker counts instructions with other tools",
            rule="all workers have the same cross compiler, and the emulator",
            here=f"{name_of_tools()} there, {job.tools} here",
            help="install the same on all workers, or instructions = false in [measure]",
        )
    for files in job.contents.values():
        for path, name in files.items():
            _check_content(Path(path), name)


def _check_content(path: Path, name: str) -> None:
    known = (str(path), name)
    if known in _FOLDERS:
        return
    try:
        found = name_of_content(path)
    except PillionError as error:
        found = error.here
    if found != name:
        raise WrongWorker(
            f"{path} is not what it was when the sweep began",
            rule="files stay as they are while a sweep runs, and all workers see them under the same paths",
            here=f"{found} for a worker, {name} when the sweep began",
            help="start the sweep again; with --scheduler, put the files where all workers see them",
        )
    if path.is_dir():
        _FOLDERS.add(known)


@contextmanager
def _own_modules(job: Job) -> Iterator[None]:
    """Modules that a job imports from beside its Python files are forgotten again: other jobs may have others of the same name."""
    before = set(sys.modules)
    try:
        yield
    finally:
        folders = {str(Path(path).resolve().parent) for files in job.contents.values() for path in files}
        for name in set(sys.modules) - before:
            file = getattr(sys.modules[name], "__file__", None)
            if file and any(Path(file).resolve().is_relative_to(folder) for folder in folders):
                del sys.modules[name]


def _compiled(job: Job, files: dict[str, bytes]) -> Result:
    """The figures of a job's program; its files are put where they are asked for."""
    program = compile_job(job)
    left_out: dict[str, str] = {}
    costs = _measured(program, job, left_out)
    metrics = _evaluated(program, job, left_out)
    for form in job.measure.artefacts:
        with _or_left_out(left_out, form):
            files.update(_FORMS[form](program))
    return Result(_figures(program, costs), metrics, left_out=left_out)


PASSED_ON = ("optimize", "io_dtype", "io_layout", "max_ram", "extra")
"""Options that `compile` takes as they are."""


def compile_job(job: Job) -> Program:
    """Compiles the program of a job. What a factory draws at random is the same at each time."""
    model, inputs, name = _model(job)
    given = {k: job.option(k) for k in PASSED_ON if job.option(k) is not None}
    demands = [bool(job.option(name)) for name in ("only_npu", "prefer_npu")]
    placement = PlacementOptions(job.option("keep_on_cpu") or (), *demands)
    if not is_int8_file(model) or job.option("calibrate") is not None:
        given["calibrate"] = _calibration(job)
    if isinstance(model, str):
        given |= {k: job.option(k) for k in ("weights", "input_size") if job.option(k) is not None}
    return compiler.compile(model, inputs, target=job.target, name=name, placement=placement, **given)


def _model(job: Job) -> tuple[Any, Any, str | None]:
    """The model as `compile` takes it, its inputs, and its name."""
    if not names_a_function(job.source):
        return job.source, None, None
    known = job.model_key
    if known not in _MODELS:
        from pillion.importers.torch import capture

        capture.draw_the_same()
        options = {k: job.option(k) for k in ("weights", "input_size")}
        made = capture.build(job.source, **options, arguments=job.arguments)
        while len(_MODELS) >= MOST_MODELS:
            del _MODELS[next(iter(_MODELS))]
        _MODELS[known] = made
    return _MODELS[known]


def _calibration(job: Job) -> Any:
    """A path, or what a function of the user's gives."""
    named = job.option("calibrate")
    return _called(named, job, CALIBRATION) if named is not None and names_a_function(named) else named


CALIBRATION = (
    "a function for calibration gives samples: tensors or arrays, or a tuple of them for several inputs"
)


def _called(spec: str, job: Job, rule: str) -> Any:
    """What a function of the user's gives, called with those of the model's arguments that it takes."""
    function = function_of(spec, rule)
    arguments = taken_by(function, job.arguments)
    with beside(split_spec(spec)[0]):
        return run_user_code(lambda: function(**arguments), spec, rule=rule)


def _measured(program: Program, job: Job, left_out: dict[str, str]) -> Costs:
    """What the program costs: what the emulated board counts, if it can run it, and the linked firmware, if that can be built."""
    if not job.measure.instructions:
        return costs_of(program)
    hindrance = _hindrance(program)
    if hindrance:
        left_out["flash, instructions"] = hindrance
        return costs_of(program)
    try:
        return costs_of(program, flash=True, instructions=True)
    except PillionError as error:
        left_out["instructions"] = _in_short(error)
    with _or_left_out(left_out, "flash"):
        return costs_of(program, flash=True)
    return costs_of(program)


def _hindrance(program: Program) -> str:
    """Why nothing can be measured of a program on an emulated board; empty where it can."""
    if program.target.board is None:
        return f"no emulated board has a {program.target.core.name}"
    return "" if can_be_measured(program) else f"no emulator has the NPU of {program.target.name}"


def _evaluated(program: Program, job: Job, left_out: dict[str, str]) -> dict[str, float]:
    """What the program gets on the data of the sweep; each worker is one process."""
    measure = job.measure
    if measure.data is None:
        return {}
    data = _called(measure.data, job, DATA) if names_a_function(measure.data) else measure.data
    found = evaluate(program, data, measure.metrics, limit=measure.limit, workers=1, reading=measure.reading)
    for note in found.notes:
        warnings.warn(note, PillionWarning, stacklevel=2)
    numbers = {name: number for name, number in found.metrics.items() if math.isfinite(number)}
    left_out |= {name: "no finite number" for name in found.metrics if name not in numbers}
    return numbers


DATA = "a function for data gives samples: (input, label), or a dataset or loader of them"


@contextmanager
def _or_left_out(left_out: dict[str, str], what: str) -> Iterator[None]:
    """What one form or one measurement cannot do is said, and the rest of the variant is there."""
    try:
        yield
    except PillionError as error:
        left_out[what] = _in_short(error)


def _in_short(error: PillionError) -> str:
    return f"{error.what}: {error.here}" if error.here else error.what


def _figures(program: Program, costs: Costs) -> Figures:
    return Figures(
        ram_bytes=costs.ram_bytes,
        arena_bytes=program.memory.arena_bytes,
        npu_constant_bytes=program.npu_constant_bytes,
        constant_bytes=costs.constant_bytes,
        macs=program.graph.macs,
        flash_bytes=costs.flash_bytes,
        stack_bytes=costs.stack_bytes,
        instructions=costs.instructions,
    )


EARLIEST = (1980, 1, 1, 0, 0, 0)
"""The date of all files in archives: the same content is the same file."""


def _project(program: Program) -> dict[str, bytes]:
    """The C project as one file: a thousand variants have a hundred thousand files, most of them the same kernels."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for path, content in program.files.items():
            place = zipfile.ZipInfo(path, EARLIEST)
            place.compress_type = zipfile.ZIP_DEFLATED
            place.external_attr = 0o644 << 16
            archive.writestr(place, b"".join(parts_of(content)))
    return {f"{program.graph.name}_c.zip": stream.getvalue()}


def _file(program: Program, form: str) -> dict[str, bytes]:
    name = program.graph.name
    if form == "tflite":
        return {f"{name}.tflite": program.tflite()}
    beside = {f"{name}_{key}": text.encode() for key, text in program.payloads.firmware_files.items()}
    return {f"{name}.pte": program.pte(), **beside}


_FORMS: Mapping[str, Callable[[Program], dict[str, bytes]]] = {
    "c": _project,
    "pte": lambda program: _file(program, "pte"),
    "tflite": lambda program: _file(program, "tflite"),
}


def warm_up() -> str:
    """Imports what jobs take, so that the first one does not wait for it; gives the worker's version."""
    with contextlib.suppress(ImportError):
        import pillion.importers.torch.read  # noqa: F401  # before the first job is timed
    return name_of_pillion()
