# SPDX-License-Identifier: Apache-2.0
"""The work of one job: compile, measure, write. Failures are results too."""

from __future__ import annotations

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
from typing import TYPE_CHECKING, Any

from pillion import compiler
from pillion.errors import PillionError, PillionWarning
from pillion.evaluation.evaluate import evaluate
from pillion.evaluation.program_costs import ProgramCosts, can_be_measured, costs_of
from pillion.host_io.atomic_files import content_chunks
from pillion.host_io.call_arguments import accepted_arguments
from pillion.host_io.user_code import function_of, importing_from_folder_of, run_user_code, split_spec
from pillion.model_names import is_int8_file
from pillion.program import Program
from pillion.sweep.axes import FOR_ALL, OF_MODELS
from pillion.sweep.fingerprint import content_hash, pillion_hash, tools_hash
from pillion.sweep.job_result import Failure, Figures, JobOutput, JobResult, failure_from_error
from pillion.sweep.jobs import Job, is_function_spec
from pillion.sweep.sweep_file import QUALITY

if TYPE_CHECKING:
    from pillion.importers.torch.float_model import TorchModel

MOST_LOG = 100_000
"""Most characters kept of a job's output: the last ones."""
JOB_LOCK = threading.Lock()
"""Serializes jobs in a worker: they print, import and draw random numbers process-wide."""


MOST_MODELS = 2
"""Models cached per worker. Variants of one model follow each other, and creating it may mean training it."""
_MODELS: dict[str, Any] = {}


class WrongWorker(PillionError):
    """The error of a worker that cannot run this sweep's jobs: another Pillion, or other files."""


def run_job(job: Job) -> JobOutput:
    """Runs a job. Every failure except `WrongWorker` becomes a result."""
    with JOB_LOCK, _captured_output() as (log, warned):
        begun = time.perf_counter()
        files: dict[str, bytes] = {}
        try:
            check_worker(job)
            with _forget_job_modules(job):
                result = _compile_and_measure(job, files)
        except WrongWorker:
            raise
        except PillionError as error:
            result = JobResult(failure=failure_from_error(error))
        except Exception as error:
            traceback.print_exc(file=log)
            result = JobResult(
                failure=Failure(
                    f"`{job.model}` ended in {type(error).__name__}",
                    "a variant compiles, or is refused with a reason",
                    str(error).strip()[:500] or "no message",
                    "log.txt beside the job has the whole story; the next sweep tries it again",
                    is_lasting=False,
                )
            )
        seconds = time.perf_counter() - begun
    job_result = JobResult(
        result.figures, result.metrics, result.failure, result.left_out, tuple(warned), round(seconds, 4)
    )
    return JobOutput(job_result, files if result.figures else {}, log.getvalue()[-MOST_LOG:])


@contextmanager
def _captured_output() -> Iterator[tuple[io.StringIO, list[str]]]:
    """Captures a job's output instead of showing it."""
    log, warned = io.StringIO(), list[str]()
    with redirect_stdout(log), redirect_stderr(log), warnings.catch_warnings():
        warnings.simplefilter("always", PillionWarning)

        def note(message: Warning | str, category: type[Warning], *location: Any, **more: Any) -> None:
            if issubclass(category, PillionWarning):
                warned.append(str(message))

        warnings.showwarning = note
        yield log, warned


_FOLDERS: set[tuple[str, str]] = set()
"""Folders already compared, because hashing them takes long."""


def check_worker(job: Job) -> None:
    """Raises if this process has another Pillion or other files than the job requires."""
    if pillion_hash() != job.pillion:
        raise WrongWorker(
            "a worker has another Pillion",
            rule="all workers have the version, and the PyTorch, of the computer that starts the sweep",
            here=f"{pillion_hash()} there, {job.pillion} here",
            help="install the same version on all workers, and start them anew",
        )
    if job.tools and tools_hash() != job.tools:
        raise WrongWorker(
            "a worker counts instructions with other tools",
            rule="all workers have the same cross compiler, and the emulator",
            here=f"{tools_hash()} there, {job.tools} here",
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
        actual = content_hash(path)
    except PillionError as error:
        actual = error.here
    if actual != name:
        raise WrongWorker(
            f"{path} is not what it was when the sweep began",
            rule="files stay as they are while a sweep runs, and all workers see them under the same paths",
            here=f"{actual} for a worker, {name} when the sweep began",
            help="start the sweep again; with --scheduler, put the files where all workers see them",
        )
    if path.is_dir():
        _FOLDERS.add(known)


@contextmanager
def _forget_job_modules(job: Job) -> Iterator[None]:
    """Forgets modules that a job imported from its own folders; other jobs may use the same names."""
    before = set(sys.modules)
    try:
        yield
    finally:
        folders = {str(Path(path).resolve().parent) for files in job.contents.values() for path in files}
        for name in set(sys.modules) - before:
            file = getattr(sys.modules[name], "__file__", None)
            if file and any(Path(file).resolve().is_relative_to(folder) for folder in folders):
                del sys.modules[name]


def _compile_and_measure(job: Job, files: dict[str, bytes]) -> JobResult:
    """Compiles a job's program, stores the requested files, and returns the figures."""
    program = compile_job(job)
    left_out: dict[str, str] = {}
    costs = _measure_costs(program, job, left_out)
    metrics = _evaluate_metrics(program, job, left_out)
    for form in job.measure.artefacts:
        with _record_skipped_figure(left_out, form):
            files.update(_FORMS[form](program))
    return JobResult(_program_figures(program, costs), metrics, left_out=left_out)


def compile_job(job: Job) -> Program:
    """Compiles the program of a job."""
    model, inputs, name = _load_model(job)
    options = {key: job.option(key) for key in (*FOR_ALL, *OF_MODELS) if job.option(key) is not None}
    target = options.pop("target")
    if not is_int8_file(model) or "calibrate" in options:
        options["calibrate"] = _load_calibration(job)
    if not isinstance(model, str):  # it is made from these already
        options = {key: value for key, value in options.items() if key not in OF_MODELS}
    return compiler.compile(model, inputs, target=target, name=name, **options)


def _load_model(job: Job) -> tuple[Any, Any, str | None]:
    """Returns the model as `compile` takes it, its inputs, and its name."""
    if not is_function_spec(job.source):
        return job.source, None, None
    known = job.model_key
    if known not in _MODELS:
        from pillion.importers.torch import capture

        options = {k: job.option(k) for k in ("weights", "input_size")}
        model = capture.build_model(job.source, **options, arguments=job.arguments)
        while len(_MODELS) >= MOST_MODELS:
            del _MODELS[next(iter(_MODELS))]
        _MODELS[known] = model
    return _MODELS[known]


def _load_calibration(job: Job) -> Any:
    """Returns a calibration path, or the result of the user's function."""
    named = job.option("calibrate")
    return (
        _call_user_function(named, job, CALIBRATION)
        if named is not None and is_function_spec(named)
        else named
    )


CALIBRATION = (
    "a function for calibration gives samples: tensors or arrays, or a tuple of them for several inputs"
)


def _call_user_function(spec: str, job: Job, rule: str) -> Any:
    """Calls a user's function with the model's arguments that it accepts."""
    function = function_of(spec, rule)
    arguments = accepted_arguments(function, job.arguments)
    with importing_from_folder_of(split_spec(spec)[0]):
        return run_user_code(lambda: function(**arguments), spec, rule=rule)


def _measure_costs(program: Program, job: Job, left_out: dict[str, str]) -> ProgramCosts:
    """Measures costs on the emulated board and in the linked firmware, as far as possible."""
    if not job.measure.instructions:
        return costs_of(program)
    hindrance = _why_not_measurable(program)
    if hindrance:
        left_out["flash, instructions"] = hindrance
        return costs_of(program)
    try:
        return costs_of(program, flash=True, instructions=True)
    except PillionError as error:
        left_out["instructions"] = _error_summary(error)
    with _record_skipped_figure(left_out, "flash"):
        return costs_of(program, flash=True)
    return costs_of(program)


def _why_not_measurable(program: Program) -> str:
    """Returns why a program cannot be measured on an emulated board; empty if it can."""
    if program.target.board is None:
        return f"no emulated board has a {program.target.core.name}"
    return "" if can_be_measured(program) else f"no emulator has the NPU of {program.target.name}"


def _evaluate_metrics(program: Program, job: Job, left_out: dict[str, str]) -> dict[str, float]:
    """Evaluates the program on the sweep's data, in one process."""
    measure = job.measure
    if measure.data is None:
        return {}
    data = _call_user_function(measure.data, job, DATA) if is_function_spec(measure.data) else measure.data
    metrics = tuple(name for name in measure.metrics if name != QUALITY)
    floats = None
    if QUALITY in measure.metrics:
        with _record_skipped_figure(left_out, QUALITY):
            floats = _float_model(job)
    if floats is None and not metrics:
        return {}
    evaluation = evaluate(
        program,
        data,
        metrics or None,
        limit=measure.limit,
        workers=1,
        reading=measure.reading,
        float_model=floats,
    )
    for note in evaluation.notes:
        warnings.warn(note, PillionWarning, stacklevel=2)
    found = evaluation.metrics if metrics else {}
    if evaluation.float_model is not None:
        decibels = evaluation.float_model.signal_to_noise_db
        found = found | {QUALITY: math.inf if decibels is None else decibels}
    numbers = {name: number for name, number in found.items() if math.isfinite(number)}
    left_out |= {name: "no finite number" for name in found if name not in numbers}
    return numbers


def _float_model(job: Job) -> TorchModel:
    """Returns the float model of a job."""
    from pillion.importers.torch.float_model import float_model

    model, inputs, _ = _load_model(job)
    named = {
        key: job.option(key) for key in OF_MODELS if isinstance(model, str) and job.option(key) is not None
    }
    return float_model(model, inputs, **named)


DATA = "a function for data gives samples: (input, label), or a dataset or loader of them"


@contextmanager
def _record_skipped_figure(left_out: dict[str, str], what: str) -> Iterator[None]:
    """Records an error of one file format or measurement, and continues with the variant."""
    try:
        yield
    except PillionError as error:
        left_out[what] = _error_summary(error)


def _error_summary(error: PillionError) -> str:
    return f"{error.what}: {error.here}" if error.here else error.what


def _program_figures(program: Program, costs: ProgramCosts) -> Figures:
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
"""Timestamp of all files in archives: equal contents give equal archives."""


def _project_archive(program: Program) -> dict[str, bytes]:
    """Returns the C project as one archive: a thousand variants would be a hundred thousand files."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for path, content in program.files.items():
            member = zipfile.ZipInfo(path, EARLIEST)
            member.compress_type = zipfile.ZIP_DEFLATED
            member.external_attr = 0o644 << 16
            archive.writestr(member, b"".join(content_chunks(content)))
    return {f"{program.graph.name}_c.zip": stream.getvalue()}


def _pte_files(program: Program) -> dict[str, bytes]:
    name = program.graph.name
    firmware = {f"{name}_{key}": text.encode() for key, text in program.payloads.firmware_files.items()}
    return {f"{name}.pte": program.pte(), **firmware}


_FORMS: Mapping[str, Callable[[Program], dict[str, bytes]]] = {
    "c": _project_archive,
    "pte": _pte_files,
    "tflite": lambda program: {f"{program.graph.name}.tflite": program.tflite()},
}
