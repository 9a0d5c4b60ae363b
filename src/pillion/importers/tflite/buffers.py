# SPDX-License-Identifier: Apache-2.0
"""Resolves buffers whose data follow the file's tables, as converters write them beyond 2 GB or on
request."""

from __future__ import annotations

import numpy as np

from pillion.schemas import tflite
from pillion.schemas.flatbuffer import MalformedError

NO_OFFSET = 1
"""The largest offset that means "no offset"."""


def resolve_buffers(model: tflite.Model, raw: bytes) -> None:
    """Sets the data of buffers that are elsewhere in the file; raises if they exceed it."""
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
