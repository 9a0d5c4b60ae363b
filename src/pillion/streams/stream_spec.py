# SPDX-License-Identifier: Apache-2.0
"""The specification of a stream: inputs, their time axes, and the number of frames per call."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pillion.errors import PillionError

MOST_FRAMES = 2**20
_INPUT = re.compile(r"(.+):(\d{1,2})")


@dataclass(frozen=True)
class StreamSpec:
    """Inputs by name with their time axis, and the new frames per call."""

    axes: tuple[tuple[str, int], ...]
    hop: int = 1


Streamed = str | Sequence[str] | Mapping[str, int]
"""`"x:2"`, several of these, or a mapping of names to axes."""


def parse_stream_spec(stream: Streamed | None = None, hop: int | None = None) -> StreamSpec | None:
    """Parses `--stream x:2 --hop 1`; returns None if no stream is requested."""
    if not stream:
        if hop is not None:
            raise PillionError(
                "frames of no stream",
                rule="--hop goes with --stream: the new frames of each call",
                here=f"--hop {hop}",
                help="--stream INPUT:AXIS --hop 1, or leave --hop out",
            )
        return None
    if isinstance(stream, Mapping):
        pairs = tuple(stream.items())
    else:
        pairs = tuple(map(_pair, [stream] if isinstance(stream, str) else stream))
    names = [name for name, _ in pairs]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise PillionError(
            f"input `{twice}` is streamed twice",
            rule="--stream names each input once, with its time axis",
            here=" ".join(f"--stream {name}:{axis}" for name, axis in pairs),
            help=f"--stream {twice}:{dict(pairs)[twice]}",
        )
    frames = 1 if hop is None else hop
    if isinstance(frames, bool) or not isinstance(frames, int) or not 1 <= frames <= MOST_FRAMES:
        raise PillionError(
            f"{frames} is no number of frames",
            rule=f"a whole number from 1 to {MOST_FRAMES}",
            here=f"--hop {frames}",
            help="--hop 1",
        )
    return StreamSpec(pairs, frames)


def _pair(text: str) -> tuple[str, int]:
    match = _INPUT.fullmatch(text)
    if match is None:
        raise PillionError(
            f"--stream {text} names no axis",
            rule="the name of an input and, behind a colon, the axis along which time goes, from 0",
            here=f"--stream {text}",
            help=f"--stream {text.split(':')[0] or 'x'}:2",
        )
    return match[1], int(match[2])
