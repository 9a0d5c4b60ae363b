# SPDX-License-Identifier: Apache-2.0
"""The options of `pillion.compile`, as records: each field has its default, its help and its check.

The command line, the axes of sweeps, the keywords of `compile` and a page of the docs are made from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Annotated, Any, Optional

from pillion.chip_memory import ChipMemory, parse_memories
from pillion.errors import PillionError
from pillion.option_parsers import (
    parse_added_share,
    parse_bytes,
    parse_decibels,
    parse_hop,
    parse_pairs,
    parse_share,
    parse_size,
    parse_streams,
)
from pillion.option_record import Checked, Option, OptionField, option_fields, require_record
from pillion.option_values import (
    ArithmeticName,
    IoDtype,
    IoLayout,
    Optimize,
    Precision,
    Ranges,
    StateForm,
    VelaOptimise,
    WeightRounding,
)

Streamed = str | Sequence[str | tuple[str, int]] | Mapping[str, int]
"""`"x:2"`, several such texts, or a mapping of names to axes."""


@dataclass(frozen=True)
class Loading(Checked):
    """How a named model is loaded."""

    weights: Annotated[
        str | Path | None,
        Option(
            "Weights for a zoo name or file.py:factory (.pt, .safetensors, .npz, .bin).",
            "FILE",
            typed=Optional[Path],
        ),
    ] = None
    trust_pickle: Annotated[bool, Option("Execute code in a .pt2, if you trust its maker.")] = False
    preprocess: Annotated[
        Any,
        Option(
            "Steps from the camera's bytes to the model: file.py:transform.",
            "FILE.PY:NAME",
            typed=Optional[str],
        ),
    ] = None
    input_size: Annotated[
        int | str | tuple[int, int] | None,
        Option("Height and width: 96 or 96x128 (zoo; free ones of an .onnx).", "SIZE"),
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.size

    @property
    def size(self) -> tuple[int, int] | None:
        """Height and width of the input."""
        return parse_size(self.input_size)


@dataclass(frozen=True)
class Quantization(Checked):
    """How a float model becomes int8: calibration data (without it, the example inputs) and tuning."""

    calibrate: Annotated[
        Any,
        Option(
            "Representative inputs for calibration: file, folder or file.py:function.",
            "PATH",
            typed=Optional[Path],
        ),
    ] = None
    ranges: Annotated[
        Ranges, Option("Range of each tensor: all values, without rarest, or least squared error.")
    ] = "auto"
    equalize: Annotated[
        bool, Option("Equalize channel ranges between layers that can share the factors.")
    ] = False
    correct_biases: Annotated[
        bool, Option("Correct biases by the shift of channel means (from 4 samples).")
    ] = True
    weight_rounding: Annotated[
        WeightRounding, Option("Round weights to nearest steps, or fitted to samples (auto: beside 16 bits).")
    ] = "auto"
    precision: Annotated[
        Precision, Option("Bits of tensors; mixed: 16 bits where --min-quality needs them.")
    ] = "int8"
    min_quality: Annotated[
        float | str | None, Option("Use 16 bits where this quality against float needs them: 35dB.", "DB")
    ] = None
    max_time: Annotated[
        float | str | None, Option("Time that 16 bits may add to that in 8 bits, estimated: +25%.", "PERCENT")
    ] = None
    int16: Annotated[
        tuple[str, ...],
        Option(
            "Results in int16, by module or op: head, 'decoder.*'. May be repeated.",
            "PATTERN",
            typed=Optional[list[str]],
        ),
    ] = ()

    @property
    def is_mixed(self) -> bool:
        """Whether the compiler chooses tensors of 16 bits."""
        return self.precision == "mixed" or self.min_quality is not None or self.max_time is not None

    @property
    def fits_weights(self) -> bool:
        """Whether weights are rounded for the samples that calibrate."""
        has_16_bits = self.is_mixed or bool(self.int16_patterns)
        return self.weight_rounding == "fitted" or (self.weight_rounding == "auto" and has_16_bits)

    @property
    def least_quality(self) -> float | None:
        """The least signal-to-noise ratio in dB that a mixed program must have; None: the most within the bounds."""
        if self.min_quality is None and self.max_time is not None:
            return None
        return parse_decibels(self.min_quality or DEFAULT_QUALITY)

    @property
    def most_time(self) -> float | None:
        """The time that a mixed program may take, in parts of that in 8 bits."""
        return None if self.max_time is None else 1 + parse_added_share(self.max_time)

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.least_quality, self.most_time
        if self.is_mixed:
            self._refuse_named_tensors()

    def _refuse_named_tensors(self) -> None:
        if self.int16_patterns:
            raise PillionError(
                "tensors of 16 bits are chosen twice",
                rule="--min-quality, --max-drop, --max-time and --precision mixed choose them; --precision int16 and --int16 name them",
                here="--precision int16" if self.precision == "int16" else f"--int16 {self.int16[0]!r}",
                help="one of these alone",
            )

    def mixed(self) -> Quantization:
        """Returns the options with tensors of 16 bits that the compiler chooses."""
        self._refuse_named_tensors()
        return replace(self, precision="mixed")

    @property
    def int16_patterns(self) -> tuple[str, ...]:
        """The names of tensors that have 16 bits."""
        return ("*",) if self.precision == "int16" else self.int16 or ()

    @property
    def tuning(self) -> dict[str, Any]:
        """The options besides the data that differ from their defaults."""
        own = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "calibrate"}
        return {name: value for name, value in own.items() if value != getattr(type(self), name)}


AFTER_TRAINING = "ranges", "equalize", "correct_biases", "weight_rounding"
"""The fields of models that are quantized after training."""


def quantization_options(names: Iterable[str]) -> str:
    """Returns the options of the command line that set fields of `Quantization`."""
    return ", ".join(
        f"--{'no-' if getattr(Quantization, name) is True else ''}{name.replace('_', '-')}" for name in names
    )


AFTER_TRAINING_OPTIONS = quantization_options(AFTER_TRAINING)
Tuning = Quantization
"""The name for options besides the data, as in `compile(…, calibrate=samples, tuning=Tuning(equalize=True))`."""


DEFAULT_QUALITY = "35dB"
"""The quality of --precision mixed."""


@dataclass(frozen=True)
class Io(Checked):
    """Inputs, outputs and state of the program."""

    dtype: Annotated[IoDtype, Option("Data type of inputs and outputs.", keyword="io_dtype")] = "float32"
    layout: Annotated[
        Optional[IoLayout],
        Option("Axis order of images (default: nhwc with --rows-in, otherwise nchw).", keyword="io_layout"),
    ] = None
    state: Annotated[StateForm, Option("Keep state between runs, or pass it in and out of each run.")] = (
        "kept"
    )
    stateful: Annotated[bool, Option("Recurrent layers continue from the previous run.")] = False
    pairs: Annotated[
        Mapping[str, int] | Sequence[str] | None,
        Option(
            "Carry an output (number) into an input (name): h:1. May be repeated.",
            "INPUT:OUTPUT",
            "state_pairs",
            "--state-pair",
            Optional[list[str]],
        ),
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.state_pairs

    @property
    def state_pairs(self) -> Mapping[str, int]:
        """Outputs, by number, that become inputs, by name, of the next run."""
        return parse_pairs(self.pairs)


FORMER_KINDS = {
    "scan": "repeat",
    "integer_arithmetic": "whole",
    "embedding_bag": "bag",
    "normalize": "standardize",
}
"""Kind of op → the name that patterns of the version before have for it."""


@dataclass(frozen=True)
class PlacementOptions(Checked):
    """The user's constraints: the ops that stay on the CPU, whether the NPU may, should or must run all others, and
    whether both work at once."""

    keep_on_cpu: Annotated[
        tuple[str, ...],
        Option(
            "Keep ops of this name or kind off the NPU: softmax, 'conv*'. May be repeated.",
            "PATTERN",
            typed=Optional[list[str]],
        ),
    ] = ()
    only_npu: Annotated[bool, Option("Run everything on the NPU; fail, with reasons, if an op cannot.")] = (
        False
    )
    prefer_npu: Annotated[
        bool, Option("Use the NPU wherever possible, even if the core is estimated faster.")
    ] = False
    overlap: Annotated[
        bool, Option("The core works while the NPU does; the C runs in steps: NAME_start, NAME_step.")
    ] = False

    def keeps(self, name: str, kind: str) -> str | None:
        """Returns the pattern that keeps an op on the CPU, or None. A whole name matches the op in 8 and in 16 bits,
        because a search for tensors of 16 bits tries both."""
        narrow = name.replace("_i16", "_i8")
        words = (name, kind, FORMER_KINDS.get(kind, kind))
        matching = (
            pattern
            for pattern in self.keep_on_cpu
            if any(fnmatch(word, pattern) for word in words) or pattern.replace("_i16", "_i8") == narrow
        )
        return next(matching, None)


@dataclass(frozen=True)
class NpuOptions(Checked):
    """How the NPU's compiler works: Vela for Ethos-U, NXP's converter for NXP's chips."""

    memory_mode: Annotated[
        Optional[str],
        Option("Ethos-U: where weights and tensors lie: Shared_Sram, Sram_Only, … or auto.", "MODE"),
    ] = None
    system_config: Annotated[
        Optional[str], Option("Ethos-U: clock and memories of Vela's estimates, as in vela.ini.", "NAME")
    ] = None
    vela_config: Annotated[
        str | Path | None, Option("Ethos-U: a vela.ini of your own.", "FILE", typed=Optional[Path])
    ] = None
    vela_optimise: Annotated[
        Optional[VelaOptimise], Option("Ethos-U: Vela optimizes speed, or memory (default: Performance).")
    ] = None
    neutron_sdk: Annotated[
        Optional[str],
        Option("NXP: follow the rules of this SDK: 2.2, 3.1, … (default: the installed).", "GENERATION"),
    ] = None
    neutron_prefetch: Annotated[
        bool, Option("NXP: fetch weights from external memory to SRAM during the run.")
    ] = False
    neutron_profile: Annotated[bool, Option("NXP: code that records the time of each kernel.")] = False

    def with_defaults(self, defaults: NpuOptions) -> NpuOptions:
        """Returns these options, completed by a chip's; none are added if the user's own vela.ini has other names."""
        if self.vela_config is not None:
            return self
        return replace(defaults, **self._asked)

    @property
    def _asked(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if value not in (None, False)}

    @property
    def flags(self) -> dict[str, str]:
        """The options that the user set, as on the command line, by field."""
        return {
            name: f"--{name.replace('_', '-')}" + ("" if value is True else f" {value}")
            for name, value in self._asked.items()
        }


@dataclass(frozen=True)
class Memory(Checked):
    """A bound on the RAM of the C, or the instructions that less RAM may cost. With neither, few instructions are
    spent if they save much."""

    max_ram: Annotated[
        int | str | None, Option("RAM limit of the C: 256K. Large tensors are then computed by rows.", "SIZE")
    ] = None
    max_flash: Annotated[
        int | str | None,
        Option("Limit of code and constants: 1M. Layers then get weights of 4 bits.", "SIZE"),
    ] = None
    extra: Annotated[
        float | str | None,
        Option("Extra instructions allowed for less RAM (default: 1% if it saves much).", "PERCENT"),
    ] = None
    rows_in: Annotated[
        bool | str, Option("Feed the largest input row by row, as a camera does, without a buffer.")
    ] = False
    rows_of: Annotated[Optional[str], Option("As --rows-in, for the input of this name.", "INPUT")] = None
    chip: Annotated[
        str | Sequence[str | ChipMemory] | None,
        Option(
            "A memory of the chip: sram=512K, psram=8M,slow=20. May be repeated.",
            "NAME=SIZE",
            "chip_memories",
            "--memory",
            Optional[list[str]],
        ),
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.chips and (self.max_ram is not None or self.extra is not None):
            raise PillionError(
                "two bounds for the memory",
                rule="--memory names the sizes of all memories, and the fastest plan that fits is chosen",
                here="--memory with --max-ram" if self.max_ram is not None else "--memory with --extra",
                help="leave one of them out",
            )
        if self.max_ram is not None and self.extra is not None:
            raise PillionError(
                "two bounds for the memory",
                rule="--max-ram finds the least extra work for some memory, --extra the least memory for some extra work",
                here=f"--max-ram {self.max_ram} --extra {self.extra}",
                help="give one of them",
            )
        _ = self.limit, self.share, self.flash_limit

    @property
    def limit(self) -> int | None:
        """The maximum RAM in bytes; the cheapest plan that fits is chosen."""
        return None if self.max_ram is None else parse_bytes(self.max_ram)

    @property
    def flash_limit(self) -> int | None:
        """The maximum of code and constants in bytes; as few layers as possible get weights of 4 bits for it."""
        return None if self.max_flash is None else parse_bytes(self.max_flash, "--max-flash ")

    @property
    def share(self) -> float | None:
        """The share of instructions that may be added; the smallest plan within it is chosen."""
        return None if self.extra is None else parse_share(self.extra)

    @property
    def chips(self) -> tuple[ChipMemory, ...]:
        """The memories of the chip that the user described."""
        return parse_memories(self.chip)

    @property
    def by_rows(self) -> bool | str:
        """Whether an input is delivered row by row and never lies in the arena as a whole; or its name."""
        return self.rows_of or self.rows_in

    @property
    def is_default(self) -> bool:
        """Whether the user asked for nothing."""
        return self == Memory()


@dataclass(frozen=True)
class Stream(Checked):
    """Inputs by name with their time axis (none: whole windows), and the new frames per call."""

    axes: Annotated[
        Streamed,
        Option(
            "Feed an input frame by frame along its time axis: x:2.",
            "INPUT:AXIS",
            "stream",
            typed=Optional[list[str]],
        ),
    ] = ()
    hop: Annotated[
        Optional[int],
        Option(
            "With --stream: new frames per run, a multiple of all strides (default: 1).",
            "FRAMES",
            typed=Optional[int],
        ),
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        inputs = self.inputs
        if self.hop is not None and not inputs:
            raise PillionError(
                "frames of no stream",
                rule="--hop goes with --stream: the new frames of each call",
                here=f"--hop {self.hop}",
                help="--stream INPUT:AXIS --hop 1, or leave --hop out",
            )
        _ = self.frames

    @property
    def inputs(self) -> tuple[tuple[str, int], ...]:
        """The streamed inputs, each with its time axis."""
        return parse_streams(self.axes)

    @property
    def frames(self) -> int:
        """The new frames per call."""
        return parse_hop(self.hop)


@dataclass(frozen=True)
class CompileOptions(Checked):
    """All options of `compile` but the model and the target."""

    loading: Loading = Loading()
    quantize: Quantization = Quantization()
    io: Io = Io()
    arithmetic: Annotated[
        Optional[ArithmeticName],
        Option("Arithmetic to reproduce bit for bit (default: the source framework's)."),
    ] = None
    optimize: Annotated[Optimize, Option("Fast kernels, or few and small ones.")] = "speed"
    name: Annotated[
        Optional[str], Option("Name of the program, as in NAME_run in C (default: the model's).", "NAME")
    ] = None
    placement: PlacementOptions = PlacementOptions()
    npu: NpuOptions = NpuOptions()
    memory: Memory = Memory()
    stream: Stream = Stream()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.placement.overlap and self.memory.by_rows:
            raise PillionError(
                "two ways to run in parts",
                rule="--overlap returns to the caller where it waits for the NPU, --rows-in where it waits for rows",
                here="--overlap and --rows-in",
                help="leave one of them out",
            )
        if self.stream.inputs and self.memory.by_rows:
            raise PillionError(
                "rows of an input that comes by frames",
                rule="--rows-in hands over one window row by row, --stream the new frames of a window that moves",
                here="--rows-in and --stream",
                help="leave one of them out",
            )

    @property
    def is_nhwc(self) -> bool:
        """Whether image inputs and outputs are channels-last."""
        return (self.io.layout or ("nhwc" if self.memory.by_rows else "nchw")) == "nhwc"

    @property
    def has_int16_samples(self) -> bool:
        """Whether signals enter in 16 bits: as inputs, or rounded from floats for tensors of 16 bits."""
        has_int16 = self.quantize.is_mixed or "*" in self.quantize.int16_patterns
        return self.io.dtype == "int16" or (self.io.dtype == "float32" and has_int16)

    @property
    def memory_budget(self) -> Memory | tuple[()]:
        """The memory options, without the default search for stripes if they gain little (streams) or cost code
        (size)."""
        is_default_useless, ram = (
            self.stream.inputs or self.optimize == "size",
            replace(self.memory, max_flash=None),
        )
        return () if is_default_useless and ram.is_default else ram

    def with_keywords(self, keywords: Mapping[str, Any]) -> CompileOptions:
        """Returns the options changed by keywords: fields of all records under one name each, as sweeps and the
        command line spell them, and `tuning`."""
        changes: dict[str, dict[str, Any]] = {}
        for name, value in keywords.items():
            if name == "tuning":
                tuning = Quantization() if value is None else value
                require_record(name, tuning, Quantization)
                changes.setdefault("quantize", {}).update(tuning.tuning)
            elif name in KEYWORDS:
                KEYWORDS[name].check(name, value)
                changes.setdefault(KEYWORDS[name].record, {})[KEYWORDS[name].field] = value
            else:
                raise TypeError(f"compile() got an unexpected keyword argument {name!r}")
        own = changes.pop("", {})
        return replace(self, **{r: replace(getattr(self, r), **new) for r, new in changes.items()}, **own)


KEYWORDS: Mapping[str, OptionField] = {one.keyword: one for one in option_fields(CompileOptions)}
"""All options of `compile` by keyword."""
DEFAULT_OPTIONS = CompileOptions()
"""The defaults of all options."""
