# SPDX-License-Identifier: Apache-2.0
"""Options for data and its preparation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

from pillion.cli.dataclass_options import changed_options
from pillion.cli.help import DATA, option
from pillion.data.reading_options import Reading
from pillion.errors import PillionError
from pillion.host_io.user_code import function_of

if TYPE_CHECKING:
    from pillion.cli.request import Request
    from pillion.data.sample import Source

DataOption = Annotated[
    str,
    option(
        DATA,
        "Arrays, images, .csv or .wav: a file, folder, class folders or file.py:function.",
        "-d --data",
        metavar="PATH",
    ),
]
LimitOption = Annotated[
    Optional[int], option(DATA, "Most samples to use, spread over the data.", metavar="N", min=1)
]
LabelsOption = Annotated[
    Optional[Path], option(DATA, "File with the labels: an .npy, or a table with one column.", metavar="FILE")
]
LabelColumnOption = Annotated[
    Optional[str], option(DATA, "Label column of a .csv: a name, or a number from 1.", metavar="COLUMN")
]
ClassesOption = Annotated[
    Optional[str], option(DATA, "Names of the model's outputs, in order: cat,dog,other.", metavar="NAMES")
]
FitOption = Annotated[
    str,
    option(
        DATA,
        "Images and sounds of another size: refuse, stretch, or crop to the middle.",
        metavar="exact|resize|crop",
    ),
]
DivideOption = Annotated[
    Optional[float],
    option(DATA, "Divide the input by this number (default: 255 for images).", metavar="NUMBER"),
]
MeanOption = Annotated[
    Optional[str], option(DATA, "Then subtract this: 0.5, or one number per channel.", metavar="NUMBERS")
]
StdOption = Annotated[
    Optional[str], option(DATA, "Then divide by this: 0.5, or one number per channel.", metavar="NUMBERS")
]
TransformOption = Annotated[
    Optional[str],
    option(
        DATA, "Function (file.py:NAME) from image, sound or array to an input; executed.", metavar="FUNCTION"
    ),
]


@dataclass(frozen=True)
class PreprocessingOptions:
    """Options that fit calibration data to the model, for commands that read no other data."""

    fit: FitOption = "exact"
    divide: DivideOption = None
    mean: MeanOption = None
    std: StdOption = None
    transform: TransformOption = None

    def with_calibration_data(self, request: Request) -> Request:
        """Returns the request with its calibration data opened, if a fitting option is set."""
        return replace(request, samples=self.opened(request.options.quantize.calibrate))

    def opened(self, calibrate: Path | None) -> Source | None:
        """Opens the calibration data if a fitting option is set; otherwise returns None."""
        given = changed_options(self)
        if not given:
            return None
        if calibrate is None:
            raise PillionError(
                "there is no data to fit",
                rule=f"{', '.join(given)} {'go' if len(given) > 1 else 'goes'} with --calibrate",
                here="no --calibrate",
                help="add --calibrate samples/, or leave them out",
            )
        from pillion.data.python_data import open_data

        same = DataReadingOptions(
            fit=self.fit, divide=self.divide, mean=self.mean, std=self.std, transform=self.transform
        )
        return open_data(calibrate, same.reading)


@dataclass(frozen=True)
class DataReadingOptions:
    """Options for reading data."""

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
        """The options as `Reading`."""
        from pillion.data.file_formats import TRANSFORM

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
