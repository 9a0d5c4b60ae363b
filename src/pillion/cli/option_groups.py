# SPDX-License-Identifier: Apache-2.0
"""Groups of options that several commands share.

Values are checked when a group is built, before the compiler is imported."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Optional

from pillion.cli import completion
from pillion.cli.help import TIME, argument, option
from pillion.cli.options import ModelOption
from pillion.errors import PillionError
from pillion.host_io.atomic_files import MODEL_FILES

if TYPE_CHECKING:
    from pillion.run.time_estimate import TimingConditions


class NamedOptions:
    """A name given as an argument or as an option."""

    named: str | None
    model: str | None

    @property
    def name(self) -> str:
        """The typed name."""
        return self.named or self.model or ""


@dataclass(frozen=True)
class NamedModel(NamedOptions):
    """A model, given as an argument or with --model."""

    named: Annotated[
        Optional[str],
        argument(
            f"A zoo name (`pillion models`), {MODEL_FILES}.",
            metavar="MODEL",
            complete=completion.models,
            show_default=False,
        ),
    ] = None
    model: ModelOption = None

    def __post_init__(self) -> None:
        _require_one(self.named, self.model, "a model", "ds_cnn, or net.py:Net")


@dataclass(frozen=True)
class NamedProgram(NamedOptions):
    """A compiled program, given as an argument, or a model to compile."""

    named: Annotated[
        Optional[str],
        argument(
            "A .pte file or C project; with --target, a model as in `pillion compile`.",
            metavar="PROGRAM",
            complete=completion.models,
            show_default=False,
        ),
    ] = None
    model: ModelOption = None

    def __post_init__(self) -> None:
        _require_one(self.named, self.model, "a program", "kws.pte, or ds_cnn with --target cortex-m55")


def require_single_model(named: str | None, model: str | None) -> None:
    """Raises if a model is given both as an argument and as an option."""
    if named and model:
        raise PillionError(
            f"{named} and {model} are two models",
            rule="one model: named by itself, or with --model",
            here=f"{named} --model {model}",
            help="leave one of them out",
        )


def _require_one(named: str | None, model: str | None, what: str, example: str) -> None:
    """Raises unless exactly one of both is given."""
    require_single_model(named, model)
    if not (named or model):
        raise PillionError(
            f"{what} has to be named",
            rule="a name that `pillion models` lists, or a path, before the options or with --model",
            here="no name" if named is None and model is None else "an empty name",
            help=example,
        )


@dataclass(frozen=True)
class TimingOptions:
    """Options for time estimates."""

    clock: Annotated[
        Optional[str],
        option(TIME, "Core clock: 160MHz. Also estimates the time of a run.", "--clock", metavar="CLOCK"),
    ] = None
    npu_clock: Annotated[
        Optional[str],
        option(TIME, "NPU clock, if it differs from the core's.", "--npu-clock", metavar="CLOCK"),
    ] = None
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

    @property
    def first(self) -> str | None:
        """The first of the options that was set."""
        return self.clock or self.npu_clock or self.memories

    @property
    def conditions(self) -> TimingConditions | None:
        """Conditions of the estimate; None without a clock."""
        from pillion.cli.time_output import conditions

        return conditions(self.clock, self.npu_clock, self.memories)
