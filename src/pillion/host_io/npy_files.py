# SPDX-License-Identifier: Apache-2.0
"""Arrays from untrusted `.npy` and `.npz` files. Nothing is unpickled, and headers are checked against file sizes
before allocation."""

from __future__ import annotations

import math
import zipfile
import zlib
from pathlib import Path
from typing import IO, Any

import numpy as np

from pillion.host_io.atomic_files import MOST_BYTES, regular_file

Array = np.ndarray[Any, np.dtype[Any]]
UNREADABLE = (OSError, ValueError, EOFError, RuntimeError, MemoryError, zipfile.BadZipFile, zlib.error)
"""Errors of numpy and zipfile for broken files."""
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def read_arrays(path: Path) -> dict[str, Array] | Array:
    """Reads the arrays of an `.npz` by name, or the array of an `.npy`. Raises an error in `UNREADABLE`, or a
    PillionError if the file is missing."""
    path = regular_file(path, ".npy or .npz")
    if not zipfile.is_zipfile(path):
        with path.open("rb") as file:
            return _read_array(file, path.stat().st_size)
    with zipfile.ZipFile(path) as archive:
        infos = archive.infolist()
        if sum(info.file_size for info in infos) > MOST_BYTES:
            raise ValueError(f"its arrays have more than {MOST_BYTES} bytes")
        arrays: dict[str, Array] = {}
        for info in infos:
            with archive.open(info) as member:
                arrays[info.filename.removesuffix(".npy")] = _read_array(member, info.file_size)
        return arrays


def _read_array(file: IO[bytes], size: int) -> Array:
    """Reads the array in a file of `size` bytes."""
    version = np.lib.format.read_magic(file)
    if version not in _HEADERS:
        raise ValueError(f"version {version} of the format is not known")
    try:
        shape, fortran, dtype = _HEADERS[version](file)
    except Exception as error:  # numpy lets its tokenizer's errors through, among others
        raise ValueError(f"its header is damaged: {str(error)[:100]}") from None
    if dtype.hasobject:
        raise ValueError("it holds pickled objects, which are not read")
    if not dtype.itemsize or any(type(size) is not int or size < 0 for size in shape):
        raise ValueError(f"its header says {dtype} with a shape of {shape}")
    count = math.prod(shape)
    if not 0 <= count * dtype.itemsize <= size:
        raise ValueError(f"its header speaks of {dtype}{list(shape)}, the file has {size} bytes")
    raw = file.read(count * dtype.itemsize)
    data = np.frombuffer(raw, dtype, count).copy()  # numpy's own arrays can be written
    return data.reshape(shape[::-1]).T if fortran else data.reshape(shape)
