# SPDX-License-Identifier: Apache-2.0
"""`pillion train`: the user's training loop between preparation and compilation.

The untrained model is compiled and written first, so that errors show before hours of training."""

from __future__ import annotations

import inspect
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from pillion.cli.request import Request, compile_for, silence_loggers, write_program
from pillion.compile_options import Loading, Quantization
from pillion.emitters.c.project import check_project
from pillion.errors import PillionError
from pillion.host_io.atomic_files import output_suffix, suffix_of
from pillion.host_io.user_code import UserFile, file_and_function, importing_from_folder_of, split_spec
from pillion.program import Program

if TYPE_CHECKING:
    from pillion.importers.torch.train.qat_module import QatModule

MODEL = "model"
"""The factory in the training file, if no model is named."""
TRAINING = "train(model) trains the module that it is given and returns it"


@dataclass(frozen=True)
class Trained:
    """A trained program, the batches that it saw, and the names of its tensors in 16 bits."""

    program: Program
    batches: int
    int16: tuple[str, ...]


def train_and_compile(
    function: str, request: Request, output: Path, *, force: bool = False, prints_to_stderr: bool = False
) -> Trained:
    """Prepares a model, passes it to `file.py:function`, compiles and writes the result.

    An empty `request.model` means the file's own `model`."""
    from pillion.compiler import prepare_qat
    from pillion.importers.torch import capture

    silence_loggers()
    file, loop = _load_training_loop(function)
    spec = _require_trainable_model(request.model) or f"{file.path}:{MODEL}"
    loading = request.options.loading
    module, inputs, name = capture.build_model(
        spec, input_size=loading.size, weights=loading.weights, opened=file
    )
    name = name if request.model else type(module).__name__.lower()
    # A module has its weights; the user's name of the program takes precedence.
    options = replace(request.options, loading=Loading(), name=request.options.name or name)
    request = replace(request, model=spec, quantize=True, options=options)
    # What is not trained yet is not worth a warning.
    untrained = compile_for(request, module, inputs, quiet=True)
    _check_compile_and_write(untrained, output, force)
    int16 = request.options.quantize.int16_patterns
    if untrained.precision is not None:
        int16 = tuple(tensor.name for tensor in untrained.precision.tensors)
    prepared = prepare_qat(module, inputs, request.target, int16=int16)
    with importing_from_folder_of(file.path), redirect_stdout(sys.stderr if prints_to_stderr else sys.stdout):
        trained = _run_training_loop(loop, prepared, function, file.path)
    learned = replace(request, options=replace(options, quantize=Quantization()))
    program = compile_for(learned, trained, inputs)
    write_program(program, output, force=force)
    return Trained(program, int(trained.batches_seen), int16)


def _check_compile_and_write(untrained: Program, output: Path, force: bool) -> None:
    """Raises whatever compiling and writing would raise after the training."""
    if not output_suffix(output):
        check_project(untrained.files, output, force)
    with tempfile.TemporaryDirectory() as folder:
        write_program(untrained, Path(folder) / output.name)


def _require_trainable_model(model: str) -> str:
    if suffix_of(model) in (".pt2", ".onnx", ".tflite", ".pte"):
        raise PillionError(
            f"{model} cannot be trained",
            rule="a model of the zoo, or file.py:factory",
            here=f"-m {model}: its parameters are constants",
            help="name the Python that makes the module, with --weights for what it has learned so far",
        )
    return model


def _load_training_loop(function: str) -> tuple[UserFile, Callable[[Any], Any]]:
    """Returns the user's function and its file."""
    example = f"pillion train {quote(function.split(':')[0].removesuffix('.py') + '.py:train_and_compile')} …"
    file, loop = file_and_function(function, TRAINING, example)
    if not _takes_a_model(loop):
        name = split_spec(function)[1]
        raise PillionError(
            f"{name} of {file.path} cannot be called with a model",
            rule=TRAINING,
            here=f"def {name}{inspect.signature(loop)}",
            help=f"def {name}(model): …; what else it needs can have defaults",
        )
    return file, loop


def _takes_a_model(loop: Callable[[Any], Any]) -> bool:
    try:
        inspect.signature(loop).bind(None)
    except TypeError:
        return False
    except ValueError:  # of something that Python cannot look into
        return True
    return True


def _run_training_loop(
    loop: Callable[[Any], Any], prepared: QatModule, function: str, path: Path
) -> QatModule:
    from pillion.importers.torch.train.qat_module import QatModule

    with _user_errors(function, path):
        result = loop(prepared)
    if not isinstance(result, QatModule):
        raise PillionError(
            f"{function} gave back something else",
            rule=TRAINING,
            here="nothing" if result is None else f"a {type(result).__name__}",
            help="end it with `return model`, of the model that it was given or a copy of it",
        )
    if not result.is_trained:
        raise PillionError(
            f"{function} trained nothing",
            rule="at least one batch goes through the model in train mode",
            here="0 batches",
            help="call model.train() before the loop; without training, `pillion compile --quantize` is the way",
        )
    return result


@contextmanager
def _user_errors(function: str, path: Path) -> Iterator[None]:
    """Turns an exception in the user's loop into a PillionError with the user's lines."""
    try:
        yield
    except (Exception, SystemExit) as error:
        words = str(error).strip() or "no message"
        raise PillionError(
            f"{function} raised {type(error).__name__}",
            rule=TRAINING,
            here="\n".join([words, *_user_traceback_lines(error, path)]),
            help="nothing was written; save the model's state_dict in the loop, and begin with it next time",
        ) from error


def _user_traceback_lines(error: BaseException, path: Path) -> list[str]:
    """Returns the lines of the user's files in a traceback, innermost last: no generated code, no package."""
    folder = path.resolve().parent
    own = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith("<") and "site-packages" not in frame.filename
        if folder in Path(frame.filename).resolve().parents
    ]
    return [f"{Path(frame.filename).name}:{frame.lineno} in {frame.name}: {frame.line}" for frame in own]
