# SPDX-License-Identifier: Apache-2.0
"""Options that go together. A command that has one of a group has all of them, so that what one command compiles the others can look at.

What is typed is checked when a group is made of it, before the compiler is imported."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

from pillion.boards.board import Optimize
from pillion.choices import ArithmeticName, IoDtype, IoLayout, Ranges, StateForm
from pillion.cli.options import (
    ArithmeticOption,
    CalibrateOption,
    ClockOption,
    CorrectOption,
    EqualizeOption,
    ExtraOption,
    HopOption,
    IoDtypeOption,
    IoLayoutOption,
    KeepOption,
    MaxRamOption,
    MemoriesOption,
    ModelArgument,
    ModelOption,
    NpuClockOption,
    OnlyNpuOption,
    OptimizeOption,
    PreferNpuOption,
    ProgramArgument,
    RangesOption,
    RowsInOption,
    RowsOfOption,
    SizeOption,
    StatefulOption,
    StateOption,
    StatePairOption,
    StreamOption,
    TrustOption,
    WeightsOption,
)
from pillion.cli.typed import parse_pair, parse_size
from pillion.errors import PillionError, one_of
from pillion.ir.tuning import Tuning
from pillion.streams.wish import StreamWish, stream_wish
from pillion.stripes.wish import MemoryWish, memory_wish

if TYPE_CHECKING:
    from pillion.run.time import Conditions


class Named:
    """What is named by itself or as an option."""

    named: str | None
    model: str | None

    @property
    def name(self) -> str:
        """What was typed, in either way."""
        return self.named or self.model or ""


@dataclass(frozen=True)
class NamedModel(Named):
    """A model, named by itself or as an option."""

    named: ModelArgument = None
    model: ModelOption = None

    def __post_init__(self) -> None:
        _want_one(self.named, self.model, "a model", "ds_cnn, or net.py:Net")


@dataclass(frozen=True)
class NamedProgram(Named):
    """A program that was written, named by itself; or a model that is compiled for the command, in either way."""

    named: ProgramArgument = None
    model: ModelOption = None

    def __post_init__(self) -> None:
        _want_one(self.named, self.model, "a program", "kws.pte, or ds_cnn with --target cortex-m55")


def want_once(named: str | None, model: str | None) -> None:
    """Raises where a model is named by itself and as an option."""
    if named and model:
        raise PillionError(
            f"{named} and {model} are two models",
            rule="one model: named by itself, or with --model",
            here=f"{named} --model {model}",
            help="leave one of them out",
        )


def _want_one(named: str | None, model: str | None, what: str, example: str) -> None:
    """Raises unless one of both was typed."""
    want_once(named, model)
    if not (named or model):
        raise PillionError(
            f"{what} has to be named",
            rule="a name that `pillion models` lists, or a path, before the options or with --model",
            here="no name" if named is None and model is None else "an empty name",
            help=example,
        )


@dataclass(frozen=True)
class Source:
    """What a model is read with, beside its name."""

    weights: WeightsOption = None
    trust_pickle: TrustOption = False
    input_size: SizeOption = None

    def __post_init__(self) -> None:
        parse_size(self.input_size)

    @property
    def size(self) -> tuple[int, int] | None:
        """The height and width that were typed."""
        return parse_size(self.input_size)


@dataclass(frozen=True)
class Quantizing:
    """How ranges are found, and what is done where quantizing costs much."""

    calibrate: CalibrateOption = None
    ranges: RangesOption = "auto"
    equalize: EqualizeOption = False
    correct_biases: CorrectOption = False

    def __post_init__(self) -> None:
        one_of("--ranges", self.ranges, get_args(Ranges))

    @property
    def tuning(self) -> Tuning:
        """What was typed in one object."""
        return Tuning(self.ranges, self.equalize, self.correct_biases)  # type: ignore[arg-type]  # checked above


@dataclass(frozen=True)
class Form:
    """What goes in and out of a program, and what its numbers and its code are like."""

    io_dtype: IoDtypeOption = "float32"
    io_layout: IoLayoutOption = None
    state: StateOption = "kept"
    stateful: StatefulOption = False
    state_pair: StatePairOption = None
    arithmetic: ArithmeticOption = None
    optimize: OptimizeOption = "speed"

    def __post_init__(self) -> None:
        one_of("--io-dtype", self.io_dtype, get_args(IoDtype))
        if self.io_layout is not None:
            one_of("--io-layout", self.io_layout, get_args(IoLayout))
        one_of("--state", self.state, get_args(StateForm))
        one_of("--optimize", self.optimize, get_args(Optimize))
        if self.arithmetic is not None:
            one_of("--arithmetic", self.arithmetic, get_args(ArithmeticName))
        self.given()

    def given(self) -> dict[str, Any]:
        """Gives what was typed as `pillion.compile` takes it."""
        return {
            "io_dtype": self.io_dtype,
            "io_layout": self.io_layout,
            "state": self.state,
            "stateful": self.stateful,
            "state_pairs": dict(map(parse_pair, self.state_pair or ())),
            "arithmetic": self.arithmetic,
            "optimize": self.optimize,
        }


@dataclass(frozen=True)
class Placing:
    """What the NPU of a chip shall run, and what not."""

    keep_on_cpu: KeepOption = None
    only_npu: OnlyNpuOption = False
    prefer_npu: PreferNpuOption = False


@dataclass(frozen=True)
class How:
    """How a model is compiled, whatever its program is for."""

    source: Source = Source()
    quantizing: Quantizing = Quantizing()
    form: Form = Form()
    placing: Placing = Placing()


AS_USUAL = How()
"""Nothing was typed of how."""


@dataclass(frozen=True)
class InParts:
    """How a program runs where a few rows of an image, or a few frames of a signal, are there at a time."""

    max_ram: MaxRamOption = None
    extra: ExtraOption = None
    rows_in: RowsInOption = False
    rows_of: RowsOfOption = None
    stream: StreamOption = None
    hop: HopOption = None

    def __post_init__(self) -> None:
        self.given()

    @property
    def memory(self) -> MemoryWish:
        """What is wished for the memory."""
        return memory_wish(self.max_ram, self.extra, self.rows_of or self.rows_in)

    @property
    def over_time(self) -> StreamWish | None:
        """The stream that is wished for."""
        return stream_wish(self.stream, self.hop)

    def given(self) -> dict[str, Any]:
        """Gives what was typed as `pillion.compile` takes it."""
        memory, stream = self.memory, self.over_time
        return {
            "max_ram": memory.max_ram,
            "extra": memory.extra if memory.is_asked else None,
            "rows_in": memory.rows_in,
            "stream": dict(stream.axes) if stream else None,
            "hop": stream.hop if stream else None,
        }


UNDIVIDED = InParts()
"""Nothing was typed of parts."""


@dataclass(frozen=True)
class Timing:
    """What an estimate of the time of a run rests on."""

    clock: ClockOption = None
    npu_clock: NpuClockOption = None
    memories: MemoriesOption = None

    @property
    def first(self) -> str | None:
        """The first of these that was typed."""
        return self.clock or self.npu_clock or self.memories

    @property
    def conditions(self) -> Conditions | None:
        """The conditions of an estimate; none where no clock was typed."""
        from pillion.cli.times import conditions

        return conditions(self.clock, self.npu_clock, self.memories)
