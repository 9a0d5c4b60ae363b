# SPDX-License-Identifier: Apache-2.0
"""Options that say what data there is, and how it is read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from pillion.cli.help import DATA
from pillion.cli.spread import given_options
from pillion.data.options import Reading
from pillion.errors import PillionError
from pillion.outside.user_code import function_of

if TYPE_CHECKING:
    from pillion.cli.request import Request
    from pillion.data.sample import Source

DataOption = Annotated[
    str,
    typer.Option(
        *("-d", "--data"),
        metavar="PATH",
        rich_help_panel=DATA,
        help="A folder of class folders, a folder or file of .npy, .npz, .csv, .wav or images, or file.py:function.",
    ),
]
LimitOption = Annotated[
    Optional[int], typer.Option(min=1, help="The most samples to take.", rich_help_panel=DATA)
]
LabelsOption = Annotated[
    Optional[Path],
    typer.Option(help="The labels: an .npy, or a table with one column.", rich_help_panel=DATA),
]
LabelColumnOption = Annotated[
    Optional[str],
    typer.Option(
        help="The column of a .csv with the labels: a name, or a number from 1.", rich_help_panel=DATA
    ),
]
ClassesOption = Annotated[
    Optional[str],
    typer.Option(
        help="Names of the model's outputs in their order, with commas between.", rich_help_panel=DATA
    ),
]
FitOption = Annotated[
    str,
    typer.Option(
        help="Images and sounds of another size: exact refuses them, resize stretches, crop cuts.",
        rich_help_panel=DATA,
    ),
]
DivideOption = Annotated[
    Optional[float],
    typer.Option(help="Divide numbers by this; without it, those of images by 255.", rich_help_panel=DATA),
]
MeanOption = Annotated[
    Optional[str],
    typer.Option(help="Subtract this then: 0.5, or one for each channel.", rich_help_panel=DATA),
]
StdOption = Annotated[
    Optional[str],
    typer.Option(help="Divide by this then: 0.5, or one for each channel.", rich_help_panel=DATA),
]
TransformOption = Annotated[
    Optional[str],
    typer.Option(
        metavar="FUNCTION",
        help="A file.py:function that makes an input of an image, a sound or an array; it is executed.",
        rich_help_panel=DATA,
    ),
]


@dataclass(frozen=True)
class Fitting:
    """How calibration data is made to fit the model, where no other data is read."""

    fit: FitOption = "exact"
    divide: DivideOption = None
    mean: MeanOption = None
    std: StdOption = None
    transform: TransformOption = None

    def fitted(self, request: Request) -> Request:
        """Gives what was asked for with its calibration data opened, where options say how to read it."""
        return replace(request, samples=self.opened(request.how.quantizing.calibrate))

    def opened(self, calibrate: Path | None) -> Source | None:
        """Gives the data, opened, where options say how to read it; else nothing, as it is read by its path."""
        given = given_options(self)
        if not given:
            return None
        if calibrate is None:
            raise PillionError(
                "there is no data to fit",
                rule=f"{', '.join(given)} {'go' if len(given) > 1 else 'goes'} with --calibrate",
                here="no --calibrate",
                help="add --calibrate samples/, or leave them out",
            )
        from pillion.data.given import open_data

        same = Read(fit=self.fit, divide=self.divide, mean=self.mean, std=self.std, transform=self.transform)
        return open_data(calibrate, same.reading)


@dataclass(frozen=True)
class Read:
    """How data is read."""

    labels: LabelsOption = None
    label_column: LabelColumnOption = None
    classes: ClassesOption = None
    fit: FitOption = "exact"
    divide: DivideOption = None
    mean: MeanOption = None
    std: StdOption = None
    transform: TransformOption = None

    @property
    def reading(self) -> Reading:
        """What was typed in one object."""
        from pillion.data.files import TRANSFORM

        return Reading(
            labels=self.labels,
            label_column=self.label_column,
            classes=_words(self.classes),
            fit=self.fit,  # type: ignore[arg-type]  # checked by Reading
            divide=self.divide,
            mean=_numbers("--mean", self.mean),
            std=_numbers("--std", self.std),
            transform=function_of(self.transform, TRANSFORM) if self.transform else None,
        )


def _words(text: str | None) -> tuple[str, ...]:
    names = tuple(word.strip() for word in text.split(",")) if text else ()
    if len(set(names)) != len(names) or not all(names):
        raise PillionError(
            "--classes cannot be told apart",
            rule="a name for each output of the model, all different",
            here=str(text),
            help="--classes cat,dog,other",
        )
    return names


def _numbers(option: str, text: str | None) -> tuple[float, ...]:
    try:
        return tuple(float(word) for word in text.split(",")) if text else ()
    except ValueError:
        raise PillionError(
            f"{option} {text} is no number",
            rule="a number, or one for each channel with commas between",
            here=str(text),
            help=f"{option} 0.485,0.456,0.406",
        ) from None
