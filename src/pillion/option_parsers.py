# SPDX-License-Identifier: Apache-2.0
"""Parsers of typed sizes, shares, pairs and streams. Each takes the parsed form, too."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from pillion.errors import PillionError

_UNITS = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3}
_SIZE = re.compile(r"(\d{1,15}|\d{1,9}\.\d{1,9}(?= ?[KMG])) ?([KMG]?)(?:i?B)?", re.IGNORECASE)
_SHARE = re.compile(r"(\d{1,6}(?:\.\d{1,6})?) ?%")
_STREAM = re.compile(r"(.+):(\d{1,2})")
MOST_FRAMES = 2**20


def parse_bytes(given: int | str, option: str = "--max-ram ") -> int:
    """Parses `256K` or `1.5M` as a number of bytes. Errors show it behind the text of its option."""
    match = _SIZE.fullmatch(str(given).strip())
    size = int(float(match[1]) * _UNITS[match[2].upper()]) if match else 0
    if not 0 < size < 2**32:
        raise PillionError(
            f"{given} is no size of memory",
            rule="a number of bytes above 0 and below 4G, with K for 1,024 and M for 1,048,576",
            here=f"{option}{given}",
            help=f"{option}256K",
        )
    return size


def parse_share(given: float | str) -> float:
    """Parses `5%` as a share of the instructions."""
    rule = "from 0% to 100%; in Python also a number from 0 to 1"
    return _parse_percent(given, 1, "share of the instructions", rule, "--extra 5%")


def _parse_percent(given: float | str, most: float, what: str, rule: str, example: str) -> float:
    """Parses `5%` as 0.05; a number stays as it is."""
    match = _SHARE.fullmatch(given.strip()) if isinstance(given, str) else None
    share = float(match[1]) / 100 if match else given if isinstance(given, (int, float)) else math.nan
    if not 0 <= share <= most:
        option = example.split()[0]
        raise PillionError(f"{given} is no {what}", rule=rule, here=f"{option} {given}", help=example)
    return float(share)


def parse_added_share(given: float | str) -> float:
    """Parses `+25%` as a share of the time."""
    match = re.fullmatch(r"\+?(\d{1,6}(?:\.\d{1,6})?) ?%", str(given).strip())
    if match is None:
        raise PillionError(
            f"{given} is no added time",
            rule="percent of the time in 8 bits",
            here=f"--max-time {given}",
            help="--max-time +25%",
        )
    return float(match[1]) / 100


def parse_drop(given: float | str) -> float:
    """Parses `0.5%` as the part by which a metric may be worse."""
    rule = "percent: points of shares such as top1, parts of other numbers; in Python also 0.005"
    return _parse_percent(given, 1e4, "drop of a metric", rule, "--max-drop 0.5%")


def parse_decibels(given: float | str) -> float:
    """Parses `35dB` as a signal-to-noise ratio."""
    match = re.fullmatch(r"(\d{1,3}(?:\.\d{1,3})?) ?(?:dB)?", str(given).strip(), re.IGNORECASE)
    if match is None:
        raise PillionError(
            f"{given} is no quality",
            rule="a signal-to-noise ratio in dB, from 0 to 999",
            here=f"--min-quality {given}",
            help="--min-quality 35dB",
        )
    return float(match[1])


def parse_size(given: Any) -> tuple[int, int] | None:
    """Parses `96` or `96x128` as height and width."""
    if given is None:
        return None
    text = "x".join(map(str, given)) if isinstance(given, (tuple, list)) else str(given)
    match = re.fullmatch(r"(\d+)(?:x(\d+))?", text)
    if match is None or "0" in (match[1], match[2]):
        raise PillionError(
            f"--input-size {given} is not a size",
            rule="one number, or height x width, in pixels",
            here=str(given),
            help="--input-size 96 or --input-size 96x128",
        )
    return int(match[1]), int(match[2] or match[1])


def parse_pairs(given: Mapping[str, int] | Iterable[str] | None) -> Mapping[str, int]:
    """Parses `h:1`, or several such texts, as input names with output numbers."""
    if isinstance(given, Mapping):
        return given
    return dict(map(_parse_state_pair, [given] if isinstance(given, str) else given or ()))


def _parse_state_pair(text: str) -> tuple[str, int]:
    name, _, number = text.rpartition(":")
    if not name or not (number.isascii() and number.isdigit()):
        raise PillionError(
            f"--state-pair {text} names no pair",
            rule="INPUT:OUTPUT: the name of an input, and the number of an output, from 0 on",
            here=text,
            help="--state-pair h:1",
        )
    return name, int(number)


def parse_streams(given: Any) -> tuple[tuple[str, int], ...]:
    """Parses `x:2`, or several such texts, as input names with time axes."""
    if isinstance(given, Mapping):
        pairs = tuple(given.items())
    else:
        pairs = tuple(map(_parse_stream_axis, [given] if isinstance(given, str) else given or ()))
    names = [name for name, _ in pairs]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise PillionError(
            f"input `{twice}` is streamed twice",
            rule="--stream names each input once, with its time axis",
            here=" ".join(f"--stream {name}:{axis}" for name, axis in pairs),
            help=f"--stream {twice}:{dict(pairs)[twice]}",
        )
    return pairs


def _parse_stream_axis(option: str | tuple[str, int]) -> tuple[str, int]:
    if isinstance(option, tuple):
        return option
    match = _STREAM.fullmatch(option)
    if match is None:
        raise PillionError(
            f"--stream {option} names no axis",
            rule="the name of an input and, behind a colon, the axis along which time goes, from 0",
            here=f"--stream {option}",
            help=f"--stream {option.split(':')[0] or 'x'}:2",
        )
    return match[1], int(match[2])


def parse_hop(given: int | None) -> int:
    """Checks a number of frames; the default is 1."""
    frames = 1 if given is None else given
    if isinstance(frames, bool) or not isinstance(frames, int) or not 1 <= frames <= MOST_FRAMES:
        raise PillionError(
            f"{frames} is no number of frames",
            rule=f"a whole number from 1 to {MOST_FRAMES}",
            here=f"--hop {frames}",
            help="--hop 1",
        )
    return frames
