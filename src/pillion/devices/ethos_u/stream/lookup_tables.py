# SPDX-License-Identifier: Apache-2.0
"""The lookup tables in the NPU's internal memory."""

from __future__ import annotations

import numpy as np

from pillion.devices.ethos_u.accelerators import Accelerator
from pillion.devices.ethos_u.stream.stream_errors import require_modelled, require_valid
from pillion.ir.numerics import Int64Array
from pillion.ir.types import DType

_ENTRIES = 256
_BYTES = 2048


class Tables:
    """Lookup tables of 256 entries, of 1 or 4 bytes each, filled by copies."""

    def __init__(self, accelerator: Accelerator) -> None:
        self._start = accelerator.table_address
        self._bytes = np.zeros(_BYTES, np.uint8)
        self._defined = np.zeros(_BYTES, bool)

    def write(self, address: int, data: bytes) -> None:
        """Writes bytes at an address of the internal memory."""
        start = address - self._start
        require_valid(
            0 <= start <= start + len(data) <= _BYTES,
            "a copy to the internal memory that is no table",
            f"bytes {self._start} to {self._start + _BYTES}",
            f"{address} to {address + len(data)}",
        )
        self._bytes[start : start + len(data)] = np.frombuffer(data, np.uint8)
        self._defined[start : start + len(data)] = True

    def place(self, number: int, dtype: DType) -> tuple[int, int]:
        """Returns the start and end of a table in bytes, relative to the first table. Table numbers count places of
        256 bytes; a table of 4-byte entries takes four."""
        size = _ENTRIES * (4 if dtype is DType.INT32 else 1)
        start = number * _ENTRIES
        require_valid(
            start + size <= _BYTES,
            "a table lies outside the internal memory",
            f"{_BYTES} bytes",
            f"table {number} of {size}",
        )
        return start, start + size

    def look_up(self, number: int, index: Int64Array, dtype: DType) -> Int64Array:
        """Returns the entries of a table at 8-bit indices."""
        require_modelled(dtype is not DType.INT16, "a table of numbers of 16 bits", f"table {number}")
        start, end = self.place(number, dtype)
        require_valid(
            self._defined[start:end].all(),
            "an undefined table is read",
            "tables are copied before they are used",
            f"table {number}",
        )
        table = self._bytes[start:end].view(dtype.numpy.newbyteorder("<"))
        unsigned = index if dtype is DType.UINT8 else index + _ENTRIES // 2
        return table[unsigned].astype(np.int64)
