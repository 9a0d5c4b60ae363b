# SPDX-License-Identifier: Apache-2.0
"""Validates and converts what users pass: models, example inputs and calibration data, as tensors or numpy arrays."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.export import ExportedProgram
from torch.optim.swa_utils import AveragedModel

from pillion.data.python_data import limit_unsized, open_data
from pillion.data.reading_options import LABEL_NAMES
from pillion.errors import PillionError
from pillion.importers.torch import calibration_data
from pillion.importers.torch.calibration_data import CalibrationData, load_calibration
from pillion.importers.torch.input_types import like_examples

ARRAYS = (Tensor, np.ndarray)
Batches = Iterable[Any] | str | os.PathLike[str]
"""Calibration data: samples, the path of a folder or file of samples, or a source opened by `pillion.data`."""
WRAPPERS = (nn.DataParallel, nn.parallel.DistributedDataParallel, AveragedModel)
"""Modules that only forward to the module inside."""
NUMBERS = "fiub"
"""Numpy type kinds that hold numbers."""


def require_model(model: Any, caller: str = "compile") -> Any:
    """Returns the model without wrappers. Raises if it is not a model."""
    if isinstance(model, nn.Module):
        return unwrap_model(model)
    if isinstance(model, ExportedProgram) and caller == "compile":
        return model
    raise PillionError(
        f"{caller} takes a module, and this is none",
        rule="a torch.nn.Module" + (", or a torch.export.ExportedProgram" if caller == "compile" else ""),
        here=_describe_model(model),
        help=_not_a_model_help(model, caller),
    )


def unwrap_model(model: Any) -> Any:
    """Unwraps a model from `torch.compile`, `DataParallel` and averaged models."""
    while isinstance(model, WRAPPERS) or hasattr(model, "_orig_mod"):
        model = model.module if isinstance(model, WRAPPERS) else model._orig_mod
    return model


def _describe_model(model: Any) -> str:
    if isinstance(model, type):
        return f"the class {model.__name__}"
    name = getattr(model, "__name__", "")
    return f"the function {name}" if callable(model) and name else describe_value(model)


def _not_a_model_help(model: Any, caller: str) -> str:
    if isinstance(model, type):
        return f"make a module of the class: {caller}({model.__name__}(), …)"
    if isinstance(model, (str, os.PathLike)):
        return "files are for the command line (-m); in Python load the module, or torch.export.load a .pt2"
    if isinstance(model, ExportedProgram):
        return "its parameters are constants: give the module that it was exported from"
    if callable(model):
        return f"give the module that it makes: {caller}(make(), …), or call it in the forward of a module"
    return "give the module itself"


def as_inputs(inputs: Any, place: str) -> tuple[Tensor, ...]:
    """Converts example inputs to a tuple of tensors; one tensor needs no tuple, and numbers and lists of numbers
    become tensors. `place` names their origin in errors."""
    items = (inputs,) if isinstance(inputs, ARRAYS) or is_list_of_numbers(inputs) else inputs
    if not isinstance(items, (tuple, list)) or not items or not all(map(_holds_numbers, items)):
        raise PillionError(
            "example inputs are not tensors",
            rule="a tensor, or a tuple of tensors, one for each argument of forward; or arrays of numpy, numbers and lists of numbers",
            here=f"{describe_value(inputs)} from {place}",
            help="tuple(inputs.values()), in the order of forward's arguments"
            if isinstance(inputs, Mapping)
            else "(torch.randn(1, 3, 32, 32),)",
        )
    tensors = tuple(map(_as_tensor, items))
    for index, tensor in enumerate(tensors):
        _check_input(tensor, index)
    return tensors


def _check_input(tensor: Tensor, index: int) -> None:
    if not tensor.numel() or (tensor.is_floating_point() and tensor.dtype != torch.float32):
        raise PillionError(
            f"example input {index} cannot be an input of a program",
            rule="float32, with at least one element",
            here=describe_value(tensor),
            help="give inputs of the size that the device will see; .float() makes them, and the model, float32",
        )


def as_calibration_batches(
    given: Batches, examples: Sequence[Tensor], names: Sequence[str] = ()
) -> Iterable[Any]:
    """Returns an iterable of samples. Raises if `given` is not iterable."""
    if isinstance(given, (str, os.PathLike)):
        return load_calibration(os.fspath(given), examples, names=names)
    if hasattr(given, "samples") and hasattr(given, "count"):
        return CalibrationData(open_data(given), tuple(examples), tuple(names))
    if isinstance(given, Mapping) or _is_labelled_batch(given, examples):
        return [given]
    try:
        iter(given)
    except TypeError:
        raise PillionError(
            "calibration data cannot be read",
            rule="an iterable of samples (a list, a DataLoader, a generator), or the path of a folder of samples",
            here=f"`calibrate` is {_describe_model(given)}",
            help="call it: calibrate=samples()" if callable(given) else "calibrate=[(x,) for x in samples]",
        ) from None
    return (
        given
        if isinstance(given, LimitedSamples)
        else limit_unsized(given, calibration_data.MAX_UNSIZED_SAMPLES)
    )


@dataclass(frozen=True)
class LimitedSamples:
    """Samples whose number is limited already."""

    given: Iterable[Any]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.given)


def _is_labelled_batch(sample: Any, examples: Sequence[Tensor]) -> bool:
    """Whether a tuple of arrays holds all inputs with their labels, (x, y), instead of one sample per element."""
    if (
        not isinstance(sample, tuple)
        or len(sample) < 2
        or not all(isinstance(part, ARRAYS) for part in sample)
    ):
        return False
    if len(examples) > 1:
        return True
    last = tuple(sample[1].shape)
    return len(sample) == 2 and last not in (examples[0].shape[1:], (len(sample[1]), *examples[0].shape[1:]))


def split_into_samples(
    given: Any, number: int, examples: Sequence[Tensor], names: Sequence[str] = ()
) -> Iterator[tuple[Tensor, ...]]:
    """Yields the samples of one item of calibration data: one tensor per input of the model, in the example's
    shape and number type. Larger batches are split; labels are dropped."""
    parts: Any = (given,) if isinstance(given, ARRAYS) else given
    if isinstance(parts, Mapping):
        parts = _inputs_of_dict_sample(parts, number, names[: len(examples)], len(examples))
    if isinstance(parts, (tuple, list)):
        parts = _strip_label(parts, len(examples))
        if len(parts) != len(examples):
            raise _input_count_error(parts, number, len(examples))
    if not isinstance(parts, (tuple, list)) or not all(map(_holds_numbers, parts)):
        raise PillionError(
            f"sample {number} of the calibration data is no input of the model",
            rule="a tensor, or a tuple of tensors, one for each input; or arrays of numpy",
            here=describe_value(given),
            help="give what the model takes, made as for its training: of images `ToTensor()` makes tensors",
        )
    samples = tuple(_as_input_tensor(part, example) for part, example in zip(parts, examples, strict=True))
    for sample, example in zip(samples, examples, strict=True):
        if example.is_floating_point() and not sample.is_floating_point():
            raise PillionError(
                f"sample {number} of the calibration data has other numbers than the model takes",
                rule=f"{describe_value(example)}, as the example inputs are",
                here=describe_value(sample),
                help="make them real numbers as for training: x.float() / 255 of bytes, where the model has learned with those",
            )
    yield from _split_batch(samples, examples)


def _inputs_of_dict_sample(
    sample: Mapping[Any, Any], number: int, names: Sequence[str], input_count: int
) -> tuple[Any, ...]:
    """Inputs of a dict sample: by forward's argument names, or its only array that is not a label."""
    if names and all(name in sample for name in names):
        return tuple(sample[name] for name in names)
    inputs = [
        part
        for name, part in sample.items()
        if isinstance(part, ARRAYS) and str(name).lower() not in LABEL_NAMES
    ]
    if len(inputs) == input_count == 1:
        return tuple(inputs)
    names = [name for name in names if name.isidentifier()] or [f"x{i}" for i in range(input_count)]
    raise PillionError(
        f"sample {number} of the calibration data does not name the model's inputs",
        rule=f"a dict has the inputs under the names of forward's arguments: {', '.join(names)}",
        here=f"keys {', '.join(map(str, sample))}",
        help=f"calibrate=[({', '.join(f's[{name!r}]' for name in names)},) for s in samples], with the keys of yours",
    )


def _strip_label(parts: Sequence[Any], inputs: int) -> Sequence[Any]:
    """Inputs of a sample whose label comes last, or that is nested as ((a, b), label)."""
    if inputs > 1 and len(parts) == 2 and isinstance(parts[0], (tuple, list)):
        parts = [*parts[0], parts[1]]
    return parts[:-1] if len(parts) == inputs + 1 else parts


def _split_batch(batch: tuple[Tensor, ...], examples: Sequence[Tensor]) -> Iterator[tuple[Tensor, ...]]:
    """Splits a batch into samples of the examples' size and pads the last one by repeating its last row. Passes
    other shapes through; the model reports them."""
    pairs = list(zip(batch, examples, strict=True))
    rows = {len(x) for x in batch if x.ndim}
    fits = all(x.ndim and x.shape[1:] == example.shape[1:] for x, example in pairs)
    size = {len(example) for example in examples if example.ndim}
    if not fits or len(rows) != 1 or len(size) != 1 or rows == {0}:
        yield batch
        return
    (count,), (each,) = rows, size
    for at in range(0, count, each):
        yield tuple(_pad_rows(x[at : at + each], each) for x in batch)


def _pad_rows(part: Tensor, rows: int) -> Tensor:
    missing = rows - len(part)
    return torch.cat([part, part[-1:].expand(missing, *part.shape[1:])]) if missing else part


def _input_count_error(parts: Sequence[Any], number: int, input_count: int) -> PillionError:
    names = [f"x{i}" for i in range(input_count)] if input_count > 1 else ["x"]
    pattern = ", ".join(names) + ("," if input_count == 1 else "")
    surplus = len(parts) > input_count
    return PillionError(
        f"sample {number} of the calibration data has {len(parts)} parts, the model has {input_count} "
        f"{'input' if input_count == 1 else 'inputs'}",
        rule="a sample holds the model's inputs, and perhaps a label behind them",
        here=describe_value(parts),
        help=f"drop the rest: calibrate=(({pattern}) for {', '.join(names)}, *_ in loader)"
        if surplus
        else "give each sample all inputs of the model, in the order of forward's arguments",
    )


def _as_input_tensor(part: Any, example: Tensor) -> Tensor:
    """Returns one input of a sample as a tensor, with the batch axis added if it is missing and 1."""
    tensor = _as_tensor(part)
    (tensor,) = like_examples([tensor], [example])
    if not isinstance(part, Tensor) or (tensor.is_floating_point() and example.is_floating_point()):
        tensor = tensor.to(example.dtype)
    alone = example.shape[:1] == (1,) and tensor.shape == example.shape[1:]
    return tensor.unsqueeze(0) if alone else tensor


def is_list_of_numbers(part: Any) -> bool:
    """Whether `part` is a list of numbers or of equally long lists of numbers. Tuples hold forward's arguments."""
    if not isinstance(part, list) or not part:
        return False
    if all(isinstance(x, list) for x in part):
        return len({len(x) for x in part}) == 1 and all(map(is_list_of_numbers, part))
    return all(isinstance(x, (bool, int, float)) for x in part)


def _holds_numbers(part: Any) -> bool:
    if isinstance(part, (bool, int, float)) or is_list_of_numbers(part):
        return True
    return isinstance(part, Tensor) or (isinstance(part, np.ndarray) and part.dtype.kind in NUMBERS)


def _as_tensor(part: Any) -> Tensor:
    if isinstance(part, Tensor):
        return part
    if isinstance(part, (bool, int, float, list)):
        return torch.tensor(part)
    return torch.from_numpy(np.array(part, part.dtype.newbyteorder("="), order="C"))


def describe_value(thing: Any) -> str:
    """Describes a value for an error message: tensors by type and shape, everything else by class."""
    if isinstance(thing, ARRAYS):
        return f"{str(thing.dtype).removeprefix('torch.')}{list(thing.shape)}"
    if isinstance(thing, (tuple, list)):
        parts = ", ".join(
            type(x).__name__ if isinstance(x, (tuple, list)) else describe_value(x) for x in thing
        )
        return f"({parts})" if thing else "nothing"
    name = type(thing).__name__
    return "None" if thing is None else f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}"
