# SPDX-License-Identifier: Apache-2.0
"""Groups of options that several commands share.

Values are checked when a group is built, before the compiler is imported."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Optional

from pillion.cli import completion
from pillion.cli.help import RUNNING, TIME, argument, option
from pillion.cli.options import ModelOption
from pillion.errors import PillionError
from pillion.host_io.atomic_files import MODEL_FILES
from pillion.option_record import Option

if TYPE_CHECKING:
    from pillion.run.time_estimate import TimingConditions


@dataclass(frozen=True)
class NamedModel:
    """A model, given as an argument or with --model."""

    named: Annotated[
        Optional[str],
        argument(
            f"Zoo name (`pillion models`), {MODEL_FILES}.",
            metavar="MODEL",
            complete=completion.complete_models,
            show_default=False,
        ),
    ] = None
    model: ModelOption = None
    wanted: ClassVar = ("a model", "ds_cnn, or net.py:Net")
    """The required argument, and an example."""

    def __post_init__(self) -> None:
        require_single_model(self.named, self.model)
        if not self.name:
            raise PillionError(
                f"{self.wanted[0]} has to be named",
                rule="a name that `pillion models` lists, or a path, before the options or with --model",
                here="no name" if self.named is None and self.model is None else "an empty name",
                help=self.wanted[1],
            )

    @property
    def name(self) -> str:
        """The typed name."""
        return self.named or self.model or ""


@dataclass(frozen=True)
class NamedProgram(NamedModel):
    """A compiled program, given as an argument, or a model to compile."""

    named: Annotated[
        Optional[str],
        argument(
            "A .pte file or C project; with --target, a model as in `pillion compile`.",
            metavar="PROGRAM",
            complete=completion.complete_models,
            show_default=False,
        ),
    ] = None
    wanted: ClassVar = ("a program", "kws.pte, or ds_cnn with --target cortex-m55")


def require_single_model(named: str | None, model: str | None) -> None:
    """Raises if a model is given both as an argument and as an option."""
    if named and model:
        raise PillionError(
            f"{named} and {model} are two models",
            rule="one model: named by itself, or with --model",
            here=f"{named} --model {model}",
            help="leave one of them out",
        )


@dataclass(frozen=True)
class EvaluationRuns:
    """How a program runs the samples of a data set."""

    agree: Annotated[
        tuple[str, ...],
        Option(
            "Executor or board to compare bytes with on a few samples. May be repeated.",
            "PLACE",
            typed=Optional[list[str]],
        ),
    ] = ()
    agree_samples: Annotated[int, option(RUNNING, "Samples that --agree runs.", min=1)] = 3
    on: Annotated[
        str,
        option(
            RUNNING, "Executor: host, or slower: reference, litert, a board, serial:PORT.", metavar="PLACE"
        ),
    ] = "host"
    native: Annotated[
        bool, option(RUNNING, "Use all instructions of this processor: same bytes, faster.", "--native")
    ] = False
    workers: Annotated[
        Optional[int], option(RUNNING, "Processes that run the program (default: one per core).")
    ] = None
    timeout: Annotated[float, option(RUNNING, "Time limit for the run of one sample.", metavar="SECONDS")] = (
        60.0
    )
    heading: ClassVar = RUNNING


@dataclass(frozen=True)
class TimingOptions:
    """Options for time estimates."""

    heading: ClassVar = TIME

    clock: Annotated[
        Optional[str], Option("Core clock: 160MHz. Also estimates the time of a run.", "CLOCK")
    ] = None
    npu_clock: Annotated[Optional[str], Option("NPU clock, if it differs from the core's.", "CLOCK")] = None
    memories: Annotated[
        Optional[str],
        option(
            TIME,
            "With --clock: where constants and arena are.",
            "--memories",
            metavar="tcm|flash|cached|external",
            complete=completion.complete_words("tcm", "flash", "cached", "external"),
        ),
    ] = None

    measured: Annotated[
        Optional[Path],
        option(
            TIME,
            "With --clock: correct the estimate by the measurements in this folder.",
            "--measured",
            metavar="DIR",
        ),
    ] = None

    @property
    def first(self) -> str | None:
        """The first of the options that was set."""
        return (
            self.clock or self.npu_clock or self.memories or (str(self.measured) if self.measured else None)
        )

    @property
    def conditions(self) -> TimingConditions | None:
        """Conditions of the estimate; None without a clock."""
        given = (
            ("--npu-clock", self.npu_clock),
            ("--memories", self.memories),
            ("--measured", self.measured),
        )
        useless = [f"{option} {value}" for option, value in given if value is not None]
        if self.clock is None and useless:
            raise PillionError(
                f"{useless[0].split()[0]} says what an estimate of time rests on",
                rule="it goes with --clock",
                here=" ".join(useless),
                help="add --clock 160MHz, or leave it out",
            )
        if self.clock is None:
            return None
        from pillion.run.time_estimate import timing_conditions

        return timing_conditions(
            self.clock, self.npu_clock, self.memories, "--clock", "--npu-clock", measured=self.measured
        )
