# SPDX-License-Identifier: Apache-2.0
"""Loads `.pt2` files without executing anything in them.

`torch.export.load` unpickles objects, loads native code, evaluates expressions and calls functions by name. So
the archive is checked first, and torch receives a copy with tensors and operators only."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch.export import ExportedProgram

from pillion.errors import PillionError, error_reason
from pillion.host_io.atomic_files import read_whole
from pillion.importers.torch.pt2.archive import UntrustedError, checked_archive

TRUST = "--trust-pickle"
FORCE = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
"""Environment variable that restricts torch's unpickling to tensors."""


def load_pt2(path: Path, *, trust_pickle: bool = False) -> ExportedProgram:
    """Loads the program in a file. With `trust_pickle`, torch reads the file unchecked and executes pickled
    objects."""
    raw = read_whole(path, ".pt2")
    try:
        if trust_pickle:
            return torch.export.load(io.BytesIO(raw))
        archive = checked_archive(raw)
        with tensors_only():
            return torch.export.load(io.BytesIO(archive))
    except UntrustedError as error:
        raise _untrusted_file_error(path, str(error)) from None
    except Exception as error:  # torch raises whatever a broken file leads it to
        reason = error_reason(error)
        if re.search("weights.only", str(error), re.IGNORECASE):
            raise _untrusted_file_error(path, f"a pickle that is not only tensors: {reason[:200]}") from None
        raise PillionError(
            f"{path} is not an exported program",
            rule="a file written by torch.export.save",
            here=reason,
            help="torch.export.save(torch.export.export(model, inputs), 'model.pt2')",
        ) from error


@contextmanager
def tensors_only() -> Iterator[None]:
    """Restricts torch to unpickling tensors."""
    before = os.environ.get(FORCE)
    os.environ[FORCE] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[FORCE]
        else:
            os.environ[FORCE] = before


def _untrusted_file_error(path: Path, actual: str) -> PillionError:
    return PillionError(
        f"{path} holds more than tensors and operators of PyTorch",
        rule="of a .pt2 nothing is executed: no pickled object but tensors, no native code, no function but torch.ops",
        here=actual,
        help=f"if you trust who made the file: {TRUST}, which may execute code that it holds",
    )
