# SPDX-License-Identifier: Apache-2.0
"""The child process that decompresses weights: damaged bytes end the process in which they are decoded.

It reads a length of 4 bytes and so many bytes of compressed weights, and answers with a count of 4 bytes and so many numbers of
16 bits, again and again until its input ends. It is run as a file, and imports nothing of Pillion."""

from __future__ import annotations

import os
import struct
import sys


def main() -> None:
    """Answers requests until there are none."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what the decoder prints is no answer
    from ethosu import mlw_codec  # type: ignore[attr-defined]  # a compiled module, of which mypy sees nothing

    requests = sys.stdin.buffer
    while header := requests.read(4):
        data = requests.read(struct.unpack("<I", header)[0])
        values = mlw_codec.decode(bytearray(data))
        answers.write(struct.pack(f"<I{len(values)}h", len(values), *values))
        answers.flush()


if __name__ == "__main__":
    main()
