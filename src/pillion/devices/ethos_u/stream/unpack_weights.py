# SPDX-License-Identifier: Apache-2.0
"""The child process that decompresses weights: the decoder crashes on damaged bytes. Each request is a 4-byte
length and compressed weights; each answer is a 4-byte count and 16-bit numbers. It runs as a file and imports
nothing from Pillion."""

from __future__ import annotations

import os
import struct
import sys


def main() -> None:
    """Answers requests until its input ends."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # keeps the decoder's output apart from answers
    from ethosu import mlw_codec  # type: ignore[attr-defined]  # a compiled module, of which mypy sees nothing

    requests = sys.stdin.buffer
    while header := requests.read(4):
        data = requests.read(struct.unpack("<I", header)[0])
        values = mlw_codec.decode(bytearray(data))
        answers.write(struct.pack(f"<I{len(values)}h", len(values), *values))
        answers.flush()


if __name__ == "__main__":
    main()
