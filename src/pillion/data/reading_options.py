# SPDX-License-Identifier: Apache-2.0
"""Options for reading data."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from pillion.errors import PillionError, one_of

Fit = Literal["exact", "resize", "crop"]
"""Treatment of images and sounds of another size: refuse, stretch, or crop to the middle."""
LABEL_NAMES = ("label", "labels", "target", "targets", "class", "y", "y_test", "y_true")
"""Lower-case names of arrays and columns that hold labels."""


@dataclass(frozen=True)
class Reading:
    """Options for reading data. The defaults suit data that matches the model's inputs."""

    labels: Path | None = None
    """A file with the labels of all samples, in order."""
    label_column: str | None = None
    """The label column of a table: its name, or its number from 1."""
    classes: tuple[str, ...] = ()
    """Class names, in the order of the model's outputs."""
    fit: Fit = "exact"
    divide: float | None = None
    """Divisor of all numbers; by default 255 for images, none for others."""
    mean: tuple[float, ...] = ()
    """Subtracted after the division: one number, or one per image channel."""
    std: tuple[float, ...] = ()
    """Divisor after that: one number, or one per image channel."""
    transform: Callable[[Any], Any] | None = None
    """A function from an image (height, width, channels, uint8), a sound (samples in -1..1) or an array to a model
    input; it replaces all other options."""

    def __post_init__(self) -> None:
        one_of("--fit", self.fit, get_args(Fit))
        if self.divide is not None and not (math.isfinite(self.divide) and self.divide > 0):
            raise _invalid_number_error("--divide", self.divide, "a number above 0")
        for one in self.mean:
            if not math.isfinite(one):
                raise _invalid_number_error("--mean", one, "finite numbers")
        for one in self.std:
            if not (math.isfinite(one) and one > 0):
                raise _invalid_number_error("--std", one, "numbers above 0")


def _invalid_number_error(option: str, found: float, rule: str) -> PillionError:
    return PillionError(
        f"{option} {found:g} cannot be computed with",
        rule=f"{option} takes {rule}",
        here=f"{found:g}",
        help=f"{option} 255" if option == "--divide" else f"{option} 0.5",
    )


AS_IT_IS = Reading()
"""Reads data that matches the model's inputs."""
