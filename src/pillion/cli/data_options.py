# SPDX-License-Identifier: Apache-2.0
"""Options for data and its preparation. The fields of `Reading` become options."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

from pillion.cli.console import warn
from pillion.cli.dataclass_options import Without, changed_options
from pillion.cli.help import DATA, QUANTIZATION, option
from pillion.cli.request import Request, check_there
from pillion.data.reading_options import Reading
from pillion.errors import PillionError
from pillion.host_io.user_code import split_spec
from pillion.option_parsers import parse_drop

if TYPE_CHECKING:
    from pillion.data.sample import Source

DataOption = Annotated[
    Optional[str],
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


@dataclass(frozen=True)
class MetricOptions:
    """A metric of labelled data that a program keeps, with 16 bits where it needs them."""

    max_drop: Annotated[
        Optional[str],
        option(
            QUANTIZATION,
            "Use 16 bits where a metric on --data would be worse by more: 0.5%.",
            metavar="PERCENT",
        ),
    ] = None
    data: Annotated[
        Optional[str],
        option(DATA, "Labelled data of --max-drop, other than --calibrate.", "-d --data", metavar="PATH"),
    ] = None
    metric: Annotated[
        Optional[str],
        option(
            DATA, "Metric of --max-drop: top1, top5, auc, mse, mae or file.py:function.", metavar="METRIC"
        ),
    ] = None
    limit: LimitOption = None

    def __post_init__(self) -> None:
        if self.max_drop is not None:
            parse_drop(self.max_drop)
        if (self.max_drop is None) != (self.data is None) or (
            self.data is None and (self.metric or self.limit)
        ):
            raise PillionError(
                "a metric is measured on data",
                rule="--max-drop goes with --data, and --data, --metric and --limit with --max-drop",
                here=f"--max-drop {self.max_drop}" if self.max_drop else "no --max-drop",
                help="--max-drop 0.5% --data test.npz, or `pillion eval` to measure a program",
            )


def with_data(request: Request, reading: Reading, judged: MetricOptions) -> Request:
    """Returns the request with its labelled data, if a metric is bounded, and its calibration data, read alike."""
    fitting = replace(reading, labels=None, label_column=None, classes=())
    if judged.data is None:
        if reading != fitting:
            raise PillionError(
                "there are no labels to read",
                rule="--labels, --label-column and --classes go with --data",
                here="no --data",
                help="--max-drop 0.5% --data test.npz, or leave them out",
            )
        return with_calibration_data(request, fitting)
    from pillion.data.python_data import open_data
    from pillion.evaluation.metric_goal import MetricGoal

    if not request.quantize:
        raise PillionError(
            "there is nothing to choose",
            rule="--max-drop goes with --quantize",
            here=f"{request.model}, no --quantize",
            help="add --quantize, or leave --max-drop out: .tflite and .pte files are quantized already",
        )
    check_there(split_spec(judged.data)[0])
    calibrate = request.options.quantize.calibrate
    if calibrate is not None and str(calibrate) == judged.data:
        warn("--data is what calibrates: other data may lose more of the metric")
    goal = MetricGoal(judged.data, judged.max_drop or "", judged.metric, limit=judged.limit, reading=reading)
    samples = None if calibrate is None else open_data(calibrate, fitting)
    return replace(request, samples=samples, metric=goal)


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
