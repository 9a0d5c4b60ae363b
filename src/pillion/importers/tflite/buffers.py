# SPDX-License-Identifier: Apache-2.0
"""Data that lie behind the tables of a file, as converters write those that are beyond 2 GB or are asked to."""

from __future__ import annotations

import numpy as np

from pillion.schemas import tflite
from pillion.schemas.flatbuffer import MalformedError

NO_OFFSET = 1
"""The largest offset that stands for none."""


def take_in_buffers(model: tflite.Model, raw: bytes) -> None:
    """Gives the buffers their data that lie elsewhere in the file; refuses what does not lie in it."""
    for number, buffer in enumerate(model.buffers):
        if buffer.offset <= NO_OFFSET:
            continue
        if buffer.data is not None and buffer.data.size:
            raise MalformedError(f"buffer {number} has data in two places")
        if buffer.offset + buffer.size > len(raw):
            raise MalformedError(
                f"buffer {number} lies in the file of {len(raw)} bytes, found bytes {buffer.offset} to {buffer.offset + buffer.size}"
            )
        buffer.data = np.frombuffer(raw, np.uint8, buffer.size, buffer.offset)
        buffer.offset = buffer.size = 0
