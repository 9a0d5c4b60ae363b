# SPDX-License-Identifier: Apache-2.0
"""The facts of a report as plain data: the page renders them, `--json` prints them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from pillion.ops import ALL_OPS, Dequantize
from pillion.ops.movement import Movement

COPIES = frozenset(op.kind for op in ALL_OPS if issubclass(op, (Movement, Dequantize)))
"""Kinds of ops whose results are their operands, moved or as real numbers."""

LONGEST_NAME = 60
"""Longest name shown; tooltips have all of it."""


def shorten_name(name: str) -> str:
    """Shortens a name. Of names that TensorFlow joins by `;`, the first is the result's; the end of a name is
    kept."""
    first = name.partition(";")[0] or name
    return first if len(first) <= LONGEST_NAME else "…" + first[1 - LONGEST_NAME :]


@dataclass(frozen=True)
class TimeFacts:
    """The estimated time of a run at a clock, as a range."""

    clock: str
    low_ms: float
    high_ms: float
    basis: str
    left_out: str

    @property
    def milliseconds(self) -> str:
        """The range as text."""
        return f"{_three_digits(self.low_ms)}–{_three_digits(self.high_ms)} ms"

    @property
    def rate(self) -> str:
        """Runs per second as text."""
        return f"{_three_digits(1e3 / self.high_ms)}–{_three_digits(1e3 / self.low_ms)} per second"


@dataclass(frozen=True)
class TimelineRow:
    """One op on its unit, `npu` or `cpu`; times in estimated cycles from the beginning of a run."""

    unit: str
    op: str
    begin: int
    end: int
    critical: bool


@dataclass(frozen=True)
class OverlapFacts:
    """Core and NPU at once: the gain and the cost as text, and all ops in starting order."""

    summary: str
    timeline: tuple[TimelineRow, ...]


def _three_digits(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{float(f'{number:.3g}'):.5f}".rstrip("0").rstrip(".")


@dataclass(frozen=True)
class TensorFacts:
    """A tensor: name, type and quantization."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    bytes: int
    quantization: str
    """Scale and zero point as text; empty if not quantized."""


@dataclass(frozen=True)
class RuleFacts:
    """The verdict of a rule for one op."""

    rule: str
    ok: bool
    wanted: str
    got: str


@dataclass(frozen=True)
class KernelFacts:
    """The kernel of an op, and rejected kernels with reasons."""

    name: str
    why: str
    passed_over: tuple[str, ...]
    scratch_bytes: int


@dataclass(frozen=True)
class OpFacts:
    """An op: its unit and why, operands and results, costs."""

    number: int
    """Position in execution order, with segments expanded."""
    step: int
    """Step of the program; a segment is one step."""
    name: str
    kind: str
    source: str
    module: str
    """Path of the PyTorch module; empty if unknown."""
    unit: str
    """`npu` or `cpu`."""
    segment: int | None
    because: str
    decided_by: RuleFacts
    rules: tuple[RuleFacts, ...]
    flip: str
    """A change that would move the op to the other unit."""
    kernel: KernelFacts
    attributes: dict[str, str]
    reads: tuple[TensorFacts, ...]
    constants: tuple[TensorFacts, ...]
    makes: tuple[TensorFacts, ...]
    macs: int
    bytes_read: int
    bytes_written: int
    constant_bytes: int
    crossing_bytes: int
    estimated_cycles: int
    """Placement's estimate for the unit, never a measurement."""
    instructions: int | None
    """Instructions on an emulated board; None for NPU ops and if nothing was measured."""

    @property
    def label(self) -> str:
        """The display name: the module's path, or the op's name, shortened."""
        return self.module or shorten_name(self.name)

    @property
    def moved_bytes(self) -> int:
        """Bytes read and written, constants included."""
        return self.bytes_read + self.bytes_written + self.constant_bytes


@dataclass(frozen=True)
class EdgeFacts:
    """A tensor from its producer to one reader. -1 is an input or output of the model."""

    maker: int
    reader: int
    tensor: str
    bytes: int
    is_border: bool
    """Whether the tensor crosses between CPU and NPU."""


@dataclass(frozen=True)
class SegmentFacts:
    """Ops that the NPU runs together, and the tensors across their boundary."""

    number: int
    device: str
    ops: int
    macs: int
    enters: tuple[TensorFacts, ...]
    leaves: tuple[TensorFacts, ...]
    bytes_in: int
    bytes_out: int
    weight_bytes: int
    cost: str
    """The reason for the segment, in placement's words."""


@dataclass(frozen=True)
class ResidentFacts:
    """A resident of the arena: offset, size and live range."""

    name: str
    what: str
    """`input`, `output`, `activation` or `scratch`."""
    offset: int
    bytes: int
    first: int
    last: int
    """Last step of the live range."""
    made_by: int
    """Number of the producing op; -1 for inputs."""


@dataclass(frozen=True)
class PeakFacts:
    """The step with the most live bytes, and its residents."""

    step: int
    op: int
    op_name: str
    bytes: int
    residents: tuple[ResidentFacts, ...]


@dataclass(frozen=True)
class MemoryFacts:
    """A memory of the chip as the program uses it. `start` is its place in the picture of all arenas."""

    name: str
    start: int
    arena_bytes: int
    state_bytes: int
    constant_bytes: int
    """Constants that are copied to it at start."""
    used_bytes: int
    capacity: int
    wait_cycles: float
    """Cycles that the core waits to read 32 bytes of it."""


@dataclass(frozen=True)
class ArenaFacts:
    """The arena over time; several, one above the other, if the program is divided among memories."""

    arena_bytes: int
    activation_bytes: int
    floor_bytes: int
    scratch_bytes: int
    step_names: tuple[str, ...]
    step_ops: tuple[int, ...]
    """Number of the first op of each step."""
    bytes_in_use: tuple[int, ...]
    """Live bytes during each step; shared bytes count once."""
    residents: tuple[ResidentFacts, ...]
    peak: PeakFacts
    next_peak: PeakFacts | None
    """The fullest step that shares no resident with the peak: the bound after removing the peak."""
    advice: tuple[str, ...]
    """Ways to lower the peak."""
    memories: tuple[MemoryFacts, ...] = ()
    """The memories of the chip, if the user named them."""
    wait_cycles: int = 0
    """Estimated cycles per run that the core waits for them."""


@dataclass(frozen=True)
class PartFacts:
    """Bytes of one part: a group of constants, or a function."""

    group: str
    name: str
    bytes: int
    op: int = -1
    """The number of the op that it belongs to, or -1."""


@dataclass(frozen=True)
class MeasuredFacts:
    """Counts from the emulator, or the reason why there are none."""

    board: str
    instructions: int | None
    """Instructions of the ops on the core."""
    stack_bytes: int | None
    code_bytes: int | None
    missing: str
    """The reason why nothing was counted; otherwise empty."""
    flash_bytes: int | None = None
    """Code, tables and constants of the linked firmware."""


@dataclass(frozen=True)
class HistogramFacts:
    """Value counts in bins of equal width over the integers' range; the first and last bins lie beyond it."""

    low: float
    high: float
    integers: tuple[int, ...]
    floats: tuple[int, ...]
    """Counts of the float model; empty without one."""


@dataclass(frozen=True)
class TensorQuality:
    """The effect of quantization on one tensor over all samples."""

    tensor: str
    op: int
    elements: int
    """Number of elements in all samples together."""
    signal_to_noise_db: float | None
    """10 log10 of float power over error power; None without a float model, signal or error."""
    saturated: float | None
    """Fraction of float values outside the integers' range."""
    at_bounds: float
    """Fraction of integers at the lowest or highest value."""
    levels_used: int
    """Number of distinct integers."""
    largest_error: float | None
    histogram: HistogramFacts


@dataclass(frozen=True)
class QualityFacts:
    """Quantization quality by tensor, or the reason why it is unknown."""

    samples: int
    has_floats: bool
    tensors: tuple[TensorQuality, ...]
    without_float: tuple[str, ...]
    """Tensors without a float counterpart, such as parts of a decomposed function."""
    missing: str
    """The reason why there is nothing; otherwise empty."""


@dataclass(frozen=True)
class OriginFacts:
    """The origin of a report: everything needed to reproduce it."""

    command: str
    versions: dict[str, str]
    hashes: dict[str, str]
    """SHA-256 by subject."""


@dataclass(frozen=True)
class StateFacts:
    """A loop-carried value: the tensor that a run reads, and the tensor that replaces it."""

    name: str
    before: TensorFacts
    after: TensorFacts


@dataclass(frozen=True)
class BranchFacts:
    """Ops that run only if a flag has a value, their work, and their share of all estimated cycles."""

    branch: str
    """Its first and its last op."""
    runs_if: str
    ops: int
    macs: int
    cycles_estimate: int
    share: str
    source: str


@dataclass(frozen=True)
class Facts:
    """All facts of a report."""

    model: str
    target: str
    target_summary: str
    core: str
    kernels: str
    npu: str
    """The NPU's name; empty without one."""
    npu_payload: str
    """The form of the NPU's code."""
    optimize: str
    arithmetic: str
    inputs: tuple[TensorFacts, ...]
    outputs: tuple[TensorFacts, ...]
    states: tuple[StateFacts, ...]
    """Values carried between runs."""
    state_bytes: int
    macs: int
    sram_bytes: int
    sram_bytes_of_chip: int | None
    flash_bytes_there: int | None
    """The user's limit, or the chip's flash; None if neither is known."""
    npu_constant_bytes: int
    """NPU weights copied to RAM."""
    npu_flash_bytes: int
    """NPU code and weights in flash."""
    is_memory_exact: bool
    """Whether the NPU's converter reported memory; otherwise RAM and flash are lower bounds."""
    constant_bytes: int
    params_bytes: int
    crossing_bytes: int
    ops: tuple[OpFacts, ...]
    edges: tuple[EdgeFacts, ...]
    segments: tuple[SegmentFacts, ...]
    arena: ArenaFacts
    constants: tuple[PartFacts, ...]
    code: tuple[PartFacts, ...]
    measured: MeasuredFacts
    quality: QualityFacts
    origin: OriginFacts
    time: TimeFacts | None = None
    """Time estimate; None without a clock."""
    overlap: OverlapFacts | None = None
    """The time line of both units; None if they do not work at once."""
    precision: tuple[str, ...] = ()
    """The 16-bit tensors and 4-bit layers that the compiler chose, with their gains and costs."""
    branches: tuple[BranchFacts, ...] = ()

    @property
    def fits(self) -> bool | None:
        """Whether the program fits the chip's RAM; None if the target is a core without known RAM."""
        return None if self.sram_bytes_of_chip is None else self.sram_bytes <= self.sram_bytes_of_chip

    @property
    def flash_bytes(self) -> int:
        """Constants, NPU code and weights, and the core's code if it was linked."""
        if self.measured.flash_bytes is not None and not self.on_npu:
            return self.measured.flash_bytes
        code = 0 if self.on_npu else self.measured.code_bytes or 0
        return self.constant_bytes + self.params_bytes + self.npu_flash_bytes + code

    @property
    def is_flash_exact(self) -> bool:
        """Whether the size of all code is known; otherwise flash is a lower bound."""
        return self.is_memory_exact and not self.on_npu and self.measured.code_bytes is not None

    @property
    def output_ratio(self) -> float | None:
        """The lowest signal-to-noise ratio of an output in dB; None if unknown."""
        names = {t.name for t in self.outputs}
        for op in reversed(self.ops):
            if op.kind in COPIES and op.makes[0].name in names:
                names |= {t.name for t in op.reads}
        ratios = [q.signal_to_noise_db for q in self.quality.tensors if q.tensor in names]
        return min((ratio for ratio in ratios if ratio is not None), default=None)

    def shown(self, name: str) -> str:
        """Returns a tensor's display name: the label of its producer, if it is the result, or its short name."""
        return ", ".join(self._display_labels.get(part) or shorten_name(part) for part in name.split(", "))

    @cached_property
    def _display_labels(self) -> dict[str, str]:
        return {op.name: op.label for op in self.ops}

    @property
    def on_npu(self) -> int:
        """The number of ops on the NPU."""
        return sum(op.unit == "npu" for op in self.ops)

    def as_data(self) -> dict[str, Any]:
        """Returns all facts as plain data."""
        return asdict(self)
