# SPDX-License-Identifier: Apache-2.0
"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional, get_args

from pillion.cli import completion
from pillion.cli.help import INPUT, MEMORY, PLACEMENT, QUANTIZATION, RESULT, STREAM, TIME, argument, option
from pillion.host_io.atomic_files import MODEL_FILES
from pillion.option_values import ArithmeticName

ModelArgument = Annotated[
    Optional[str],
    argument(
        f"A zoo name (`pillion models`), {MODEL_FILES}.",
        metavar="MODEL",
        complete=completion.models,
        show_default=False,
    ),
]
ProgramArgument = Annotated[
    Optional[str],
    argument(
        "A .pte file or C project; with --target, a model as in `pillion compile`.",
        metavar="PROGRAM",
        complete=completion.models,
        show_default=False,
    ),
]
ModelOption = Annotated[
    Optional[str],
    option(
        INPUT,
        "The model, instead of the argument.",
        "-m --model",
        metavar="MODEL",
        complete=completion.models,
    ),
]
TargetsOption = Annotated[
    list[str],
    option(
        INPUT,
        "Chip or core (see `pillion targets`); several are compared side by side.",
        "-t --target",
        metavar="TARGET",
        complete=completion.targets,
    ),
]
TargetOption = Annotated[
    str,
    option(
        INPUT,
        "Chip or core to compile for (see `pillion targets`).",
        "-t --target",
        metavar="TARGET",
        complete=completion.targets,
    ),
]
WeightsOption = Annotated[
    Optional[Path],
    option(
        INPUT, "Weights for a zoo name or file.py:factory (.pt, .safetensors, .npz, .bin).", metavar="FILE"
    ),
]
SizeOption = Annotated[
    Optional[str], option(INPUT, "Height and width of the input: 96 or 96x128 (zoo models).", metavar="SIZE")
]
TrustOption = Annotated[
    bool, option(INPUT, "Execute code in a .pt2, if you trust its maker.", "--trust-pickle")
]
QuantizeOption = Annotated[
    bool,
    option(
        QUANTIZATION, "Quantize a float model to int8; not for int8 .tflite and .pte files.", "-q --quantize"
    ),
]
ImpliedOption = Annotated[
    bool,
    option(
        QUANTIZATION,
        "As in `pillion compile`; float models are always quantized here.",
        "-q --quantize",
        hidden=True,
    ),
]
CalibrateOption = Annotated[
    Optional[Path],
    option(
        QUANTIZATION,
        "Representative inputs for calibration: file, folder or file.py:function.",
        metavar="PATH",
    ),
]
RangesOption = Annotated[
    str,
    option(
        QUANTIZATION,
        "Range of each tensor: all values, without rarest, or least squared error.",
        metavar="auto|minmax|percentile|mse",
        complete=completion.one_of_these("auto", "minmax", "percentile", "mse"),
    ),
]
EqualizeOption = Annotated[
    bool,
    option(QUANTIZATION, "Equalize channel ranges between layers that can share the factors.", "--equalize"),
]
CorrectOption = Annotated[
    bool,
    option(
        QUANTIZATION,
        "Correct biases by the shift of channel means (from 4 samples).",
        "--correct-biases/--no-correct-biases",
    ),
]
KeepOption = Annotated[
    Optional[list[str]],
    option(
        PLACEMENT,
        "Keep ops of this name or kind off the NPU: softmax, 'conv*'. May be repeated.",
        "--keep-on-cpu",
        metavar="PATTERN",
    ),
]
OnlyNpuOption = Annotated[
    bool, option(PLACEMENT, "Run everything on the NPU; fail, with reasons, if an op cannot.", "--only-npu")
]
PreferNpuOption = Annotated[
    bool,
    option(PLACEMENT, "Use the NPU wherever possible, even if the core is estimated faster.", "--prefer-npu"),
]
MaxRamOption = Annotated[
    Optional[str],
    option(
        MEMORY,
        "RAM limit of the C: 256K. Large tensors are then computed by rows.",
        "--max-ram",
        metavar="SIZE",
    ),
]
RowsInOption = Annotated[
    bool,
    option(MEMORY, "Feed the largest input row by row, as a camera does, without a buffer.", "--rows-in"),
]
RowsOfOption = Annotated[
    Optional[str], option(MEMORY, "As --rows-in, for the input of this name.", "--rows-of", metavar="INPUT")
]
ExtraOption = Annotated[
    Optional[str],
    option(
        MEMORY,
        "Extra instructions allowed for less RAM (default: 1% if it saves much).",
        "--extra",
        metavar="PERCENT",
    ),
]
StreamOption = Annotated[
    Optional[list[str]],
    option(
        STREAM, "Feed an input frame by frame along its time axis: x:2.", "--stream", metavar="INPUT:AXIS"
    ),
]
HopOption = Annotated[
    Optional[int],
    option(
        STREAM,
        "With --stream: new frames per run, a multiple of all strides (default: 1).",
        "--hop",
        metavar="FRAMES",
    ),
]
ClockOption = Annotated[
    Optional[str],
    option(TIME, "Core clock: 160MHz. Also estimates the time of a run.", "--clock", metavar="CLOCK"),
]
NpuClockOption = Annotated[
    Optional[str], option(TIME, "NPU clock, if it differs from the core's.", "--npu-clock", metavar="CLOCK")
]
MemoriesOption = Annotated[
    Optional[str],
    option(
        TIME,
        "With --clock: where constants and arena are.",
        "--memories",
        metavar="tcm|flash|cached|external",
        complete=completion.one_of_these("tcm", "flash", "cached", "external"),
    ),
]
SelfTestOption = Annotated[
    Optional[Path],
    option(
        RESULT,
        "Inputs of a self-test (.npz): in the C project, or a .bpte next to a .pte.",
        "--selftest",
        metavar="FILE",
    ),
]
OutputOption = Annotated[
    Path,
    option(
        RESULT, "Output: a folder for a C project, or a .pte or .tflite file.", "-o --output", metavar="PATH"
    ),
]
IoDtypeOption = Annotated[
    str,
    option(
        RESULT,
        "Data type of inputs and outputs.",
        metavar="float32|int8|uint8",
        complete=completion.one_of_these("float32", "int8", "uint8"),
    ),
]
StateOption = Annotated[
    str,
    option(
        RESULT,
        "Keep state between runs, or pass it in and out of each run.",
        metavar="kept|io",
        complete=completion.one_of_these("kept", "io"),
    ),
]
StatefulOption = Annotated[
    bool, option(RESULT, "Recurrent layers continue from the previous run.", "--stateful")
]
StatePairOption = Annotated[
    list[str] | None,
    option(
        RESULT,
        "Carry an output (number) into an input (name): h:1. May be repeated.",
        "--state-pair",
        metavar="INPUT:OUTPUT",
    ),
]
IoLayoutOption = Annotated[
    Optional[str],
    option(
        RESULT,
        "Axis order of images (default: nhwc with --rows-in, otherwise nchw).",
        metavar="nchw|nhwc",
        complete=completion.one_of_these("nchw", "nhwc"),
    ),
]
ArithmeticOption = Annotated[
    Optional[str],
    option(
        RESULT,
        "Arithmetic to reproduce bit for bit (default: the source framework's).",
        "--arithmetic",
        metavar="cmsis-nn|tflite|tflite-integer",
        complete=completion.one_of_these(*get_args(ArithmeticName)),
    ),
]
OptimizeOption = Annotated[
    str,
    option(
        RESULT,
        "Fast kernels, or few and small ones.",
        metavar="speed|size",
        complete=completion.one_of_these("speed", "size"),
    ),
]
NameOption = Annotated[
    Optional[str],
    option(RESULT, "Name of the program, as in NAME_run in C (default: the model's).", metavar="NAME"),
]
ForceOption = Annotated[bool, option(RESULT, "Overwrite files of a C project that were edited.", "--force")]
SchedulerOption = Annotated[
    Optional[str],
    option(None, "Dask scheduler, tls://host:port (default: local processes).", metavar="ADDRESS"),
]
JsonOption = Annotated[bool, option(None, "Print JSON.", "--json")]
