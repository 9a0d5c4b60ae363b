# SPDX-License-Identifier: Apache-2.0
"""Reads weights from untrusted files: `.npz`, `.safetensors`, and the files of `torch.save`. Only tensors are read;
nothing is executed.

Checkpoints have wrappers: `{"state_dict": …}` of training loops, the prefix `module.` of `DataParallel` and averaged
models, `_orig_mod.` of `torch.compile`, `model.` of a containing module. The tensors that fit the model are
extracted."""

from __future__ import annotations

import argparse
import json
import math
import pickle
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import numpy as np

from pillion.errors import PillionError, error_reason, warn
from pillion.host_io.atomic_files import WEIGHT_FILES, read_whole, regular_file, suffix_of
from pillion.host_io.npy_files import UNREADABLE, read_arrays

if TYPE_CHECKING:
    from torch import Tensor

TYPES = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U8": "uint8",
    "BOOL": "bool",
}
"""Element types of `.safetensors` → PyTorch's names."""
MOST_HEADER_BYTES = 100_000_000
WRAPPERS = ("state_dict", "model_state_dict", "model_state", "model", "net", "network", "weights", "params")
"""Keys under which checkpoints store weights, most common first; other keys follow."""
WRAPPER_TENSORS = frozenset({"n_averaged"})
"""Tensors that wrappers add to the model's."""
DEEPEST = 3
"""The deepest nesting of wrappers."""


def read_state(path: Path, wanted: Iterable[str]) -> dict[str, Tensor]:
    """Returns the tensors of a file by name, without a checkpoint's wrappers; the model's keys identify
    them."""
    suffix = suffix_of(path)
    reader = _READERS.get(suffix)
    if reader is None:
        raise PillionError(
            f"{path} is not a file of weights",
            rule=f"weights are in {WEIGHT_FILES}",
            here=f"suffix {path.suffix}" if path.suffix else "no suffix",
            help=f"-m {quote(str(path))}, without --weights: it holds the model with its weights"
            if suffix == ".pt2"
            else f"torch.save(model.state_dict(), {path.stem + '.pt'!r})",
        )
    regular_file(path, suffix)
    return _best_tensor_table(path, reader(path), frozenset(wanted))


def _read_tensors(path: Path) -> dict[str, Tensor]:
    import torch

    try:
        content = read_arrays(path)
        if isinstance(content, np.ndarray):
            raise ValueError("it holds a single array")
        arrays = {
            key: np.ascontiguousarray(array, array.dtype.newbyteorder("=")) for key, array in content.items()
        }
        return {key: torch.from_numpy(array) for key, array in arrays.items()}
    except (*UNREADABLE, TypeError) as error:
        raise PillionError(
            f"{path} is not a file of weights",
            rule="an .npz archive of plain arrays, one for each key of the model's state_dict()",
            here=error_reason(error),
            help="write one with pillion.zoo.save_weights(module, path), or with numpy.savez",
        ) from None


def _read_safetensors(path: Path) -> dict[str, Tensor]:
    raw = read_whole(path, ".safetensors")
    try:
        size = int.from_bytes(raw[:8], "little")
        if len(raw) < 8 or not 0 < size <= min(len(raw) - 8, MOST_HEADER_BYTES):
            raise ValueError(f"it speaks of a header of {size:,} bytes, the file has {len(raw):,}")
        header = json.loads(raw[8 : 8 + size])
        if not isinstance(header, dict):
            raise ValueError("its header is no table of tensors")
        data = memoryview(raw)[8 + size :]
        return {key: _tensor_of_row(key, row, data) for key, row in header.items() if key != "__metadata__"}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise PillionError(
            f"{path} is not a file of weights",
            rule="a .safetensors file: a header that says where each tensor lies, and the tensors",
            here=error_reason(error),
            help="safetensors.torch.save_file(model.state_dict(), 'weights.safetensors')",
        ) from None


def _tensor_of_row(key: str, row: Any, data: memoryview) -> Tensor:
    """Returns the tensor of a header's row."""
    import torch

    shape, (begin, end), name = row["shape"], row["data_offsets"], TYPES.get(row["dtype"])
    if name is None:
        raise ValueError(f"{key} has the type {row['dtype']}, which is none of {', '.join(TYPES)}")
    dtype: torch.dtype = getattr(torch, name)
    if not all(type(n) is int and n >= 0 for n in (*shape, begin, end)):
        raise ValueError(f"{key} has a shape or a place that is no number from 0 up")
    if end > len(data) or end - begin != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"{key} is {name}{shape} and lies from {begin} to {end} of {len(data)}")
    if begin == end:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(bytearray(data[begin:end]), dtype=dtype).reshape(shape)


class SkippedNumpyObject:
    """Replaces numpy numbers and arrays that a training loop stored with the weights; their content is
    ignored."""

    def __init__(self, *arguments: object) -> None: ...

    def __setstate__(self, state: object) -> None: ...


OF_NUMPY = (
    "dtype",
    "ndarray",
    *(f"{core}.multiarray.{name}" for core in ("core", "_core") for name in ("scalar", "_reconstruct")),
)
"""The names in pickles of numpy's numbers and arrays; none is ever called."""


def _load_checkpoint(path: Path) -> Any:
    """Returns the tensors and plain containers that torch saved."""
    import torch

    known: list[Any] = [argparse.Namespace, *((SkippedNumpyObject, f"numpy.{name}") for name in OF_NUMPY)]
    try:
        with warnings.catch_warnings(), torch.serialization.safe_globals(known):
            warnings.simplefilter("ignore")
            return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise PillionError(
            f"{path} holds more than tensors",
            rule="weights are tensors by name; a pickled module is code, and is never executed",
            here=_refused_object(str(error)),
            help=f"{_save_state_help(path)}; then --weights {quote(str(_suggested_path(path)))} -m file.py:factory",
        ) from None
    except Exception as error:  # torch raises any exception for a broken file
        raise PillionError(
            f"{path} is not a file of weights",
            rule="what torch.save wrote of a state dict",
            here=_load_failure_reason(error),
            help=_save_scripted_help(path) if SCRIPTED in str(error) else _save_state_help(path),
        ) from None


SCRIPTED = "TorchScript"


def _load_failure_reason(error: Exception) -> str:
    """Returns torch's reason for a broken or foreign file in a few words."""
    if SCRIPTED in str(error):
        return "an archive of TorchScript, which is code"
    return (
        "it does not begin as such a file does"
        if isinstance(error, LookupError)
        else error_reason(error)[:200]
    )


def _save_scripted_help(path: Path) -> str:
    return f"torch.save(torch.jit.load({str(path)!r}).state_dict(), {str(_suggested_path(path))!r})"


def _suggested_path(path: Path) -> Path:
    return path.with_name(path.stem + "_weights.pt")


def _refused_object(text: str) -> str:
    """Returns the object that torch refused in a few words."""
    name = re.search(r"GLOBAL ([\w.]+)", text)
    return f"it names {name[1]}" if name else (text.splitlines() or ["a pickle of objects"])[0][:200]


def _save_state_help(path: Path) -> str:
    return f"where the model is at hand: torch.save(model.state_dict(), {str(_suggested_path(path))!r})"


_READERS: Mapping[str, Callable[[Path], Any]] = {
    ".npz": _read_tensors,
    ".safetensors": _read_safetensors,
    ".pt": _load_checkpoint,
    ".pth": _load_checkpoint,
    ".ckpt": _load_checkpoint,
    ".bin": _load_checkpoint,
}


def _best_tensor_table(path: Path, content: Any, keys: frozenset[str]) -> dict[str, Tensor]:
    """Returns the table of tensors with the most wanted keys, common wrappers first."""
    tables = [(where, _strip_key_prefix(table, keys)) for where, table in _tensor_tables(content)]
    if not tables:
        raise PillionError(
            f"{path} holds no weights",
            rule="a state dict: tensors by name, perhaps under a key such as state_dict",
            here=_describe_content(content),
            help=_save_state_help(path),
        )
    most = max(len(keys & table.keys()) for _, table in tables)
    best = [(where, table) for where, table in tables if len(keys & table.keys()) == most]
    if most and len(best) > 1:
        others = ", ".join(f"`{where}`" for where, _ in best[1:])
        warn(f"{path} holds such weights more than once: those of `{best[0][0]}` are taken, not {others}")
    return best[0][1]


def _tensor_tables(content: Any, where: str = "", depth: int = 0) -> list[tuple[str, dict[str, Tensor]]]:
    """Returns all tables of tensors in a checkpoint with their places, up to a depth limit: a hostile file
    may contain itself."""
    from torch import Tensor

    if not isinstance(content, Mapping) or depth > DEEPEST:
        return []
    tensors = {str(key): value for key, value in content.items() if isinstance(value, Tensor)}
    inside = sorted(content, key=lambda key: WRAPPERS.index(key) if key in WRAPPERS else len(WRAPPERS))
    inner = [table for key in inside for table in _tensor_tables(content[key], f"{where}{key}", depth + 1)]
    return [(where, tensors), *inner] if tensors else inner


def _strip_key_prefix(table: dict[str, Tensor], keys: frozenset[str]) -> dict[str, Tensor]:
    """Returns a table without the prefix of its keys, if the model was a part of the saved object. Other keys
    are dropped."""
    if keys & table.keys():
        return table
    fits = Counter(start for key in table for start, rest in _prefix_splits(key) if rest in keys)
    if not fits:
        return table
    ((prefix, _),) = fits.most_common(1)
    inside = {key.removeprefix(prefix): value for key, value in table.items() if key.startswith(prefix)}
    left_out = [key for key in table if not key.startswith(prefix) and key not in WRAPPER_TENSORS]
    if left_out:
        more = ", …" if len(left_out) > 3 else ""
        warn(f"weights are those of `{prefix[:-1]}`; left out: {', '.join(left_out[:3])}{more}")
    return inside


def _prefix_splits(key: str) -> Iterator[tuple[str, str]]:
    """Yields all prefixes of a key that end with a dot, and the rest."""
    for dot in (at for at, mark in enumerate(key) if mark == "."):
        yield key[: dot + 1], key[dot + 1 :]


def _describe_content(content: Any) -> str:
    if isinstance(content, Mapping):
        return f"a table of {', '.join(map(str, list(content)[:5])) or 'nothing'}"
    return f"a {type(content).__name__}"
