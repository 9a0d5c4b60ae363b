# SPDX-License-Identifier: Apache-2.0
"""Files whose data lie behind the tables, and what else converters put into files: signatures, metadata, buffers that nobody uses."""

from __future__ import annotations

import numpy as np
import pytest
from byte_net import ByteNet
from net_file import answers, litert

from pillion.errors import PillionError
from pillion.importers.tflite import read
from pillion.ops import Conv2d
from pillion.schemas import tflite
from pillion.schemas.flatbuffer import read_root_table, write_flatbuffer

FAR = 2**31 + 16


def net() -> bytes:
    made = ByteNet(5)
    x = made.conv(made.input(1, 7, 5, 3, zero=127), 4, 3, 1, (140, True))
    return made.bytes(made.conv(x, 2, 1, 1, (99, False)))


def behind(raw: bytes, gap: int = 16, **claimed: int) -> bytes:
    """The same file with all data behind its tables. `claimed` replaces what the last buffer says of itself."""
    model = read_root_table(tflite.Model, raw, tflite.IDENTIFIER)
    held = [b.data.tobytes() if b.data is not None and b.data.size else b"" for b in model.buffers]
    for buffer, data in zip(model.buffers, held, strict=True):
        if data:  # as large as they will be, so that the tables do not move
            buffer.data, buffer.offset, buffer.size = None, FAR, len(data)
    at = len(write_flatbuffer(model, tflite.IDENTIFIER)) + gap
    tail = bytearray(gap)
    for buffer, data in zip(model.buffers, held, strict=True):
        if data:
            tail += bytes(-(at - gap + len(tail)) % 16)
            buffer.offset = at - gap + len(tail)
            tail += data
    for name, value in claimed.items():
        setattr(model.buffers[-1], name, value)
    return write_flatbuffer(model, tflite.IDENTIFIER) + bytes(tail)


@pytest.mark.parametrize("gap", [0, 7, 4096])
def test_data_behind_the_tables_are_read(gap: int) -> None:
    raw = behind(net(), gap)
    image = np.random.default_rng(1).integers(0, 256, (1, 7, 5, 3)).astype(np.uint8)
    wanted = answers(litert(net()), [image])[0].tolist()
    assert answers(litert(raw), [image])[0].tolist() == wanted
    assert read(raw).reference(image)[0].tolist() == wanted


@pytest.mark.parametrize(
    "claimed",
    [{"offset": FAR}, {"offset": 2**64 - 1}, {"size": 2**63}, {"offset": 3000, "size": 2**32}],
    ids=str,
)
def test_data_outside_of_the_file_are_refused(claimed: dict[str, int]) -> None:
    with pytest.raises(PillionError, match="not a valid") as caught:
        read(behind(net(), **claimed))
    assert "lies in the file" in caught.value.rule


def test_data_in_two_places_are_refused() -> None:
    model = read_root_table(tflite.Model, net(), tflite.IDENTIFIER)
    model.buffers[-1].offset, model.buffers[-1].size = 64, 4
    with pytest.raises(PillionError) as caught:
        read(write_flatbuffer(model, tflite.IDENTIFIER))
    assert "two places" in caught.value.rule


def test_unused_tflite_buffers_are_ignored() -> None:
    model = read_root_table(tflite.Model, net(), tflite.IDENTIFIER)
    model.buffers += [tflite.Buffer(data=np.full(5000, 7, np.uint8)), tflite.Buffer()]
    assert sum(isinstance(op, Conv2d) for op in read(write_flatbuffer(model, tflite.IDENTIFIER))) == 2
