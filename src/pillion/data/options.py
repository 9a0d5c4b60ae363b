# SPDX-License-Identifier: Apache-2.0
"""How data is read: what users may say of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from pillion.errors import PillionError, one_of

Fit = Literal["exact", "resize", "crop"]
"""What is done with images and sounds of another size: they are refused, stretched, or cut to the middle."""
LABEL_NAMES = ("label", "labels", "target", "targets", "class", "y", "y_test", "y_true")
"""Names of arrays and columns that hold labels, in small letters."""


@dataclass(frozen=True)
class Reading:
    """What users may say of their data; the defaults suit data that is as the model wants it."""

    labels: Path | None = None
    """A file with the labels of all samples, in their order."""
    label_column: str | None = None
    """The column of a table that holds the labels: its name, or its number from 1."""
    classes: tuple[str, ...] = ()
    """The names of the classes, in the order of the model's outputs."""
    fit: Fit = "exact"
    divide: float | None = None
    """Numbers are divided by this. Without it those of images are by 255, others not at all."""
    mean: tuple[float, ...] = ()
    """Subtracted after the division: one number, or one for each channel of an image."""
    std: tuple[float, ...] = ()
    """Divides what is left: one number, or one for each channel of an image."""
    transform: Callable[[Any], Any] | None = None
    """A function that makes an input of the model of an image (height, width, channels, uint8), a sound (samples, from -1 to 1) or an array, in
    the place of all else that is said here."""

    def __post_init__(self) -> None:
        one_of("--fit", self.fit, get_args(Fit))
        if self.divide is not None and not (math.isfinite(self.divide) and self.divide > 0):
            raise _no_number("--divide", self.divide, "a number above 0")
        for one in self.mean:
            if not math.isfinite(one):
                raise _no_number("--mean", one, "finite numbers")
        for one in self.std:
            if not (math.isfinite(one) and one > 0):
                raise _no_number("--std", one, "numbers above 0")


def _no_number(option: str, found: float, rule: str) -> PillionError:
    return PillionError(
        f"{option} {found:g} cannot be computed with",
        rule=f"{option} takes {rule}",
        here=f"{found:g}",
        help=f"{option} 255" if option == "--divide" else f"{option} 0.5",
    )


AS_IT_IS = Reading()
"""Data that is as the model wants it."""
