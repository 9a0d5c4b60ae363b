# SPDX-License-Identifier: Apache-2.0
"""Exported programs from `.pt2` files, of which nothing is executed: tensors are unpickled, and nothing else.

`torch.export.load` trusts its file: it unpickles whatever is there, loads native code of AOTInductor, evaluates symbolic
sizes, and calls functions by the names that the file gives. So the archive is read here first, and torch is handed another
one, of the members and the words that a program of tensors consists of."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch.export import ExportedProgram

from pillion.errors import PillionError
from pillion.importers.torch.pt2.archive import UntrustedError, checked_archive
from pillion.outside.files import read_whole

TRUST = "--trust-pickle"
FORCE = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
"""A variable that torch looks at whenever it unpickles."""


def load_pt2(path: Path, *, trust_pickle: bool = False) -> ExportedProgram:
    """Reads the program in a file. With `trust_pickle` torch reads it as it is, and executes what it holds."""
    raw = read_whole(path, ".pt2")
    try:
        if trust_pickle:
            return torch.export.load(io.BytesIO(raw))
        held = checked_archive(raw)
        with tensors_only():
            return torch.export.load(io.BytesIO(held))
    except UntrustedError as error:
        raise _untrusted(path, str(error)) from None
    except Exception as error:  # torch raises whatever a broken file leads it to
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        if re.search("weights.only", str(error), re.IGNORECASE):
            raise _untrusted(path, f"a pickle that is not only tensors: {reason[:200]}") from None
        raise _no_program(path, reason) from error


@contextmanager
def tensors_only() -> Iterator[None]:
    """Lets torch unpickle tensors and nothing else, whatever it was asked to."""
    before = os.environ.get(FORCE)
    os.environ[FORCE] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[FORCE]
        else:
            os.environ[FORCE] = before


def _untrusted(path: Path, found: str) -> PillionError:
    return PillionError(
        f"{path} holds more than tensors and operators of PyTorch",
        rule="of a .pt2 nothing is executed: no pickled object but tensors, no native code, no function but torch.ops",
        here=found,
        help=f"if you trust who made the file: {TRUST}, which may execute code that it holds",
    )


def _no_program(path: Path, reason: str) -> PillionError:
    return PillionError(
        f"{path} is not an exported program",
        rule="a file written by torch.export.save",
        here=reason,
        help="torch.export.save(torch.export.export(model, inputs), 'model.pt2')",
    )
