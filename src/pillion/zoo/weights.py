# SPDX-License-Identifier: Apache-2.0
"""Weights of a model in an `.npz`: one array for each key of its state dict, in PyTorch's layouts."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pillion.errors import PillionError
from pillion.outside.arrays import UNREADABLE, Array, read_arrays, reason
from pillion.outside.files import write_whole

if TYPE_CHECKING:
    from torch import nn

COUNTER = "num_batches_tracked"  # of a batch norm; inference does not read it, so a file may leave it out
SHOWN = 8  # keys of one kind in a message


def load_weights(module: nn.Module, path: str | os.PathLike[str]) -> None:
    """Copies the arrays of an `.npz` into a module; on any error the module stays as it was."""
    import torch

    arrays = _read(Path(path))
    state = module.state_dict()
    wanted = {key: tuple(value.shape) for key, value in state.items() if _is_weight(key)}
    problems = _problems({key: value for key, value in arrays.items() if _is_weight(key)}, wanted)
    if problems:
        raise PillionError(
            f"the weights in {path} do not fit the model {type(module).__name__}",
            rule="every key of the model's state_dict(), and no other, with its shape and finite numbers",
            here="\n".join(problems),
            help="use the weights of this model, or write a file with pillion.zoo.save_weights(module, path)",
        )
    with torch.no_grad():
        for key in wanted:
            state[key].copy_(torch.from_numpy(np.ascontiguousarray(arrays[key], dtype=np.float32)))


def save_weights(module: nn.Module, path: str | os.PathLike[str]) -> None:
    """Writes what `load_weights` reads; an existing file is replaced only when the new one is complete."""
    path = Path(path)
    arrays: dict[str, Array] = {
        k: v.detach().cpu().numpy() for k, v in module.state_dict().items() if _is_weight(k)
    }
    stream = io.BytesIO()
    np.savez(stream, **arrays)  # type: ignore[arg-type]  # names are anything
    write_whole(path, stream.getvalue())


def _is_weight(key: str) -> bool:
    return key.rpartition(".")[2] != COUNTER


def _read(path: Path) -> dict[str, Array]:
    try:
        found = read_arrays(path)
        if isinstance(found, np.ndarray):
            raise ValueError("it holds a single array")
        return found
    except UNREADABLE as error:
        raise PillionError(
            f"{path} is not a file of weights",
            rule="an .npz archive of plain arrays, one for each key of the model's state_dict()",
            here=reason(error),
            help="write one with pillion.zoo.save_weights(module, path), or with numpy.savez",
        ) from None


def _problems(arrays: dict[str, Array], wanted: dict[str, tuple[int, ...]]) -> list[str]:
    common = [key for key in wanted if key in arrays]
    groups = {
        "missing": [key for key in wanted if key not in arrays],
        "unexpected": [key for key in arrays if key not in wanted],
        "shape": [
            f"{key} has {arrays[key].shape}, the model {wanted[key]}"
            for key in common
            if arrays[key].shape != wanted[key]
        ],
        "dtype": [f"{key} has {arrays[key].dtype}" for key in common if arrays[key].dtype.kind != "f"],
        "not finite": [key for key in common if not _is_finite(arrays[key])],
    }
    return [f"{name}: {_shorten(keys)}" for name, keys in groups.items() if keys]


def _is_finite(array: Array) -> bool:
    if array.dtype.kind != "f":
        return True  # reported as a dtype
    with np.errstate(over="ignore"):
        return bool(np.isfinite(array.astype(np.float32)).all())


def _shorten(items: list[str]) -> str:
    more = len(items) - SHOWN
    return ", ".join(items[:SHOWN]) + (f" and {more} more" if more > 0 else "")
