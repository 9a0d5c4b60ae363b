# SPDX-License-Identifier: Apache-2.0
"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

ModelOption = Annotated[
    str,
    typer.Option(
        "-m", "--model", help="A zoo name (`pillion models`), file.py:factory, a .pt2, .tflite or .pte file."
    ),
]
TargetOption = Annotated[str, typer.Option("-t", "--target", help="What to compile for (`pillion targets`).")]
KeepOption = Annotated[
    Optional[list[str]],
    typer.Option(
        "--keep-on-cpu", help="Pattern of op names or kinds that stay on the CPU (may be repeated)."
    ),
]
CalibrateOption = Annotated[
    Optional[Path], typer.Option(help="Calibration data: a folder of .npy/.npz files, or one .npz.")
]
WeightsOption = Annotated[
    Optional[Path], typer.Option(help="Weights for the model: an .npz of its state dict.")
]
SizeOption = Annotated[
    Optional[str], typer.Option(help="Height and width for zoo models of any size: 96 or 96x128.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Answer in JSON.")]
