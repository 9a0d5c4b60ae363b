# SPDX-License-Identifier: Apache-2.0
"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional, get_args

import typer

from pillion.choices import ArithmeticName
from pillion.cli import completion
from pillion.cli.help import INPUT, MEMORY, PLACEMENT, QUANTIZATION, RESULT, STREAM, TIME
from pillion.outside.files import MODEL_FILES

ModelArgument = Annotated[
    Optional[str],
    typer.Argument(
        metavar="MODEL",
        help=f"A zoo name (`pillion models`), {MODEL_FILES}.",
        autocompletion=completion.models,
        show_default=False,
    ),
]
ProgramArgument = Annotated[
    Optional[str],
    typer.Argument(
        metavar="PROGRAM",
        help="A .pte file or a C project that `pillion compile` wrote; or, with --target, a model as for `pillion compile`.",
        autocompletion=completion.models,
        show_default=False,
    ),
]
ModelOption = Annotated[
    Optional[str],
    typer.Option(
        *("-m", "--model"),
        metavar="MODEL",
        help="The model, where it is not named by itself.",
        autocompletion=completion.models,
        rich_help_panel=INPUT,
    ),
]
TargetsOption = Annotated[
    list[str],
    typer.Option(
        *("-t", "--target"),
        metavar="TARGET",
        help="The chip or core to compile for (`pillion targets`); several are laid side by side.",
        autocompletion=completion.targets,
        rich_help_panel=INPUT,
    ),
]
TargetOption = Annotated[
    str,
    typer.Option(
        *("-t", "--target"),
        metavar="TARGET",
        help="The chip or core to compile for (`pillion targets`).",
        autocompletion=completion.targets,
        rich_help_panel=INPUT,
    ),
]
WeightsOption = Annotated[
    Optional[Path],
    typer.Option(
        metavar="FILE",
        help="Weights for a zoo name or file.py:factory: a state dict in a .pt, .pth, .ckpt, .bin, .safetensors or .npz.",
        rich_help_panel=INPUT,
    ),
]
SizeOption = Annotated[
    Optional[str],
    typer.Option(
        metavar="SIZE",
        help="Height and width of the input, for zoo models that take any: 96 or 96x128.",
        rich_help_panel=INPUT,
    ),
]
TrustOption = Annotated[
    bool,
    typer.Option(
        "--trust-pickle",
        help="Execute what a .pt2 holds beside tensors: only for files whose maker you trust.",
        rich_help_panel=INPUT,
    ),
]
QuantizeOption = Annotated[
    bool,
    typer.Option(
        *("-q", "--quantize"),
        help="Quantize a model that computes in float to int8: all but .tflite and .pte files.",
        rich_help_panel=QUANTIZATION,
    ),
]
ImpliedOption = Annotated[
    bool,
    typer.Option(
        *("-q", "--quantize"),
        hidden=True,
        help="Said to `pillion compile`; models in float are quantized here anyway.",
        rich_help_panel=QUANTIZATION,
    ),
]
CalibrateOption = Annotated[
    Optional[Path],
    typer.Option(
        metavar="PATH",
        help="Inputs like those the model will see, which decide the ranges: a folder or file of arrays, images, sounds or tables, or file.py:function.",
        rich_help_panel=QUANTIZATION,
    ),
]
RangesOption = Annotated[
    str,
    typer.Option(
        metavar="auto|minmax|percentile|mse",
        help="The range of a tensor: all that calibration saw, all but the rarest values, or what gives the least squared error; auto: this where it is much less.",
        autocompletion=completion.one_of_these("auto", "minmax", "percentile", "mse"),
        rich_help_panel=QUANTIZATION,
    ),
]
EqualizeOption = Annotated[
    bool,
    typer.Option(
        "--equalize",
        help="Bring channels of very different ranges to one, between layers that can share the factors.",
        rich_help_panel=QUANTIZATION,
    ),
]
CorrectOption = Annotated[
    bool,
    typer.Option(
        "--correct-biases",
        help="Let biases take back by how much rounding shifts the means of channels.",
        rich_help_panel=QUANTIZATION,
    ),
]
KeepOption = Annotated[
    Optional[list[str]],
    typer.Option(
        "--keep-on-cpu",
        metavar="PATTERN",
        help="Keep ops of this name or kind off the NPU: softmax, 'conv*'. May be repeated.",
        rich_help_panel=PLACEMENT,
    ),
]
OnlyNpuOption = Annotated[
    bool,
    typer.Option(
        "--only-npu",
        help="Put all on the NPU; fail, with the reasons, if the rules do not allow it for any op that computes.",
        rich_help_panel=PLACEMENT,
    ),
]
PreferNpuOption = Annotated[
    bool,
    typer.Option(
        "--prefer-npu",
        help="Put whatever the rules allow on the NPU, also where the core is estimated to be faster.",
        rich_help_panel=PLACEMENT,
    ),
]
MaxRamOption = Annotated[
    Optional[str],
    typer.Option(
        "--max-ram",
        metavar="SIZE",
        help="RAM that the C may take, such as 256K: where tensors are too large, ops run a few rows at a time.",
        rich_help_panel=MEMORY,
    ),
]
RowsInOption = Annotated[
    bool,
    typer.Option(
        "--rows-in",
        help="The C is handed its input a few rows at a time, as a camera gives them, and has no room for all of it; of several inputs the largest.",
        rich_help_panel=MEMORY,
    ),
]
RowsOfOption = Annotated[
    Optional[str],
    typer.Option(
        "--rows-of",
        metavar="INPUT",
        help="As --rows-in, for the input of this name where a model has several.",
        rich_help_panel=MEMORY,
    ),
]
ExtraOption = Annotated[
    Optional[str],
    typer.Option(
        "--extra",
        metavar="SHARE",
        help="Instructions that less RAM may cost, such as 5%: the smallest plan within that. By default 1%, where that saves much; "
        "with 0%, all ops run whole.",
        rich_help_panel=MEMORY,
    ),
]
StreamOption = Annotated[
    Optional[list[str]],
    typer.Option(
        "--stream",
        metavar="INPUT:AXIS",
        help="Feed an input a few frames at a time, along its axis of time (x:2): the program answers what the whole window would.",
        rich_help_panel=STREAM,
    ),
]
HopOption = Annotated[
    Optional[int],
    typer.Option(
        "--hop",
        metavar="FRAMES",
        help="With --stream, the new frames of each run: 1, or the least multiple that the strides allow.",
        rich_help_panel=STREAM,
    ),
]
ClockOption = Annotated[
    Optional[str],
    typer.Option(
        "--clock",
        metavar="CLOCK",
        help="The core's clock, like 160MHz: also estimate the time of a run, from a to b ms.",
        rich_help_panel=TIME,
    ),
]
NpuClockOption = Annotated[
    Optional[str],
    typer.Option(
        "--npu-clock", metavar="CLOCK", help="The NPU's clock, if not the core's.", rich_help_panel=TIME
    ),
]
MemoriesOption = Annotated[
    Optional[str],
    typer.Option(
        "--memories",
        metavar="KIND",
        help="For --clock, where constants and arena lie: tcm, flash, cached or external.",
        autocompletion=completion.one_of_these("tcm", "flash", "cached", "external"),
        rich_help_panel=TIME,
    ),
]
SelfTestOption = Annotated[
    Optional[Path],
    typer.Option(
        "--selftest",
        metavar="FILE",
        help="A .npz of inputs: a C project gets a function by which a device checks itself, a .pte a .bpte beside it.",
        rich_help_panel=RESULT,
    ),
]
OutputOption = Annotated[
    Path,
    typer.Option(
        *("-o", "--output"),
        metavar="PATH",
        help="What to write: a folder for a C project, or a .pte or .tflite file.",
        rich_help_panel=RESULT,
    ),
]
IoDtypeOption = Annotated[
    str,
    typer.Option(
        metavar="float32|int8|uint8",
        help="The numbers that go in and come out.",
        autocompletion=completion.one_of_these("float32", "int8", "uint8"),
        rich_help_panel=RESULT,
    ),
]
StateOption = Annotated[
    str,
    typer.Option(
        metavar="kept|io",
        help="What the model remembers lives between runs, or goes in and comes out of each.",
        autocompletion=completion.one_of_these("kept", "io"),
        rich_help_panel=RESULT,
    ),
]
StatefulOption = Annotated[
    bool,
    typer.Option(
        "--stateful",
        help="Recurrent layers begin each run with what the run before left.",
        rich_help_panel=RESULT,
    ),
]
StatePairOption = Annotated[
    list[str] | None,
    typer.Option(
        "--state-pair",
        metavar="INPUT:OUTPUT",
        help="An input (its name) begins each run with what an output (its number) was in the run before. May be repeated.",
        rich_help_panel=RESULT,
    ),
]
IoLayoutOption = Annotated[
    Optional[str],
    typer.Option(
        metavar="nchw|nhwc",
        help="The order of the axes of images that go in and come out; with --rows-in, which takes lines of pixels, nhwc where nothing is said, else nchw.",
        autocompletion=completion.one_of_these("nchw", "nhwc"),
        rich_help_panel=RESULT,
    ),
]
ArithmeticOption = Annotated[
    Optional[str],
    typer.Option(
        "--arithmetic",
        metavar="cmsis-nn|tflite|tflite-integer",
        help="Whose bits are computed, if not those of the model's own framework: says how many outputs that changes.",
        autocompletion=completion.one_of_these(*get_args(ArithmeticName)),
        rich_help_panel=RESULT,
    ),
]
OptimizeOption = Annotated[
    str,
    typer.Option(
        metavar="speed|size",
        help="Choose kernels for speed, or fewer of them, compiled to be small.",
        autocompletion=completion.one_of_these("speed", "size"),
        rich_help_panel=RESULT,
    ),
]
ForceOption = Annotated[
    bool,
    typer.Option(
        "--force",
        help="Overwrite files of a C project that were changed since Pillion wrote them.",
        rich_help_panel=RESULT,
    ),
]
SchedulerOption = Annotated[
    Optional[str],
    typer.Option(
        metavar="ADDRESS",
        help="A running Dask cluster that you trust, tcp://host:port; without it, processes on this computer work.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Answer in JSON, for programs.")]
