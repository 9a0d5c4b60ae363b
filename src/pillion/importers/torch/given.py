# SPDX-License-Identifier: Apache-2.0
"""What users hand over: a model, example inputs, calibration data. Arrays of numpy are as good as tensors."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.export import ExportedProgram
from torch.optim.swa_utils import AveragedModel

from pillion.data.given import open_data
from pillion.data.options import LABEL_NAMES
from pillion.errors import PillionError
from pillion.importers.torch.data import CalibrationData, load_calibration
from pillion.importers.torch.inputs import like_examples

ARRAYS = (Tensor, np.ndarray)
Batches = Iterable[Any] | str | os.PathLike[str]
"""Calibration data: samples, the path of a folder or file with samples, or a source that `pillion.data` has opened."""
WRAPPERS = (nn.DataParallel, nn.parallel.DistributedDataParallel, AveragedModel)
"""Modules that compute what the module in them computes."""
NUMBERS = "fiub"
"""Kinds of numpy's types that hold numbers."""


def as_model(model: Any, caller: str = "compile") -> Any:
    """Gives the model itself, without what wraps it. Raises where it is none."""
    if isinstance(model, nn.Module):
        return unwrapped(model)
    if isinstance(model, ExportedProgram) and caller == "compile":
        return model
    raise PillionError(
        f"{caller} takes a module, and this is none",
        rule="a torch.nn.Module" + (", or a torch.export.ExportedProgram" if caller == "compile" else ""),
        here=_model_in_words(model),
        help=_way_to_a_model(model, caller),
    )


def unwrapped(model: Any) -> Any:
    """Takes a model out of what `torch.compile`, `DataParallel` and averages over models wrap around it."""
    while isinstance(model, WRAPPERS) or hasattr(model, "_orig_mod"):
        model = model.module if isinstance(model, WRAPPERS) else model._orig_mod
    return model


def _model_in_words(model: Any) -> str:
    if isinstance(model, type):
        return f"the class {model.__name__}"
    name = getattr(model, "__name__", "")
    return f"the function {name}" if callable(model) and name else in_words(model)


def _way_to_a_model(model: Any, caller: str) -> str:
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
    """Gives example inputs as tensors; one alone needs no tuple. Numbers and lists of numbers are tensors, too. `place` says who gave
    them."""
    given = (inputs,) if isinstance(inputs, ARRAYS) or is_list_of_numbers(inputs) else inputs
    if not isinstance(given, (tuple, list)) or not given or not all(map(_holds_numbers, given)):
        raise PillionError(
            "example inputs are not tensors",
            rule="a tensor, or a tuple of tensors, one for each argument of forward; or arrays of numpy, numbers and lists of numbers",
            here=f"{in_words(inputs)} from {place}",
            help="tuple(inputs.values()), in the order of forward's arguments"
            if isinstance(inputs, Mapping)
            else "(torch.randn(1, 3, 32, 32),)",
        )
    tensors = tuple(map(_as_tensor, given))
    for index, tensor in enumerate(tensors):
        _check_input(tensor, index)
    return tensors


def _check_input(tensor: Tensor, index: int) -> None:
    if not tensor.numel() or (tensor.is_floating_point() and tensor.dtype != torch.float32):
        raise PillionError(
            f"example input {index} cannot be an input of a program",
            rule="float32, with at least one element",
            here=in_words(tensor),
            help="give inputs of the size that the device will see; .float() makes them, and the model, float32",
        )


def as_batches(given: Batches, examples: Sequence[Tensor], names: Sequence[str] = ()) -> Iterable[Any]:
    """Gives samples to iterate over. Raises where there are none to be had."""
    if isinstance(given, (str, os.PathLike)):
        return load_calibration(os.fspath(given), examples, names=names)
    if hasattr(given, "samples") and hasattr(given, "count"):
        return CalibrationData(open_data(given), tuple(examples), tuple(names))
    if isinstance(given, Mapping) or _is_whole(given, examples):
        return [given]
    try:
        iter(given)
    except TypeError:
        raise PillionError(
            "calibration data cannot be read",
            rule="an iterable of samples (a list, a DataLoader, a generator), or the path of a folder of samples",
            here=f"`calibrate` is {_model_in_words(given)}",
            help="call it: calibrate=samples()" if callable(given) else "calibrate=[(x,) for x in samples]",
        ) from None
    return given


def _is_whole(given: Any, examples: Sequence[Tensor]) -> bool:
    """Whether this is no row of samples, but all inputs with their labels, (x, y): a tuple of arrays, the last of which is no input."""
    if not isinstance(given, tuple) or len(given) < 2 or not all(isinstance(part, ARRAYS) for part in given):
        return False
    if len(examples) > 1:
        return True
    last = tuple(given[1].shape)
    return len(given) == 2 and last not in (examples[0].shape[1:], (len(given[1]), *examples[0].shape[1:]))


def as_samples(
    given: Any, number: int, examples: Sequence[Tensor], names: Sequence[str] = ()
) -> Iterator[tuple[Tensor, ...]]:
    """Gives the samples in one item of the data: a tensor for each input of the model, of the example's size. Batches of other sizes are split,
    and labels left out. Arrays get the number type of the example, as those of files do."""
    parts: Any = (given,) if isinstance(given, ARRAYS) else given
    if isinstance(parts, Mapping):
        parts = _named_parts(parts, number, names[: len(examples)], len(examples))
    if isinstance(parts, (tuple, list)):
        parts = _without_label(parts, len(examples))
        if len(parts) != len(examples):
            raise _other_count(parts, number, len(examples))
    if not isinstance(parts, (tuple, list)) or not all(map(_holds_numbers, parts)):
        raise PillionError(
            f"sample {number} of the calibration data is no input of the model",
            rule="a tensor, or a tuple of tensors, one for each input; or arrays of numpy",
            here=in_words(given),
            help="give what the model takes, made as for its training: of images `ToTensor()` makes tensors",
        )
    samples = tuple(_like(part, example) for part, example in zip(parts, examples, strict=True))
    for sample, example in zip(samples, examples, strict=True):
        if example.is_floating_point() and not sample.is_floating_point():
            raise _other_numbers(sample, example, number)
    yield from _split(samples, examples)


def _named_parts(
    sample: Mapping[Any, Any], number: int, names: Sequence[str], wanted: int
) -> tuple[Any, ...]:
    """The inputs of a sample that is a dict: by the names that they have in forward, or the only one that is no label."""
    if names and all(name in sample for name in names):
        return tuple(sample[name] for name in names)
    inputs = [
        part
        for name, part in sample.items()
        if isinstance(part, ARRAYS) and str(name).lower() not in LABEL_NAMES
    ]
    if len(inputs) == wanted == 1:
        return tuple(inputs)
    names = [name for name in names if name.isidentifier()] or [f"x{i}" for i in range(wanted)]
    raise PillionError(
        f"sample {number} of the calibration data does not name the model's inputs",
        rule=f"a dict has the inputs under the names of forward's arguments: {', '.join(names)}",
        here=f"keys {', '.join(map(str, sample))}",
        help=f"calibrate=[({', '.join(f's[{name!r}]' for name in names)},) for s in samples], with the keys of yours",
    )


def _other_numbers(sample: Tensor, example: Tensor, number: int) -> PillionError:
    return PillionError(
        f"sample {number} of the calibration data has other numbers than the model takes",
        rule=f"{in_words(example)}, as the example inputs are",
        here=in_words(sample),
        help="make them real numbers as for training: x.float() / 255 of bytes, where the model has learned with those",
    )


def _without_label(parts: Sequence[Any], inputs: int) -> Sequence[Any]:
    """The inputs of a sample, which may come with a label behind them, or as ((a, b), label)."""
    if inputs > 1 and len(parts) == 2 and isinstance(parts[0], (tuple, list)):
        parts = [*parts[0], parts[1]]
    return parts[:-1] if len(parts) == inputs + 1 else parts


def _split(batch: tuple[Tensor, ...], examples: Sequence[Tensor]) -> Iterator[tuple[Tensor, ...]]:
    """Samples of the examples' size, where all inputs have so many of them, or a part of one that is filled up with copies of its last row.
    What has other shapes stays whole: the model says what is wrong with it."""
    pairs = list(zip(batch, examples, strict=True))
    rows = {len(x) for x in batch if x.ndim}
    fits = all(x.ndim and x.shape[1:] == example.shape[1:] for x, example in pairs)
    size = {len(example) for example in examples if example.ndim}
    if not fits or len(rows) != 1 or len(size) != 1 or rows == {0}:
        yield batch
        return
    (count,), (each,) = rows, size
    for at in range(0, count, each):
        yield tuple(_filled(x[at : at + each], each) for x in batch)


def _filled(part: Tensor, rows: int) -> Tensor:
    missing = rows - len(part)
    return torch.cat([part, part[-1:].expand(missing, *part.shape[1:])]) if missing else part


def _other_count(parts: Sequence[Any], number: int, wanted: int) -> PillionError:
    names = [f"x{i}" for i in range(wanted)] if wanted > 1 else ["x"]
    kept = ", ".join(names) + ("," if wanted == 1 else "")
    surplus = len(parts) > wanted
    return PillionError(
        f"sample {number} of the calibration data has {len(parts)} parts, the model has {wanted} "
        f"{'input' if wanted == 1 else 'inputs'}",
        rule="a sample holds the model's inputs, and perhaps a label behind them",
        here=in_words(parts),
        help=f"drop the rest: calibrate=(({kept}) for {', '.join(names)}, *_ in loader)"
        if surplus
        else "give each sample all inputs of the model, in the order of forward's arguments",
    )


def _like(part: Any, example: Tensor) -> Tensor:
    """A part of a sample as a tensor, with the axis of the batch where that is missing and 1."""
    tensor = _as_tensor(part)
    (tensor,) = like_examples([tensor], [example])
    if not isinstance(part, Tensor) or (tensor.is_floating_point() and example.is_floating_point()):
        tensor = tensor.to(example.dtype)
    alone = example.shape[:1] == (1,) and tensor.shape == example.shape[1:]
    return tensor.unsqueeze(0) if alone else tensor


def is_list_of_numbers(part: Any) -> bool:
    """Says whether a list holds numbers, or lists of them, of one length: a tuple holds the arguments of forward."""
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


def in_words(thing: Any) -> str:
    """Describes in an error what something is: tensors by type and shape, other things by their class."""
    if isinstance(thing, ARRAYS):
        return f"{str(thing.dtype).removeprefix('torch.')}{list(thing.shape)}"
    if isinstance(thing, (tuple, list)):
        parts = ", ".join(type(x).__name__ if isinstance(x, (tuple, list)) else in_words(x) for x in thing)
        return f"({parts})" if thing else "nothing"
    name = type(thing).__name__
    return "None" if thing is None else f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}"
