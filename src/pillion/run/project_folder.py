# SPDX-License-Identifier: Apache-2.0
"""C projects in folders, and their outputs."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from pillion.emitters.c.manifest import Manifest
from pillion.errors import PillionError
from pillion.host_io.atomic_files import Content, write_parts
from pillion.run.executor import Outputs


@contextmanager
def temporary_project(files: Mapping[str, Content]) -> Iterator[Path]:
    """Writes the files of a project to a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="pillion-") as folder:
        for path, content in files.items():
            write_parts(Path(folder) / path, content)
        yield Path(folder)


def manifest_mismatch_error(manifest: Manifest, wanted: str, found: str) -> PillionError:
    """Returns the error for a project whose C contradicts its manifest."""
    return PillionError(
        f"the C of `{manifest.model}` is not that of its manifest.json",
        rule=wanted,
        here=found,
        help="compile the model again",
    )


def outputs_from_bytes(manifest: Manifest, raw: Sequence[bytes]) -> Outputs:
    """Returns the outputs of a project as arrays of their types and shapes."""
    return tuple(
        np.frombuffer(data, o.dtype.numpy).reshape(o.shape)
        for o, data in zip(manifest.outputs, raw, strict=True)
    )


def split_outputs(outputs: bytes, manifest: Manifest) -> list[bytes]:
    """Returns the bytes of each output of a board."""
    sizes = [o.bytes for o in manifest.outputs]
    if len(outputs) != sum(sizes):
        raise manifest_mismatch_error(
            manifest, f"{sum(sizes)} bytes of outputs", f"{len(outputs)} on the board"
        )
    ends = np.cumsum(sizes).tolist()
    return [outputs[end - size : end] for size, end in zip(sizes, ends, strict=True)]
