# SPDX-License-Identifier: Apache-2.0
"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from pillion.outside.files import MODEL_FILES

ModelOption = Annotated[
    str,
    typer.Option("-m", "--model", help=f"A zoo name (`pillion models`), {MODEL_FILES}."),
]
TargetOption = Annotated[str, typer.Option("-t", "--target", help="What to compile for (`pillion targets`).")]
KeepOption = Annotated[
    Optional[list[str]],
    typer.Option(
        "--keep-on-cpu", help="Pattern of op names or kinds that stay on the CPU (may be repeated)."
    ),
]
OutputOption = Annotated[
    Path,
    typer.Option(
        "-o", "--output", help="What to write: a folder for a C project, or a .pte or .tflite file."
    ),
]
QuantizeOption = Annotated[
    bool, typer.Option("-q", "--quantize", help="Quantize to int8 after training (PTQ).")
]
IoDtypeOption = Annotated[str, typer.Option(help="float32 or int8: what goes in and comes out.")]
IoLayoutOption = Annotated[str, typer.Option(help="nchw or nhwc: how images go in and come out.")]
OnlyNpuOption = Annotated[bool, typer.Option("--only-npu", help="Fail if any op cannot run on the NPU.")]
OptimizeOption = Annotated[str, typer.Option(help="speed, or size: fewer kernels, compiled to be small.")]
CalibrateOption = Annotated[
    Optional[Path],
    typer.Option(
        help="Calibration data: a folder or file of arrays, images, sounds or tables, or file.py:function."
    ),
]
WeightsOption = Annotated[
    Optional[Path], typer.Option(help="Weights for the model: an .npz of its state dict.")
]
SizeOption = Annotated[
    Optional[str], typer.Option(help="Height and width for zoo models of any size: 96 or 96x128.")
]
ForceOption = Annotated[
    bool, typer.Option("--force", help="Overwrite files of a C project that are not as Pillion wrote them.")
]
TrustOption = Annotated[
    bool,
    typer.Option(
        "--trust-pickle",
        help="Execute what a .pt2 holds beside tensors: only for files whose maker you trust.",
    ),
]
SchedulerOption = Annotated[
    Optional[str],
    typer.Option(
        help="A running Dask cluster that you trust, tcp://host:port; without it, processes on this computer work."
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Answer in JSON.")]
