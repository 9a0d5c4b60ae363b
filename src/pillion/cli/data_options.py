# SPDX-License-Identifier: Apache-2.0
"""Options for data and its preparation. Those of `Reading` are made from its fields."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

from pillion.cli.dataclass_options import Without, changed_options
from pillion.cli.help import DATA, option
from pillion.data.reading_options import Reading
from pillion.errors import PillionError

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
Fitting = Annotated[Reading, Without(("labels", "label_column", "classes"))]
"""Options that fit calibration data to the model, for commands that read no other data."""


def with_calibration_data(request: Request, fitting: Reading) -> Request:
    """Returns the request with its calibration data opened, if a fitting option is set."""
    return replace(request, samples=open_calibration_data(request.options.quantize.calibrate, fitting))


def open_calibration_data(calibrate: Path | None, fitting: Reading) -> Source | None:
    """Opens the calibration data if a fitting option is set; otherwise returns None."""
    changed = changed_options(fitting)
    if not changed:
        return None
    if calibrate is None:
        raise PillionError(
            "there is no data to fit",
            rule=f"{', '.join(changed)} {'go' if len(changed) > 1 else 'goes'} with --calibrate",
            here="no --calibrate",
            help="add --calibrate samples/, or leave them out",
        )
    from pillion.data.python_data import open_data

    return open_data(calibrate, fitting)
