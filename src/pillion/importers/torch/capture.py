# SPDX-License-Identifier: Apache-2.0
"""Captures a model that a user names (zoo model, `file.py:factory`, `.pt2`, `.onnx`) as an exported program."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram

from pillion import zoo
from pillion.errors import PillionError
from pillion.host_io.atomic_files import suffix_of
from pillion.host_io.call_arguments import accepted_arguments, require_accepted
from pillion.host_io.user_code import (
    MOST_NAMES,
    UserFile,
    defined_names,
    open_file,
    run_user_code,
    split_spec,
)
from pillion.importers.torch.export import check_static, export, quiet_torch, user_input_nodes
from pillion.importers.torch.file_operators import export_file_module
from pillion.importers.torch.fixed_arguments import fix_arguments, has_nested_arguments
from pillion.importers.torch.onnx import load_onnx
from pillion.importers.torch.preprocessing import preprocessed
from pillion.importers.torch.pt2 import load_pt2
from pillion.importers.torch.tensor_sizes import check_tensors
from pillion.importers.torch.user_inputs import as_inputs
from pillion.model_names import check_named

InputSize = int | tuple[int, int] | None

EXAMPLE_INPUTS_HELP = """beside {factory} write
    def example_inputs():
        return (torch.randn(1, 3, 32, 32),)
or let {factory} return a pair: (module, inputs)"""


EXAMPLE_INPUTS = "example_inputs"
"""Name of the function next to a factory that returns the example inputs."""


@dataclass(frozen=True)
class CapturedSource:
    """A captured model. `module` is None for files, which have no Python module."""

    module: nn.Module | None
    exported: ExportedProgram
    example_inputs: tuple[Tensor, ...]
    name: str


def load_model(
    spec: str,
    *,
    input_size: InputSize = None,
    weights: str | Path | None = None,
    trust_pickle: bool = False,
    preprocess: Any = None,
) -> CapturedSource:
    """Loads the model that `-m` names: a zoo model, `file.py:factory`, a `.pt2` or an `.onnx`, with optional weights from an
    .npz. `trust_pickle` lets torch execute pickled objects of a `.pt2`. `preprocess` are steps before the model."""
    module: nn.Module | None = None
    if suffix_of(spec) == ".pt2":
        source = _load_pt2(Path(spec), input_size, weights, trust_pickle)
        if preprocess is None:
            return source
        model: Any = source.exported
        inputs, name = source.example_inputs, source.name
    elif suffix_of(spec) == ".onnx":
        refuse_size_and_weights(spec, suffix_of(spec), None, weights)
        model, inputs = load_onnx(Path(spec), input_size)
        name = Path(spec).stem
        if preprocess is None:
            exported = export_file_module(model, inputs, Path(spec).name)
            return CapturedSource(None, exported, inputs, name)
    else:
        model, inputs, name = build_model(spec, input_size=input_size, weights=weights)
        module = model
    if preprocess is not None:
        model, inputs = preprocessed(model, inputs, preprocess)
        module = model
    return CapturedSource(module, export(model, inputs), inputs, name)


def build_model(
    spec: str,
    *,
    input_size: InputSize = None,
    weights: str | Path | None = None,
    opened: UserFile | None = None,
    arguments: Mapping[str, Any] = {},  # never changed
) -> tuple[nn.Module, tuple[Tensor, ...], str]:
    """Returns the module that `-m` names, its example inputs, and its name. An `opened` file is not run again. Its
    factory and `example_inputs` receive the `arguments` that they accept, and draw the same random numbers each
    time."""
    file, factory = split_spec(spec)
    if factory:
        with torch.random.fork_rng(devices=()):
            torch.manual_seed(0)
            source = opened if opened is not None and opened.path == file else open_file(file)
            module, inputs = _from_file(source, factory, input_size, arguments)
        name = factory.lower()
    else:
        check_named(spec)
        module, inputs = zoo.build(spec, input_size)
        name = zoo.require_model(spec).name
    if weights is not None:
        zoo.load_weights(module, str(weights))
    return module, inputs, name


def refuse_size_and_weights(
    model: str | Path, form: str, input_size: InputSize, weights: str | Path | None
) -> None:
    """Raises if options name parts that a model in this form contains already."""
    if input_size is not None or weights is not None:
        raise PillionError(
            f"{model} has its input size and weights inside",
            rule="--input-size goes with models of the zoo, --weights with them and with file.py:factory",
            here=f"{'--weights' if weights is not None else '--input-size'} with a {form}",
            help="compile or export the module with these weights (load_state_dict) and example inputs of this size",
        )


def _load_pt2(
    path: Path, input_size: InputSize, weights: str | Path | None, trust_pickle: bool
) -> CapturedSource:
    refuse_size_and_weights(path, suffix_of(path), input_size, weights)
    with quiet_torch():
        exported = load_pt2(path, trust_pickle=trust_pickle)
    check_static(exported)
    check_tensors(exported)
    if has_nested_arguments(exported) and exported.example_inputs is not None:
        module, inputs, _ = fix_arguments(exported, exported.example_inputs[0])
        return CapturedSource(None, export(module, inputs), inputs, path.stem)
    return CapturedSource(None, exported, _inputs_of(exported), path.stem)


def _inputs_of(exported: ExportedProgram) -> tuple[Tensor, ...]:
    """Returns saved example inputs of a program, or random inputs of the same shapes."""
    if exported.example_inputs is not None:
        args, kwargs = exported.example_inputs
        return tuple(t for t in (*args, *kwargs.values()) if isinstance(t, Tensor))
    values = [node.meta["val"] for node in user_input_nodes(exported)]
    source = torch.Generator().manual_seed(0)
    return tuple(torch.randn(v.shape, generator=source).to(v.dtype) for v in values)


def _from_file(
    file: UserFile, factory: str, input_size: InputSize, arguments: Mapping[str, Any]
) -> tuple[nn.Module, tuple[Tensor, ...]]:
    path = file.path
    if input_size is not None:
        raise PillionError(
            "--input-size goes with models of the zoo",
            rule="the inputs of a model of your own come from its file",
            here=f"{path}:{factory}",
            help="change example_inputs() in the file",
        )
    make = getattr(file.module, factory, None)
    if make is None:
        raise _no_factory(path, factory, file.module)
    module, inputs, giver = _run_factory(file, factory, make, arguments)
    if not isinstance(module, nn.Module):
        raise PillionError(
            f"{factory} of {path} gives no module",
            rule="a class or function that gives a torch.nn.Module, or a pair (module, inputs)",
            here=f"{factory} gives {type(module).__name__}",
            help=f"def {factory}(): return Net()",
        )
    if inputs is None:
        raise PillionError(
            f"{path} does not say what the inputs look like",
            rule="example_inputs() beside the factory, or a returned pair (module, inputs)",
            here=f"{path.name}:{factory}",
            help=EXAMPLE_INPUTS_HELP.format(factory=factory),
        )
    return module, as_inputs(inputs, f"{path.name}:{giver}")


def _run_factory(
    file: UserFile, factory: str, make: Any, arguments: Mapping[str, Any]
) -> tuple[Any, Any, str]:
    """Runs a factory. Returns its module, the example inputs, and the name of their source: the factory, or
    `example_inputs`, a function or the inputs themselves."""
    is_called = callable(make) and not isinstance(make, nn.Module)
    called = {factory: make} if is_called else {}
    inputs = getattr(file.module, EXAMPLE_INPUTS, None)
    if callable(inputs):
        called[EXAMPLE_INPUTS] = inputs
    require_accepted(f"{file.path}:{factory}", called, arguments)
    result = _call_user_function(make, f"{file.path}:{factory}", arguments) if is_called else make
    if isinstance(result, tuple) and len(result) == 2 and isinstance(result[0], nn.Module):
        return *result, factory
    if callable(inputs):
        inputs = _call_user_function(inputs, f"{file.path}:{EXAMPLE_INPUTS}", arguments)
    return result, inputs, EXAMPLE_INPUTS


def _no_factory(path: Path, factory: str, file: ModuleType) -> PillionError:
    own = defined_names(file)
    close = difflib.get_close_matches(factory, own, n=1) or own[:1]
    return PillionError(
        f"{path} has no {factory}",
        rule="file.py:factory names a class or function of the file",
        here=f"it has {', '.join(own[:MOST_NAMES])}" if own else "it defines neither classes nor functions",
        help=f"-m {quote(f'{path}:{close[0]}')}"
        if close
        else f"write there what makes the model: class {factory}(nn.Module): …",
    )


def _call_user_function(function: Any, location: str, arguments: Mapping[str, Any]) -> Any:
    return run_user_code(lambda: function(**accepted_arguments(function, arguments)), location)
