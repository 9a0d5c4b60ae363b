# SPDX-License-Identifier: Apache-2.0
"""What the command line asks for, turned into calls of the API: reading models, data and sizes, writing results.

What was typed is checked before the compiler is imported, so that a mistake is answered at once."""

from __future__ import annotations

import gc
import importlib
import io
import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Literal, get_args

from pillion.choices import Runtime
from pillion.cli.groups import AS_USUAL, UNDIVIDED, How, InParts
from pillion.cli.screen import warn
from pillion.cli.spread import given_options
from pillion.errors import PillionError, PillionWarning, one_of
from pillion.ir.tuning import Tuning
from pillion.named import FILES as MODEL_FILES
from pillion.named import check_named, is_int8_file, refuse_useless
from pillion.outside.files import NO_FOLDERS, regular_file, suffix_of, write_whole
from pillion.outside.progress import stage
from pillion.outside.user_code import split_spec

if TYPE_CHECKING:
    from pillion.data.sample import Source
    from pillion.importers.torch.quantize.ptq import Progress
    from pillion.ir.types import Array
    from pillion.program import Program
    from pillion.run.inputs import Tensor


@dataclass(frozen=True)
class Request:
    """A model, what to compile it for, and the options that say how."""

    model: str
    target: str
    quantize: bool = False
    how: How = AS_USUAL
    parts: InParts = UNDIVIDED
    intermediates: Path | None = None
    runtime: str = "1.4"
    samples: Source | None = None
    """The data of --calibrate where it was opened already."""

    def __post_init__(self) -> None:
        one_of("--runtime", self.runtime, get_args(Runtime))
        quantizing = self.how.quantizing
        if quantizing.calibrate and not self.quantize:
            raise PillionError(
                "--calibrate is data for quantizing",
                rule="--calibrate goes with --quantize",
                here=f"--calibrate {quantizing.calibrate}",
                help="add --quantize",
            )
        if quantizing.tuning != Tuning() and not self.quantize:
            raise PillionError(
                "there is nothing to tune",
                rule="--ranges, --equalize and --correct-biases go with --quantize",
                here=f"{self.model}, no --quantize",
                help="add --quantize, or leave them out: .tflite and .pte files are quantized already",
            )


def check_there(path: Path) -> None:
    """Raises where nothing has a name, or it cannot be one."""
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


def check(request: Request) -> None:
    """Raises where a request cannot be fulfilled, as far as that is seen without the compiler."""
    if is_int8_file(request.model):
        refuse_options(request)
    check_named(request.model)
    from pillion.targets import find_target

    find_target(request.target)
    if not is_int8_file(request.model):
        _want_quantize(request)
    for path in (request.how.quantizing.calibrate, request.how.source.weights):
        if path is not None and request.samples is None:
            check_there(split_spec(str(path))[0])


def check_training(function: str, request: Request) -> None:
    """Raises where a training cannot begin, as far as that is seen without the compiler."""
    file, name = split_spec(function)
    if name:
        regular_file(file, ".py")
    if request.model and suffix_of(request.model) not in MODEL_FILES:
        check_named(request.model)
    from pillion.targets import find_target

    find_target(request.target)


def build(request: Request, progress: Progress | None = None) -> Program:
    """Compiles the program that was asked for."""
    check(request)
    from pillion.cli.intermediates import Intermediates

    kept = Intermediates(request.intermediates) if request.intermediates else None
    source, quantizing = request.how.source, request.how.quantizing
    program = compile_for(
        request,
        request.model,
        calibrate=request.samples or quantizing.calibrate,
        input_size=source.size,
        weights=source.weights,
        trust_pickle=source.trust_pickle,
        tuning=quantizing.tuning if quantizing.tuning != Tuning() else None,
        progress=progress,
        watch=kept.watch if kept else None,
    )
    if kept:
        kept.keep(program)
    return program


def refuse_options(request: Request) -> None:
    """Raises where an option asks for what an int8 file has decided. Whether a .tflite that is to be quantized computes in float is
    seen when it is read."""
    is_to_be = request.quantize and suffix_of(request.model) == ".tflite"
    given = given_options(request.how.source)
    if not is_to_be:
        given |= given_options(request.how.quantizing)
    if request.how.form.io_layout == "nhwc":
        given["--io-layout"] = request.how.form.io_layout
    refuse_useless(request.model, given)


def refuse_how(program: str | Path, how: How, target: str | None = None, *more: object) -> None:
    """Raises where options say how to compile what is compiled already."""
    given = {"--target": target} if target else {}
    for group in (how, *more):
        given |= given_options(group)
    if given:
        raise PillionError(
            f"{program} is compiled already",
            rule=f"{', '.join(given)} {'go' if len(given) > 1 else 'goes'} with models that are compiled now",
            here=str(program),
            help="leave them out, or name the model that the program was made of",
        )


def _want_quantize(request: Request) -> None:
    """Raises where a model computes in float and shall not be quantized; warns where nothing says how it should be."""
    hush()
    if not request.quantize:
        raise PillionError(
            f"`{request.model}` computes in float",
            rule="programs are int8",
            here=f"{request.model}, no --quantize",
            help="add --quantize (and --calibrate with real data for real accuracy)",
        )
    if request.how.quantizing.calibrate is None:
        warn("no --calibrate: ranges come from the example input alone, and accuracy suffers")


CHATTY = ("torchao", "torch.utils._pytree", "torch.export")
"""Loggers that warn of what users of this tool can do nothing about."""


def hush() -> None:
    """Silences the loggers that are `CHATTY`."""
    for name in CHATTY:
        logging.getLogger(name).setLevel(logging.ERROR)


def import_compiler(model: object) -> None:
    """Imports what compiling a model takes. Garbage is not looked for meanwhile: imports make hundreds of thousands of objects that all stay,
    and to look through them again and again takes a twentieth of a compilation."""
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
    """Compiles a model, named or at hand, as the request says; with `quiet`, without a word of warning."""
    import_compiler(model)
    from pillion import compiler
    from pillion.place import PlacementOptions

    placing = request.how.placing
    with _warnings_in_a_line("ignore" if quiet else "always"):
        return compiler.compile(
            model,
            example_inputs,
            target=request.target,
            placement=PlacementOptions(
                tuple(placing.keep_on_cpu or ()), placing.only_npu, placing.prefer_npu
            ),
            **request.how.form.given(),
            **request.parts.given(),
            **options,
        )


@contextmanager
def _warnings_in_a_line(action: Literal["always", "ignore"]) -> Iterator[None]:
    """Ours look like all others of the command line."""
    with warnings.catch_warnings():
        warnings.simplefilter(action, PillionWarning)
        usual = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
            if issubclass(category, PillionWarning):
                warn(str(message))
            else:
                usual(message, category, *place, **more)

        warnings.showwarning = show
        yield


def write(
    program: Program,
    output: Path,
    runtime: str = "1.4",
    *,
    force: bool = False,
    selftest: Path | None = None,
) -> None:
    """Writes the program in the form that the output's name asks for, with a self-test if there are samples for one."""
    with _warnings_in_a_line("always"):
        program.save(output, "main" if runtime == "main" else "1.4", force=force, selftest=selftest)


def check_program(program: Path) -> None:
    """Raises where a model, or another file, is named instead of what `pillion compile` writes, or nothing that is there."""
    file = Path(str(program).partition(":")[0])
    form = suffix_of(file)
    if form == ".pte":
        regular_file(program, ".pte")
        return
    if form not in (*NO_FOLDERS, ".tflite") or file.is_dir():
        _check_project(program)
        return
    model = f"{program}" if form in (".py", ".pt2", ".tflite") else "MODEL"
    model += ":Net" if form == ".py" and file == program else ""
    quantize = "" if form == ".tflite" else " --quantize"
    folder = quote(f"{file.stem}/")
    raise PillionError(
        f"{program} is not a program",
        rule="what `pillion compile` wrote: a .pte file, or the folder of a C project",
        here=f"suffix {file.suffix}",
        help=f"pillion compile -m {quote(model)} -t TARGET{quantize} -o {folder}, and then {folder}",
    )


def _check_project(folder: Path) -> None:
    """Raises where a folder has no manifest; one whose writing was stopped may get it back when it is read."""
    if not folder.is_dir():
        from pillion.emitters.c.manifest import read_manifest

        read_manifest(folder)


def read_inputs(paths: Sequence[Path], wanted: Sequence[Tensor] = ()) -> list[Array]:
    """Reads arrays from .npy files; random data of the right kind where no file is named."""
    if not paths:
        return [_random(one) for one in wanted]
    return [_load(path) for path in paths]


def _random(wanted: Tensor) -> Array:
    import numpy as np

    from pillion.ir.types import DType

    rng = np.random.default_rng(0)
    try:
        if wanted.dtype is DType.FLOAT32:
            return rng.standard_normal(wanted.shape).astype(np.float32)
        return rng.integers(-128, 128, wanted.shape).astype(wanted.dtype.numpy)
    except (MemoryError, ValueError) as error:
        raise PillionError(
            f"there is no room for input `{wanted.name}`",
            rule="the model's inputs fit into the memory of this computer",
            here=f"{wanted.dtype.value}{list(wanted.shape)}: {error}",
            help="a computer with more memory, or a smaller model",
        ) from None


def _load(path: Path) -> Array:
    import numpy as np

    from pillion.outside.arrays import UNREADABLE, read_arrays, reason

    try:
        loaded = read_arrays(path)
    except UNREADABLE as error:
        raise PillionError(
            f"{path} cannot be read",
            rule="an input is an array in a .npy file",
            here=reason(error),
            help="numpy.save('x.npy', array)",
        ) from None
    if not isinstance(loaded, np.ndarray):
        raise PillionError(
            f"{path} is not a single array",
            rule="an input is an array in a .npy file",
            here="an archive of arrays",
            help="save with numpy.save, not numpy.savez",
        )
    return loaded


def write_outputs(paths: Sequence[Path], outputs: Sequence[Array]) -> None:
    """Writes one .npy file for each output."""
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
