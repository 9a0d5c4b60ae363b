# SPDX-License-Identifier: Apache-2.0
"""What the command line asks for, turned into calls of the API: reading models, data and sizes, writing results.

What was typed is checked before the compiler is imported, so that a mistake is answered at once."""

from __future__ import annotations

import gc
import importlib
import io
import logging
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Literal, get_args

from pillion.boards.board import Optimize
from pillion.choices import ArithmeticName, IoDtype, IoLayout, Ranges, Runtime, StateForm
from pillion.cli.report import warn
from pillion.errors import PillionError, PillionWarning, one_of
from pillion.ir.tuning import Tuning
from pillion.named import FILES as MODEL_FILES
from pillion.named import check_named, is_int8_file, refuse_useless
from pillion.outside.files import NO_FOLDERS, regular_file, suffix_of, write_whole
from pillion.outside.progress import stage
from pillion.outside.user_code import split_spec
from pillion.streams.wish import StreamWish
from pillion.stripes.wish import WHOLE, MemoryWish

if TYPE_CHECKING:
    from pillion.data.sample import Source
    from pillion.importers.torch.quantize.ptq import Progress
    from pillion.ir.types import Array
    from pillion.program import Program
    from pillion.run.inputs import Tensor


AS_USUAL = Tuning()


@dataclass(frozen=True)
class Request:
    """The options of a `pillion compile` as they were typed."""

    model: str
    target: str
    quantize: bool = False
    calibrate: Path | Source | None = None
    weights: Path | None = None
    input_size: tuple[int, int] | None = None
    io_dtype: str = "float32"
    io_layout: str = "nchw"
    intermediates: Path | None = None
    keep_on_cpu: tuple[str, ...] = ()
    only_npu: bool = False
    optimize: str = "speed"
    runtime: str = "1.4"
    trust_pickle: bool = False
    memory: MemoryWish = WHOLE
    state: str = "kept"
    stream: StreamWish | None = None
    prefer_npu: bool = False
    stateful: bool = False
    state_pairs: tuple[str, ...] = ()
    tuning: Tuning = AS_USUAL
    arithmetic: str | None = None

    def __post_init__(self) -> None:
        one_of("--io-dtype", self.io_dtype, get_args(IoDtype))
        one_of("--optimize", self.optimize, get_args(Optimize))
        one_of("--runtime", self.runtime, get_args(Runtime))
        one_of("--io-layout", self.io_layout, get_args(IoLayout))
        one_of("--state", self.state, get_args(StateForm))
        if self.arithmetic is not None:
            one_of("--arithmetic", self.arithmetic, get_args(ArithmeticName))
        if self.calibrate and not self.quantize:
            raise PillionError(
                "--calibrate is data for quantizing",
                rule="--calibrate goes with --quantize",
                here=f"--calibrate {self.calibrate}",
                help="add --quantize",
            )
        if self.tuning != AS_USUAL and not self.quantize:
            raise PillionError(
                "there is nothing to tune",
                rule="--ranges, --equalize and --correct-biases go with --quantize",
                here=f"-m {self.model}, no --quantize",
                help="add --quantize, or leave them out: .tflite and .pte files are quantized already",
            )


def tuning_of(ranges: str, *, equalize: bool, correct_biases: bool) -> Tuning:
    """Gives what was said of tuning in one object."""
    one_of("--ranges", ranges, get_args(Ranges))
    return Tuning(ranges, equalize, correct_biases)  # type: ignore[arg-type]  # checked above


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


def parse_pair(spelled: str) -> tuple[str, int]:
    """Gives the input and the number of the output that `h:1` names."""
    name, _, number = spelled.rpartition(":")
    if not name or not (number.isascii() and number.isdigit()):
        raise PillionError(
            f"--state-pair {spelled} names no pair",
            rule="INPUT:OUTPUT: the name of an input, and the number of an output, from 0 on",
            here=spelled,
            help="--state-pair h:1",
        )
    return name, int(number)


def parse_size(text: str | None) -> tuple[int, int] | None:
    """Reads `96` or `96x128` as height and width."""
    if text is None:
        return None
    match = re.fullmatch(r"(\d+)(?:x(\d+))?", text)
    if match is None or "0" in (match[1], match[2]):
        raise PillionError(
            f"--input-size {text} is not a size",
            rule="one number, or height x width, in pixels",
            here=text,
            help="--input-size 96 or --input-size 96x128",
        )
    return int(match[1]), int(match[2] or match[1])


def check(request: Request) -> None:
    """Raises where a request cannot be fulfilled, as far as that is seen without the compiler."""
    if is_int8_file(request.model):
        refuse_options(request)
    check_named(request.model)
    from pillion.targets import find_target

    find_target(request.target)
    if not is_int8_file(request.model):
        _want_quantize(request)
    for path in (request.calibrate, request.weights):
        if isinstance(path, Path):
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
    program = compile_for(
        request,
        request.model,
        calibrate=request.calibrate,
        input_size=request.input_size,
        weights=request.weights,
        trust_pickle=request.trust_pickle,
        tuning=request.tuning if request.tuning != AS_USUAL else None,
        progress=progress,
        watch=kept.watch if kept else None,
    )
    if kept:
        kept.keep(program)
    return program


def refuse_options(request: Request) -> None:
    """Raises where an option asks for what an int8 file has decided. Whether a .tflite that is to be quantized computes in float is
    seen when it is read."""
    size = "x".join(map(str, request.input_size)) if request.input_size else None
    is_to_be = request.quantize and suffix_of(request.model) == ".tflite"
    data = {} if is_to_be else {"--calibrate": request.calibrate}
    given = {**data, "--weights": request.weights, "--input-size": size}
    layout = request.io_layout if request.io_layout != "nchw" else None
    refuse_useless(
        request.model, {**given, "--io-layout": layout, "--trust-pickle": request.trust_pickle or None}
    )


def _want_quantize(request: Request) -> None:
    """Raises where a model computes in float and shall not be quantized; warns where nothing says how it should be."""
    hush()
    if not request.quantize:
        raise PillionError(
            f"`{request.model}` computes in float",
            rule="programs are int8",
            here=f"-m {request.model}, no --quantize",
            help="add --quantize (and --calibrate with real data for real accuracy)",
        )
    if request.calibrate is None:
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

    with _warnings_in_a_line("ignore" if quiet else "always"):
        return compiler.compile(
            model,
            example_inputs,
            target=request.target,
            io_dtype=request.io_dtype,  # type: ignore[arg-type]  # checked by Request
            io_layout=request.io_layout,  # type: ignore[arg-type]  # checked by Request
            state=request.state,  # type: ignore[arg-type]  # checked by Request
            stateful=request.stateful,
            state_pairs=dict(map(parse_pair, request.state_pairs)),
            placement=PlacementOptions(request.keep_on_cpu, request.only_npu, request.prefer_npu),
            arithmetic=request.arithmetic,  # type: ignore[arg-type]  # checked by Request
            optimize="size" if request.optimize == "size" else "speed",
            max_ram=request.memory.max_ram,
            extra=request.memory.extra if request.memory.is_asked else None,
            rows_in=request.memory.rows_in,
            stream=dict(request.stream.axes) if request.stream else None,
            hop=request.stream.hop if request.stream else None,
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
