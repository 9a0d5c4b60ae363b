# SPDX-License-Identifier: Apache-2.0
"""Reads a model's weights from a file and writes them to an `.npz`: a tensor per key of its state dict, in
PyTorch's layouts."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pillion.errors import PillionError
from pillion.host_io.atomic_files import write_whole
from pillion.host_io.npy_files import Array
from pillion.zoo.state_files import read_state

if TYPE_CHECKING:
    from torch import Tensor, nn

COUNTER = "num_batches_tracked"  # of a batch norm; unused in inference, so a file may omit it
SHOWN = 8  # keys of one kind in a message


def load_weights(module: nn.Module, path: str | os.PathLike[str]) -> None:
    """Copies the tensors of a file into a module; on any error the module is unchanged.

    A file is an `.npz`, a `.safetensors`, or a state dict of `torch.save`; nothing in it is executed."""
    import torch

    state = {key: value for key, value in module.state_dict().items() if _is_weight(key)}
    weights = {key: value for key, value in read_state(Path(path), state).items() if _is_weight(key)}
    aliases = _shared_tensor_keys(state)
    weights |= {
        key: weights[alias] for key, alias in aliases.items() if key not in weights and alias in weights
    }
    problems = _mismatch_messages(weights, state, aliases)
    if problems:
        raise PillionError(
            f"the weights in {path} do not fit the model {type(module).__name__}",
            rule="every key of the model's state_dict(), and no other, with its shape and finite numbers",
            here="\n".join(problems),
            help="use the weights of this model, or write a file with torch.save(model.state_dict(), 'weights.pt')",
        )
    with torch.no_grad():
        for key, value in state.items():
            value.copy_(weights[key])


def save_weights(module: nn.Module, path: str | os.PathLike[str]) -> None:
    """Writes a file for `load_weights`; an existing file is replaced only by a complete one."""
    path = Path(path)
    arrays: dict[str, Array] = {
        k: v.detach().cpu().numpy() for k, v in module.state_dict().items() if _is_weight(k)
    }
    stream = io.BytesIO()
    np.savez(stream, **arrays)  # type: ignore[arg-type]  # names are anything
    write_whole(path, stream.getvalue())


def _is_weight(key: str) -> bool:
    return key.rpartition(".")[2] != COUNTER


def _shared_tensor_keys(state: Mapping[str, Tensor]) -> dict[str, str]:
    """Returns the keys of tensors with several names → the first name (the first one → the second): a file may have
    only one."""
    names: dict[tuple[int, tuple[int, ...], tuple[int, ...]], list[str]] = {}
    for key, value in state.items():
        if value.numel():
            names.setdefault((value.data_ptr(), tuple(value.shape), value.stride()), []).append(key)
    return {
        key: some[0] if at else some[1]
        for some in names.values()
        if len(some) > 1
        for at, key in enumerate(some)
    }


def _differing_shared_tensors(weights: Mapping[str, Tensor], aliases: Mapping[str, str]) -> list[str]:
    """Returns tensors that the module shares but the file has with different values."""
    import torch

    at = {key: index for index, key in enumerate(aliases)}
    pairs = [
        (k, alias) for k, alias in aliases.items() if k in weights and alias in weights and at[alias] < at[k]
    ]
    apart = [
        (key, alias)
        for key, alias in pairs
        if weights[key].shape == weights[alias].shape and not torch.equal(weights[key], weights[alias])
    ]
    return [f"{key} is {alias} in the model" for key, alias in apart]


def _mismatch_messages(
    weights: Mapping[str, Tensor], state: Mapping[str, Tensor], aliases: Mapping[str, str]
) -> list[str]:
    shapes = {
        key: f"{key} has {tuple(weights[key].shape)}, the model {tuple(value.shape)}"
        for key, value in state.items()
        if key in weights and weights[key].shape != value.shape
    }
    alike = [key for key in state if key in weights and key not in shapes]
    groups = {
        "missing": [key for key in state if key not in weights],
        "unexpected": [key for key in weights if key not in state],
        "shape": list(shapes.values()),
        "differing": _differing_shared_tensors(weights, aliases),
        "dtype": [
            f"{key} has {_dtype_with_layout(weights[key])}"
            for key in alike
            if not _is_like(weights[key], state[key])
        ],
        "not finite": [
            key for key in alike if _is_like(weights[key], state[key]) and not _is_finite(weights[key])
        ],
    }
    return [f"{name}: {_shorten_list(keys)}" for name, keys in groups.items() if keys]


def _dtype_with_layout(tensor: Tensor) -> str:
    import torch

    layout = "" if tensor.layout is torch.strided else f"{tensor.layout} ".removeprefix("torch.")
    return layout + str(tensor.dtype).removeprefix("torch.")


def _is_like(tensor: Tensor, like: Tensor) -> bool:
    """Whether both are dense tensors of the same kind: real, complex or integer."""
    import torch

    is_plain = tensor.layout is torch.strided and not tensor.is_quantized and tensor.device.type == "cpu"
    same_kind = tensor.is_floating_point() == like.is_floating_point()
    return is_plain and same_kind and tensor.is_complex() == like.is_complex()


def _is_finite(tensor: Tensor) -> bool:
    import torch

    return not tensor.is_floating_point() or bool(torch.isfinite(tensor.float()).all())


def _shorten_list(items: list[str]) -> str:
    more = len(items) - SHOWN
    return ", ".join(items[:SHOWN]) + (f" and {more} more" if more > 0 else "")
