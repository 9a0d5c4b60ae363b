# SPDX-License-Identifier: Apache-2.0
"""Options for reading data."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Optional, get_args

from pillion.errors import PillionError, require_one_of
from pillion.host_io.user_code import function_of
from pillion.option_record import Option

Fit = Literal["exact", "resize", "crop"]
"""Treatment of images and sounds of another size: refuse, stretch, or crop to the middle."""

LABEL_NAMES = ("label", "labels", "target", "targets", "class", "y", "y_test", "y_true")
"""Lower-case names of arrays and columns that hold labels."""
TRANSFORM = "--transform is function(array), which gives an input of the model"


@dataclass(frozen=True)
class Reading:
    """Options for reading data. The defaults suit data that matches the model's inputs. Lists and functions are also
    accepted as the command line spells them: `cat,dog`, `0.5,0.5`, `file.py:NAME`."""

    labels: Annotated[
        Path | None,
        Option("File with the labels: an .npy, or a table with one column.", "FILE", typed=Optional[Path]),
    ] = None
    label_column: Annotated[
        str | None, Option("Label column of a .csv: a name, or a number from 1.", "COLUMN")
    ] = None
    classes: Annotated[
        tuple[str, ...], Option("Names of the model's outputs, in order: cat,dog,other.", "NAMES")
    ] = ()
    fit: Annotated[
        Fit, Option("Images and sounds of another size: refuse, stretch, or crop to the middle.")
    ] = "exact"
    divide: Annotated[
        float | None,
        Option("Divide the input by this number (default: 255 for images).", "NUMBER", typed=Optional[float]),
    ] = None
    mean: Annotated[
        tuple[float, ...], Option("Then subtract this: 0.5, or one number per channel.", "NUMBERS")
    ] = ()
    std: Annotated[
        tuple[float, ...], Option("Then divide by this: 0.5, or one number per channel.", "NUMBERS")
    ] = ()
    transform: Annotated[
        Callable[[Any], Any] | None,
        Option("Function (file.py:NAME) from image, sound or array to an input; executed.", "FUNCTION"),
    ] = None
    """From an image (height, width, channels, uint8), a sound (samples in -1..1) or an array; it replaces all other
    options."""

    def __post_init__(self) -> None:
        parsed = {"classes": _parse_class_names(self.classes)} | {
            n: _parse_numbers(n, getattr(self, n)) for n in ("mean", "std")
        }
        if isinstance(self.transform, str):
            parsed["transform"] = function_of(self.transform, TRANSFORM)
        self.__dict__.update(parsed)
        require_one_of("--fit", self.fit, get_args(Fit))
        if self.divide is not None and not (math.isfinite(self.divide) and self.divide > 0):
            raise _invalid_number_error("--divide", self.divide, "a number above 0")
        for value in self.mean:
            if not math.isfinite(value):
                raise _invalid_number_error("--mean", value, "finite numbers")
        for value in self.std:
            if not (math.isfinite(value) and value > 0):
                raise _invalid_number_error("--std", value, "numbers above 0")


def _parse_class_names(text: str | tuple[str, ...]) -> Any:
    names = tuple(word.strip() for word in text.split(",")) if text and isinstance(text, str) else text or ()
    if len(set(names)) != len(names) or not all(names):
        raise PillionError(
            "--classes cannot be told apart",
            rule="a name for each output of the model, all different",
            here=str(text),
            help="--classes cat,dog,other",
        )
    return names


def _parse_numbers(name: str, text: str | tuple[float, ...]) -> Any:
    if not text or not isinstance(text, str):
        return text or ()
    try:
        return tuple(map(float, text.split(",")))
    except ValueError:
        raise PillionError(
            f"--{name} {text} is no number",
            rule="a number, or one for each channel with commas between",
            here=text,
            help=f"--{name} 0.485,0.456,0.406",
        ) from None


def _invalid_number_error(option: str, value: float, rule: str) -> PillionError:
    return PillionError(
        f"{option} {value:g} cannot be computed with",
        rule=f"{option} takes {rule}",
        here=f"{value:g}",
        help=f"{option} 255" if option == "--divide" else f"{option} 0.5",
    )


@dataclass(frozen=True)
class EventOptions:
    """Where the events of recordings are, and when one counts as found."""

    events: Annotated[
        Path | None,
        Option("Table of the events in recordings: file,seconds[,event].", "FILE", typed=Optional[Path]),
    ] = None
    within: Annotated[
        float,
        Option("With --events: seconds within which an event is to be answered.", "SECONDS", typed=float),
    ] = 1.0
    rate: Annotated[
        float | None,
        Option("With --events: steps a second, for .npy and .raw files.", "HERTZ", typed=Optional[float]),
    ] = None

    def __post_init__(self) -> None:
        for name, value in (("--within", self.within), ("--rate", self.rate)):
            if value is not None and not (math.isfinite(value) and value > 0):
                raise PillionError(
                    f"{name} {value:g} is no length of time"
                    if name == "--within"
                    else f"{name} {value:g} is no rate",
                    rule="a number above 0",
                    here=f"{value:g}",
                    help=f"{name} {1 if name == '--within' else 50}",
                )


AS_IT_IS = Reading()
"""Reads data that matches the model's inputs."""
