# SPDX-License-Identifier: Apache-2.0
"""Groups of options that several commands share.

Values are checked when a group is built, before the compiler is imported."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

from pillion.boards.board import Optimize
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
    NameOption,
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
from pillion.cli.param_types import parse_pair, parse_size
from pillion.errors import PillionError, one_of
from pillion.ir.tuning import Tuning
from pillion.option_values import ArithmeticName, IoDtype, IoLayout, Ranges, StateForm
from pillion.streams.stream_spec import StreamSpec, parse_stream_spec
from pillion.tiling.memory_budget import MemoryBudget, parse_memory_budget

if TYPE_CHECKING:
    from pillion.run.time_estimate import Conditions


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

    named: ModelArgument = None
    model: ModelOption = None

    def __post_init__(self) -> None:
        _require_one(self.named, self.model, "a model", "ds_cnn, or net.py:Net")


@dataclass(frozen=True)
class NamedProgram(NamedOptions):
    """A compiled program, given as an argument, or a model to compile."""

    named: ProgramArgument = None
    model: ModelOption = None

    def __post_init__(self) -> None:
        _require_one(self.named, self.model, "a program", "kws.pte, or ds_cnn with --target cortex-m55")


def require_once(named: str | None, model: str | None) -> None:
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
    require_once(named, model)
    if not (named or model):
        raise PillionError(
            f"{what} has to be named",
            rule="a name that `pillion models` lists, or a path, before the options or with --model",
            here="no name" if named is None and model is None else "an empty name",
            help=example,
        )


@dataclass(frozen=True)
class SourceOptions:
    """Options for reading a model."""

    weights: WeightsOption = None
    trust_pickle: TrustOption = False
    input_size: SizeOption = None

    def __post_init__(self) -> None:
        parse_size(self.input_size)

    @property
    def size(self) -> tuple[int, int] | None:
        """Height and width of the input."""
        return parse_size(self.input_size)


@dataclass(frozen=True)
class QuantizationOptions:
    """Options for calibration and accuracy."""

    calibrate: CalibrateOption = None
    ranges: RangesOption = "auto"
    equalize: EqualizeOption = False
    correct_biases: CorrectOption = True

    def __post_init__(self) -> None:
        one_of("--ranges", self.ranges, get_args(Ranges))

    @property
    def tuning(self) -> Tuning:
        """The options as `Tuning`."""
        return Tuning(self.ranges, self.equalize, self.correct_biases)  # type: ignore[arg-type]  # checked above


@dataclass(frozen=True)
class FormOptions:
    """Options for inputs, outputs, state, arithmetic and code size."""

    io_dtype: IoDtypeOption = "float32"
    io_layout: IoLayoutOption = None
    state: StateOption = "kept"
    stateful: StatefulOption = False
    state_pair: StatePairOption = None
    arithmetic: ArithmeticOption = None
    optimize: OptimizeOption = "speed"
    name: NameOption = None

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
        """Returns the options as keywords of `pillion.compile`."""
        return {
            "io_dtype": self.io_dtype,
            "io_layout": self.io_layout,
            "state": self.state,
            "stateful": self.stateful,
            "state_pairs": dict(map(parse_pair, self.state_pair or ())),
            "arithmetic": self.arithmetic,
            **({"name": self.name} if self.name is not None else {}),
            "optimize": self.optimize,
        }


@dataclass(frozen=True)
class PlacementFlags:
    """Options for placement on the NPU."""

    keep_on_cpu: KeepOption = None
    only_npu: OnlyNpuOption = False
    prefer_npu: PreferNpuOption = False


@dataclass(frozen=True)
class BuildOptions:
    """Options that say how a model is compiled."""

    source: SourceOptions = SourceOptions()
    quantizing: QuantizationOptions = QuantizationOptions()
    form: FormOptions = FormOptions()
    placing: PlacementFlags = PlacementFlags()


DEFAULT_BUILD = BuildOptions()
"""The defaults of `BuildOptions`."""


@dataclass(frozen=True)
class ExecutionOptions:
    """Options for running a model a few rows or a few frames at a time."""

    max_ram: MaxRamOption = None
    extra: ExtraOption = None
    rows_in: RowsInOption = False
    rows_of: RowsOfOption = None
    stream: StreamOption = None
    hop: HopOption = None

    def __post_init__(self) -> None:
        self.given()

    @property
    def memory(self) -> MemoryBudget:
        """The memory budget."""
        return parse_memory_budget(self.max_ram, self.extra, self.rows_of or self.rows_in)

    @property
    def over_time(self) -> StreamSpec | None:
        """The stream specification, if any."""
        return parse_stream_spec(self.stream, self.hop)

    def given(self) -> dict[str, Any]:
        """Returns the options as keywords of `pillion.compile`."""
        memory, stream = self.memory, self.over_time
        return {
            "max_ram": memory.max_ram,
            "extra": memory.extra if memory.is_asked else None,
            "rows_in": memory.rows_in,
            "stream": dict(stream.axes) if stream else None,
            "hop": stream.hop if stream else None,
        }


DEFAULT_EXECUTION = ExecutionOptions()
"""The defaults of `ExecutionOptions`."""


@dataclass(frozen=True)
class TimingOptions:
    """Options for time estimates."""

    clock: ClockOption = None
    npu_clock: NpuClockOption = None
    memories: MemoriesOption = None

    @property
    def first(self) -> str | None:
        """The first of the options that was set."""
        return self.clock or self.npu_clock or self.memories

    @property
    def conditions(self) -> Conditions | None:
        """Conditions of the estimate; None without a clock."""
        from pillion.cli.time_output import conditions

        return conditions(self.clock, self.npu_clock, self.memories)
