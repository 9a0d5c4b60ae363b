# SPDX-License-Identifier: Apache-2.0
"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

from pillion.cli import completion
from pillion.cli.help import INPUT, QUANTIZATION, RESULT, option

ModelOption = Annotated[
    Optional[str],
    option(
        INPUT,
        "The model, instead of the argument.",
        "-m --model",
        metavar="MODEL",
        complete=completion.complete_models,
    ),
]
TargetsOption = Annotated[
    list[str],
    option(
        INPUT,
        "Chip or core (see `pillion targets`); several are compared side by side.",
        "-t --target",
        metavar="TARGET",
        complete=completion.complete_targets,
    ),
]
TargetOption = Annotated[
    str,
    option(
        INPUT,
        "Chip or core to compile for (see `pillion targets`).",
        "-t --target",
        metavar="TARGET",
        complete=completion.complete_targets,
    ),
]
OptionalTarget = Annotated[
    Optional[str],
    option(
        INPUT,
        "Target to compile a model for; for a .pte, another core than its own.",
        "-t --target",
        metavar="TARGET",
        complete=completion.complete_targets,
    ),
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
SelfTestOption = Annotated[
    Optional[Path],
    option(
        RESULT,
        "Inputs of a self-test (.npz): in the C project, or a .bpte next to a .pte.",
        "--selftest",
        metavar="FILE",
    ),
]
SerialOption = Annotated[
    Optional[str],
    option(
        RESULT,
        "Add serial/, for runs on this chip over a serial port (qemu: emulated boards).",
        "--serial",
        metavar="CHIP",
        complete=completion.complete_serial_chips,
    ),
]
BenchmarkOption = Annotated[
    Optional[str],
    option(
        RESULT,
        "With --serial: the firmware of a benchmark instead, for its own runner.",
        "--benchmark",
        metavar="mlperf-tiny",
        complete=completion.complete_words("mlperf-tiny"),
    ),
]
OutputOption = Annotated[
    Path,
    option(
        RESULT,
        "Output: a folder for a C project, or a .pte, .tflite or .plm file.",
        "-o --output",
        metavar="PATH",
    ),
]
ForceOption = Annotated[bool, option(RESULT, "Overwrite files of a C project that were edited.", "--force")]
SchedulerOption = Annotated[
    Optional[str],
    option(None, "Dask scheduler, tls://host:port (default: local processes).", metavar="ADDRESS"),
]
JsonOption = Annotated[bool, option(None, "Print JSON.", "--json")]
