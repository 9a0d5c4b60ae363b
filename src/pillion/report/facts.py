# SPDX-License-Identifier: Apache-2.0
"""What a report says, as plain data: the page shows it, `--json` prints it, and nothing else is on the page."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class TensorFacts:
    """A tensor: what it is called, and what it is."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    bytes: int
    quantization: str
    """Scale and zero point in words; empty where there are none."""


@dataclass(frozen=True)
class RuleFacts:
    """A rule as it was judged for one op."""

    rule: str
    ok: bool
    wanted: str
    got: str


@dataclass(frozen=True)
class KernelFacts:
    """The kernel of an op, and those that were passed over with their reasons."""

    name: str
    why: str
    passed_over: tuple[str, ...]
    scratch_bytes: int


@dataclass(frozen=True)
class OpFacts:
    """An op: who runs it and why, what it reads and makes, what it costs."""

    number: int
    """Its place in running order; segments are unfolded."""
    step: int
    """Its place in the program, where a segment is one step."""
    name: str
    kind: str
    source: str
    unit: str
    """`npu` or `cpu`."""
    segment: int | None
    because: str
    decided_by: RuleFacts
    rules: tuple[RuleFacts, ...]
    flip: str
    """What would move it to the other unit."""
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
    """Of the unit that runs it; an estimate of placement, never a measurement."""
    instructions: int | None
    """Counted on an emulated board; None for ops of the NPU, and where nothing was measured."""

    @property
    def moved_bytes(self) -> int:
        """The bytes that it reads and writes, constants included."""
        return self.bytes_read + self.bytes_written + self.constant_bytes


@dataclass(frozen=True)
class EdgeFacts:
    """A tensor on its way from the op that makes it to one that reads it. -1 stands for an input or output of the model."""

    maker: int
    reader: int
    tensor: str
    bytes: int
    is_border: bool
    """Whether it crosses between CPU and NPU."""


@dataclass(frozen=True)
class SegmentFacts:
    """Ops that the NPU runs together, and what crosses their border."""

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
    """Why it is worth while, in the words of placement."""


@dataclass(frozen=True)
class ResidentFacts:
    """Who lives at some place of the arena for some time."""

    name: str
    what: str
    """`input`, `output`, `activation` or `scratch`."""
    offset: int
    bytes: int
    first: int
    last: int
    """In steps of the program."""
    made_by: int
    """The number of the op; -1 for inputs."""


@dataclass(frozen=True)
class PeakFacts:
    """The step at which most of the arena is in use, and who is there."""

    step: int
    op: int
    op_name: str
    bytes: int
    residents: tuple[ResidentFacts, ...]


@dataclass(frozen=True)
class ArenaFacts:
    """The arena over time."""

    arena_bytes: int
    activation_bytes: int
    floor_bytes: int
    scratch_bytes: int
    step_names: tuple[str, ...]
    step_ops: tuple[int, ...]
    """The number of the first op of each step."""
    bytes_in_use: tuple[int, ...]
    """During each step; bytes that two tensors share count once."""
    residents: tuple[ResidentFacts, ...]
    peak: PeakFacts
    next_peak: PeakFacts | None
    """The highest step that shares no resident with the peak: where it ends when the peak goes away."""
    advice: tuple[str, ...]
    """What would lower the peak."""


@dataclass(frozen=True)
class PartFacts:
    """Bytes of one kind: a group of constants, or a function."""

    group: str
    name: str
    bytes: int
    op: int = -1
    """The op that it belongs to, where it belongs to one."""


@dataclass(frozen=True)
class MeasuredFacts:
    """What was counted in the emulator, or why nothing was."""

    board: str
    instructions: int | None
    """Of the ops that the CPU runs."""
    stack_bytes: int | None
    code_bytes: int | None
    missing: str
    """Why nothing was counted; empty where it was."""


@dataclass(frozen=True)
class HistogramFacts:
    """How often values occur, in bins of equal width over what the integers reach; the first and the last bin are beyond it."""

    low: float
    high: float
    integers: tuple[int, ...]
    floats: tuple[int, ...]
    """Empty where no float model is at hand."""


@dataclass(frozen=True)
class TensorQuality:
    """What quantization does to one tensor, over all samples."""

    tensor: str
    op: int
    elements: int
    """Of all samples together."""
    signal_to_noise_db: float | None
    """10 log10 of the power of the float values over that of the difference; None where there is no float model, no signal or no
    difference."""
    saturated: float | None
    """Part of the float values that lie beyond what the integers reach."""
    at_bounds: float
    """Part of the integers that are the lowest or the highest."""
    levels_used: int
    """How many different integers occur."""
    largest_error: float | None
    histogram: HistogramFacts


@dataclass(frozen=True)
class QualityFacts:
    """The quality of quantization, tensor by tensor, or why it is not known."""

    samples: int
    has_floats: bool
    tensors: tuple[TensorQuality, ...]
    without_float: tuple[str, ...]
    """Tensors that the float model has not, such as halves of a rewritten function."""
    missing: str
    """Why there is nothing; empty where there is."""


@dataclass(frozen=True)
class OriginFacts:
    """Where a report comes from: what it takes to make it again."""

    command: str
    versions: dict[str, str]
    hashes: dict[str, str]
    """SHA-256 by what it is of."""


@dataclass(frozen=True)
class StateFacts:
    """A tensor that lives between runs: what a run reads, and the tensor that it becomes."""

    name: str
    before: TensorFacts
    after: TensorFacts


@dataclass(frozen=True)
class Facts:
    """Everything that a report says of a program."""

    model: str
    target: str
    target_summary: str
    core: str
    kernels: str
    npu: str
    """The name of the NPU; empty where there is none."""
    npu_payload: str
    """What the NPU is handed, in words."""
    optimize: str
    arithmetic: str
    inputs: tuple[TensorFacts, ...]
    outputs: tuple[TensorFacts, ...]
    states: tuple[StateFacts, ...]
    """What lives between runs."""
    state_bytes: int
    macs: int
    sram_bytes: int
    sram_bytes_of_chip: int | None
    npu_constant_bytes: int
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

    @property
    def on_npu(self) -> int:
        """How many ops the NPU runs."""
        return sum(op.unit == "npu" for op in self.ops)

    def as_data(self) -> dict[str, Any]:
        """Gives all of it as plain data."""
        return asdict(self)
