# SPDX-License-Identifier: Apache-2.0
"""Translates options into API calls: reads models, data and sizes, and writes results.

Options are checked before the compiler is imported, so that mistakes are reported at once."""

from __future__ import annotations

import gc
import importlib
import io
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Literal

from pillion.cli.console import warn
from pillion.cli.dataclass_options import changed_options
from pillion.compile_options import DEFAULT_OPTIONS, CompileOptions, quantization_options
from pillion.errors import PillionError, PillionWarning
from pillion.host_io.atomic_files import NO_FOLDERS, regular_file, suffix_of, write_whole
from pillion.host_io.progress import stage
from pillion.host_io.user_code import split_spec
from pillion.model_names import (
    check_named,
    file_suffixes,
    is_converted_file,
    is_int8_file,
    refuse_useless_options,
)
from pillion.option_values import NEWEST_RUNTIME, Runtime

if TYPE_CHECKING:
    from pillion.budgets import MetricBound
    from pillion.data.sample import Source
    from pillion.ir.quantized_model import Progress
    from pillion.ir.types import Array
    from pillion.program import Program
    from pillion.run.input_checks import InputTensor


@dataclass(frozen=True)
class Request:
    """A model, its target, and the compile options."""

    model: str
    target: str
    quantize: bool = False
    options: CompileOptions = DEFAULT_OPTIONS
    intermediates: Path | None = None
    samples: Source | None = None
    """The calibration data, if it is opened already."""
    metric: MetricBound | None = None
    """The metric that a program keeps."""

    def __post_init__(self) -> None:
        quantizing = self.options.quantize
        if quantizing.calibrate and not self.quantize:
            raise PillionError(
                "--calibrate is data for quantizing",
                rule="--calibrate goes with --quantize",
                here=f"--calibrate {quantizing.calibrate}",
                help="add --quantize",
            )
        if quantizing.tuning and not self.quantize:
            raise PillionError(
                "there is nothing to quantize",
                rule="options of quantization go with --quantize",
                here=f"{self.model} with {quantization_options(quantizing.tuning)}, no --quantize",
                help="add --quantize, or leave them out: .tflite and .pte files are quantized already",
            )


def check_there(path: Path) -> None:
    """Raises if the path does not exist or is invalid."""
    try:
        path.stat()
    except (OSError, ValueError) as error:  # a path with a zero byte is a ValueError
        is_missing = isinstance(error, FileNotFoundError)
        raise PillionError(
            f"`{path}` cannot be read",
            rule="the path of a file or a folder",
            here=f"{'nothing of this name' if is_missing else getattr(error, 'strerror', None) or error}, in {Path.cwd()}",
            help="look at the path, and whether you may read what is there",
        ) from None


def check_request(request: Request) -> None:
    """Raises if the request is invalid, as far as that shows without the compiler."""
    if is_int8_file(request.model):
        refuse_options(request)
    check_named(request.model)
    from pillion.targets import find_target

    find_target(request.target)
    if not is_int8_file(request.model):
        _require_quantize(request)
    for path in (request.options.quantize.calibrate, request.options.loading.weights):
        if path is not None and request.samples is None:
            check_there(split_spec(str(path))[0])


def check_training(function: str, request: Request) -> None:
    """Raises if a training request is invalid, as far as that shows without the compiler."""
    file, name = split_spec(function)
    if name:
        regular_file(file, ".py")
    if request.model and suffix_of(request.model) not in file_suffixes():
        check_named(request.model)
    quantize = request.options.quantize
    if (quantize.calibrate is not None) != quantize.is_mixed:
        raise PillionError(
            "tensors of 16 bits are chosen by data",
            rule="in training, --calibrate goes with --min-quality, --max-time and --precision mixed: it judges the model before",
            here="no --calibrate" if quantize.is_mixed else f"--calibrate {quantize.calibrate} alone",
            help="--min-quality 35dB --calibrate samples/, or --int16 PATTERN without data",
        )
    if quantize.calibrate is not None:
        check_there(split_spec(str(quantize.calibrate))[0])
    from pillion.targets import find_target

    find_target(request.target)


def compile_request(request: Request, progress: Progress | None = None) -> Program:
    """Compiles the requested program."""
    check_request(request)
    from pillion.cli.intermediates import Intermediates

    intermediates = Intermediates(request.intermediates) if request.intermediates else None
    if request.samples is not None:
        quantize = replace(request.options.quantize, calibrate=request.samples)
        request = replace(request, options=replace(request.options, quantize=quantize))
    program = compile_for(
        request, request.model, progress=progress, watch=intermediates.watch if intermediates else None
    )
    if intermediates:
        intermediates.keep(program)
    return program


def refuse_options(request: Request) -> None:
    """Raises if an option contradicts the form of an int8 file. A .tflite with --quantize may compute in float; this
    is checked when it is read."""
    is_to_be = request.quantize and suffix_of(request.model) == ".tflite"
    changed = changed_options(request.options.loading)
    if not is_to_be:
        changed |= changed_options(request.options.quantize)
    if request.options.io.layout == "nhwc":
        changed["--io-layout"] = request.options.io.layout
    refuse_useless_options(request.model, changed)


def refuse_build_options(
    program: str | Path, options: CompileOptions, target: str | None = None, *more: object
) -> None:
    """Raises if compile options are given for a program that is compiled already."""
    refuse_options_of_models(program, {"--target": target} if target else {}, options, *more)


def refuse_options_of_models(program: str | Path, given: Mapping[str, object], *groups: object) -> None:
    """Raises if a program that is compiled already comes with options that go with models."""
    changed = dict(given)
    for group in groups:
        changed |= changed_options(group)
    if changed:
        raise PillionError(
            f"{program} is compiled already",
            rule=f"{', '.join(changed)} {'go' if len(changed) > 1 else 'goes'} with models that are compiled now",
            here=str(program),
            help="leave them out, or name the model that the program was made of",
        )


def require_target(model: str, target: str | None) -> None:
    """Raises if a model that is compiled now has no target."""
    if target:
        return
    if Path(model).is_dir():
        raise PillionError(
            f"`{model}` holds C, and not the model that it was made of",
            rule="this command takes a .pte file that `pillion compile` wrote, or a model with --target",
            here="a folder",
            help="name the model that the C was made of, with --target",
        )
    raise PillionError(
        f"`{model}` has no chip or core to be compiled for",
        rule="a .pte file that `pillion compile` wrote, or a model with --target",
        here="no --target",
        help="--target cortex-m55 (`pillion targets` lists all)",
    )


def _require_quantize(request: Request) -> None:
    """Raises if a float model comes without --quantize; warns if it comes without calibration data."""
    silence_loggers()
    if is_converted_file(request.model):
        return
    if not request.quantize:
        if _gives_converted(request.model):
            return
        raise PillionError(
            f"`{request.model}` computes in float",
            rule="programs are int8",
            here=f"{request.model}, no --quantize",
            help="add --quantize (and --calibrate with real data for real accuracy)",
        )
    if request.options.quantize.calibrate is None:
        warn("no --calibrate: ranges come from the example input alone, and accuracy suffers")


def _gives_converted(model: str) -> bool:
    """Whether a model is a `file.py:factory` that returns a program which torch's pt2e flow has quantized already."""
    path, _, factory = model.rpartition(":")
    if not factory or suffix_of(path) != ".py" or not Path(path).is_file():
        return False
    from pillion.importers.torch.capture import build_model
    from pillion.importers.torch.quantize.converted_program import is_converted

    return is_converted(build_model(model)[0])


NOISY_LOGGERS = ("torchao", "torch.utils._pytree", "torch.export")
"""Loggers whose warnings users cannot act on."""


def silence_loggers() -> None:
    """Silences the loggers in `NOISY_LOGGERS`."""
    for name in NOISY_LOGGERS:
        logging.getLogger(name).setLevel(logging.ERROR)


def import_compiler(model: object) -> None:
    """Imports the modules that compiling the model needs, with garbage collection paused: imports allocate
    hundreds of thousands of permanent objects, and collecting costs a twentieth of a compilation."""
    gc.disable()
    try:
        importlib.import_module("pillion.compiler")
        if not is_int8_file(model):
            with stage("importing PyTorch"):
                importlib.import_module("pillion.importers.torch.read")
        gc.freeze()
    finally:
        gc.enable()


def compile_for(
    request: Request, model: Any, example_inputs: Any = None, *, quiet: bool = False, **options: Any
) -> Program:
    """Compiles a model, by name or object, as requested; with `quiet`, without warnings."""
    import_compiler(model)
    from pillion import compiler

    with _warnings_in_a_line("ignore" if quiet else "always"):
        return compiler.compile_with(
            model, example_inputs, request.target, request.options, metric=request.metric, **options
        )


@contextmanager
def _warnings_in_a_line(action: Literal["always", "ignore"]) -> Iterator[None]:
    """Prints Pillion's warnings in the command line's form."""
    with warnings.catch_warnings():
        warnings.simplefilter(action, PillionWarning)
        original = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *location: Any, **more: Any) -> None:
            if issubclass(category, PillionWarning):
                warn(str(message))
            else:
                original(message, category, *location, **more)

        warnings.showwarning = show
        yield


def write_program(
    program: Program,
    output: Path,
    runtime: Runtime = NEWEST_RUNTIME,
    *,
    force: bool = False,
    selftest: Path | None = None,
    kernels: str | None = None,
) -> None:
    """Writes the program in the form that the path's suffix selects, with a self-test if there are samples."""
    with _warnings_in_a_line("always"):
        program.save(output, runtime, force=force, selftest=selftest, kernels=kernels)


def require_compiled_program(program: Path) -> None:
    """Raises if the path is missing, or is not an output of `pillion compile`."""
    file = Path(str(program).partition(":")[0])
    form = suffix_of(file)
    if form in (".pte", ".plm"):
        regular_file(program, form)
        return
    if form not in (*NO_FOLDERS, ".tflite") or file.is_dir():
        if not program.is_dir():
            from pillion.emitters.c.manifest import read_manifest

            read_manifest(program)  # raises
        return
    model = f"{program}" if form in (".py", ".pt2", ".onnx", ".tflite") else "MODEL"
    model += ":Net" if form == ".py" and file == program else ""
    quantize = "" if form == ".tflite" else " --quantize"
    folder = quote(f"{file.stem}/")
    raise PillionError(
        f"{program} is not a program",
        rule="what `pillion compile` wrote: a .pte or .plm file, or the folder of a C project",
        here=f"suffix {file.suffix}",
        help=f"pillion compile -m {quote(model)} -t TARGET{quantize} -o {folder}, and then {folder}",
    )


def read_inputs(paths: Sequence[Path], wanted: Sequence[InputTensor] = ()) -> list[Array]:
    """Reads arrays from .npy files, or returns random inputs if there are no files."""
    if not paths:
        return [_random_input(spec) for spec in wanted]
    return [_load_array(path) for path in paths]


def _random_input(spec: InputTensor) -> Array:
    import numpy as np

    from pillion.ir.types import DType

    rng = np.random.default_rng(0)
    try:
        if spec.dtype is DType.FLOAT32:
            return rng.standard_normal(spec.shape).astype(np.float32)
        return rng.integers(-128, 128, spec.shape).astype(spec.dtype.numpy)
    except (MemoryError, ValueError) as error:
        raise PillionError(
            f"there is no room for input `{spec.name}`",
            rule="the model's inputs fit into the memory of this computer",
            here=f"{spec.dtype.value}{list(spec.shape)}: {error}",
            help="a computer with more memory, or a smaller model",
        ) from None


def _load_array(path: Path) -> Array:
    from pillion.data.array_samples import read_named

    named = read_named(path)
    if list(named) != [""]:
        raise PillionError(
            f"{path} is not a single array",
            rule="an input is an array in a .npy file",
            here="an archive of arrays",
            help="save with numpy.save, not numpy.savez",
        )
    return named[""]


def write_outputs(paths: Sequence[Path], outputs: Sequence[Array]) -> None:
    """Writes one .npy file per output."""
    import numpy as np

    if paths and len(paths) != len(outputs):
        raise PillionError(
            f"{len(paths)} output files for {len(outputs)} outputs",
            rule="--output once for each output, in the model's order",
            here=", ".join(map(str, paths)),
            help="leave --output out to see the outputs in short",
        )
    for path, array in zip(paths, outputs, strict=False):
        stream = io.BytesIO()
        np.save(stream, array)
        write_whole(path, stream.getvalue())
