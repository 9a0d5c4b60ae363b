# SPDX-License-Identifier: Apache-2.0
"""The stages of sound features that TensorFlow Lite Micro's `Signal` operators compute, bit for bit. Unsigned 32-bit
numbers are held in int32, 64-bit numbers in pairs of words, the lower word first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType

import numpy as np

from pillion.ir.access import WHOLE, Access, identity_access
from pillion.ir.numerics import Arithmetic, Int64Array
from pillion.ir.op import Op, Quantization, op, operand, optional_operand, require_dtype, result
from pillion.ir.types import Array, DType, Shape, TensorType, Value, constant_value
from pillion.ops import signal_arithmetic as stages
from pillion.ops.example_values import make_op
from pillion.ops.signal_arithmetic import ALL_ONES

MOST_POINTS = 4096
PIECES = 125
"""Numbers in PCAN's table: two alone, then a polynomial's four for each power of two, the last one without padding."""


class Stage(Enum):
    """A stage; its value names the kernel."""

    WINDOW = "window"
    HEADROOM = "headroom"
    SHIFT = "shift"
    RFFT = "rfft"
    IRFFT = "irfft"
    ENERGY = "energy"
    FILTER_BANK = "filter_bank"
    SQUARE_ROOT = "square_root"
    NOISE = "noise"
    SUBTRACTION = "subtraction"
    PCAN = "pcan"
    LOG = "log"


@op("signal_stage", quantization=Quantization.NONE)
class SignalStage(Op):
    """Computes one stage of TensorFlow Lite Micro's sound features from integers without scales.

    `window` multiplies by the table and shifts right; `headroom` says how far samples may move left, `shift` moves them;
    `rfft` and `irfft` transform 16-bit samples, with zeros behind them, and back; `energy` adds squares of parts;
    `filter_bank` multiplies by the table, `square_root` rounds to a whole number and shifts right; `noise` follows the
    level of each band, `subtraction` takes it off, `pcan` divides by it; `log` gives logarithms. `numbers` are the options
    of the operator."""

    takes_int16 = True
    is_identity = False
    why_whole = "a number of a stage depends on all numbers of its row"

    x: Value = operand()
    second: Value | None = optional_operand()
    table: Value | None = optional_operand()
    y: Value = result()
    stage: Stage = Stage.WINDOW
    numbers: tuple[int, ...] = ()

    @property
    def definition(self) -> Definition:
        """The row of the stage."""
        return DEFINITIONS[self.stage]

    @property
    def options(self) -> Mapping[str, int]:
        """The numbers by their names."""
        return dict(zip(self.definition.options, self.numbers, strict=True))

    def access(self, operand: Value) -> Access:
        if operand is not self.x:
            return WHOLE
        last = operand.type.rank - 1
        is_of_rows = self.stage in (Stage.WINDOW, Stage.RFFT, Stage.IRFFT)
        return identity_access(operand, {last} if is_of_rows else set(range(last + 1)), self.why_whole)

    def infer(self) -> TensorType:
        self.check()
        return TensorType(self.definition.shape(self), self.definition.result)

    def check(self) -> None:
        wanted = self.definition
        if len(self.numbers) != len(wanted.options) or any(
            not 0 <= number <= most
            for number, most in zip(self.numbers, wanted.options.values(), strict=True)
        ):
            ranges = ", ".join(f"{name} 0 to {most}" for name, most in wanted.options.items())
            raise self.refuse(f"options are in their ranges: {ranges or 'there are none'}", self.numbers)
        operands = [self.x] if self.second is None else [self.x, self.second]
        if len(operands) != len(wanted.operands) or (self.table is None) is not (wanted.table is None):
            raise self.refuse(f"{self.stage.value} has its operands", operands)
        for value, dtype in zip(operands, wanted.operands, strict=True):
            require_dtype(self, value, dtype)
        if self.table and not (self.table.is_constant and self.table.dtype is wanted.table):
            raise self.refuse("the table is a constant of its type", repr(self.table))
        if not self.x.shape and self.stage is not Stage.SHIFT:
            raise self.refuse("the operand has an axis", repr(self.x))

    def require(self, holds: bool, rule: str, here: object) -> None:
        """Raises if a condition of the stage does not hold."""
        if not holds:
            raise self.refuse(rule, here)

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        masks = (ALL_ONES if v.dtype is DType.INT32 else -1 for v in self.operands)
        wide = [x.astype(np.int64) & mask for x, mask in zip(operands, masks, strict=True)]
        y = self.definition.compute(self.options, *wide)
        dtype = self.y.dtype.numpy
        return np.asarray(y & ALL_ONES).astype(np.uint32).astype(dtype).reshape(self.y.shape)

    @classmethod
    def examples(cls) -> Iterator[Op]:
        for stage, x_shape, second_shape, table, numbers in _EXAMPLES:
            row = DEFINITIONS[stage]
            second, y = None, Value("y", TensorType((), row.result))
            if second_shape is not None:
                second = Value("second", TensorType(second_shape, row.operands[1]))
            x = Value("x", TensorType(x_shape, row.operands[0]))
            constant = None if table is None else constant_value("table", table())
            yield make_op(cls, y, x=x, second=second, table=constant, stage=stage, numbers=numbers)


@dataclass(frozen=True)
class Definition:
    """The types of a stage, the largest value of each option, its shape rule and its reference."""

    operands: tuple[DType, ...]
    result: DType
    shape: Callable[[SignalStage], Shape]
    compute: Callable[..., Int64Array]
    options: Mapping[str, int] = field(default_factory=dict)
    table: DType | None = None


def _same_shape(op: SignalStage) -> Shape:
    second = op.x if op.second is None else op.second
    op.require(second.shape == op.x.shape, "both operands have one shape", f"{op.x!r}, {second!r}")
    return op.x.shape


def _is_scalar(op: SignalStage) -> bool:
    return op.second is not None and op.second.type.elements == 1


def _window_shape(op: SignalStage) -> Shape:
    count = op.table.shape if op.table is not None else ()
    op.require(count == op.x.shape[-1:], "the window is as long as a frame", f"{op.x!r}, {op.table!r}")
    return op.x.shape


def _shift_shape(op: SignalStage) -> Shape:
    op.require(_is_scalar(op), "the shift is one number", repr(op.second))
    return op.x.shape


def _fft_shape(op: SignalStage) -> Shape:
    (points,) = op.numbers
    op.require(
        points >= 4 and not points & (points - 1), "an FFT has 4 to 4096 points, a power of two", points
    )
    is_back = op.stage is Stage.IRFFT
    count = op.x.shape[-1]
    fits = count == points + 2 if is_back else 1 <= count <= points
    op.require(fits, "rows fit the points of the FFT", f"{op.x!r}, {points} points")
    return (*op.x.shape[:-1], points if is_back else points + 2)


def _energy_shape(op: SignalStage) -> Shape:
    bins = op.x.shape[-1] // 2
    end, start = op.numbers
    is_pairs = op.x.type.rank == 1 and op.x.shape == (2 * bins,)
    op.require(is_pairs and start <= end <= bins, "indices are of pairs", f"{op.x!r}, {op.numbers}")
    return (bins,)


def _filtered_shape(op: SignalStage) -> Shape:
    filters = op.table
    assert filters is not None
    bins, bands = filters.shape if filters.type.rank == 2 else (0, 0)
    is_matrix = 0 < bins < 2**15 and bands > 0 and op.x.shape == (bins,)
    op.require(
        is_matrix, "there is a row of filters for each energy, of 32767 at most", f"{op.x!r}, {filters!r}"
    )
    low, high = int(filters.constant.min()), int(filters.constant.max())
    op.require(low >= 0 and high < 2**16, "filters are 0 to 65535", f"{low} to {high}")
    return (filters.shape[1], 2)


def _root_shape(op: SignalStage) -> Shape:
    is_pairs = op.x.type.rank == 2 and op.x.shape[1] == 2
    op.require(
        is_pairs and _is_scalar(op), "numbers are pairs of words, with one shift", f"{op.x!r}, {op.second!r}"
    )
    return op.x.shape[:1]


def _pcan_shape(op: SignalStage) -> Shape:
    count = op.table.shape if op.table is not None else ()
    op.require(count == (PIECES,), f"the table has {PIECES} numbers", repr(op.table))
    return _same_shape(op)


INT16, INT32 = DType.INT16, DType.INT32
WEIGHT = 2**16 - 1
"""The largest weight of a mean."""
SMOOTHING = {"smoothing_bits": 31, "spectral_subtraction_bits": 31}
WEIGHTS = ("smoothing", "one_minus_smoothing", "alternate_smoothing", "alternate_one_minus_smoothing")
POINTS = {"fft_length": MOST_POINTS}
ONE_OF_32 = (INT32,)
TWO_OF_32 = (INT32, INT32)
DEFINITIONS: Mapping[Stage, Definition] = MappingProxyType(
    {
        Stage.WINDOW: Definition((INT16,), INT16, _window_shape, stages.window, {"shift": 31}, INT16),
        Stage.HEADROOM: Definition((INT16,), INT32, lambda op: (), stages.headroom),
        Stage.SHIFT: Definition((INT16, INT32), INT16, _shift_shape, stages.shift),
        Stage.RFFT: Definition((INT16,), INT16, _fft_shape, stages.rfft, POINTS),
        Stage.IRFFT: Definition((INT16,), INT16, _fft_shape, stages.irfft, POINTS),
        Stage.ENERGY: Definition(
            (INT16,),
            INT32,
            _energy_shape,
            stages.energy,
            {"end_index": MOST_POINTS, "start_index": MOST_POINTS},
        ),
        Stage.FILTER_BANK: Definition(ONE_OF_32, INT32, _filtered_shape, stages.filter_bank, table=INT32),
        Stage.SQUARE_ROOT: Definition(TWO_OF_32, INT32, _root_shape, stages.square_root),
        Stage.NOISE: Definition(
            TWO_OF_32,
            INT32,
            _same_shape,
            stages.noise,
            {**dict.fromkeys(WEIGHTS, WEIGHT), **SMOOTHING, "clamping": 1},
        ),
        Stage.SUBTRACTION: Definition(
            TWO_OF_32, INT32, _same_shape, stages.subtraction, {"min_signal_remaining": WEIGHT, **SMOOTHING}
        ),
        Stage.PCAN: Definition(TWO_OF_32, INT32, _pcan_shape, stages.pcan, {"snr_shift": 31}, INT16),
        Stage.LOG: Definition(
            ONE_OF_32, INT16, _same_shape, stages.log, {"input_correction_bits": 31, "output_scale": WEIGHT}
        ),
    }
)
"""The row of each stage. 32-bit operands reach `compute` without a sign."""


def _numbers(count: int, low: int, high: int, dtype: type[np.generic]) -> Callable[[], Array]:
    """Returns a function that makes a table of random numbers."""
    return lambda: np.random.default_rng(count).integers(low, high, count, endpoint=True).astype(dtype)


def _bands() -> Array:
    """Returns filters with gaps; one filter is empty."""
    filters = np.random.default_rng(5).integers(0, 2**16, (33, 5)).astype(np.int32)
    rows = np.arange(33)[:, None]
    starts, ends = np.array([0, 3, 9, 9, 20]), np.array([4, 9, 9, 33, 21])
    return np.where((rows >= starts) & (rows < ends), filters, 0).astype(np.int32)


_LEVELS = (409, 15975, 983, 15401, 10, 14)
_EXAMPLES: Sequence[tuple[Stage, Shape, Shape | None, Callable[[], Array] | None, tuple[int, ...]]] = (
    (Stage.WINDOW, (2, 3, 31), None, _numbers(31, -(2**15), 2**15 - 1, np.int16), (12,)),
    (Stage.HEADROOM, (37,), None, None, ()),
    (Stage.SHIFT, (37,), (), None, ()),
    (Stage.RFFT, (2, 61), None, None, (64,)),
    (Stage.RFFT, (128,), None, None, (128,)),
    (Stage.RFFT, (1,), None, None, (4,)),
    (Stage.RFFT, (3, 1, 480), None, None, (512,)),
    (Stage.IRFFT, (2, 66), None, None, (64,)),
    (Stage.IRFFT, (130,), None, None, (128,)),
    (Stage.ENERGY, (66,), None, None, (31, 3)),
    (Stage.FILTER_BANK, (33,), None, _bands, ()),
    (Stage.SQUARE_ROOT, (17, 2), (), None, ()),
    (Stage.NOISE, (41,), (41,), None, (*_LEVELS, 0)),
    (Stage.NOISE, (7,), (7,), None, (*_LEVELS, 1)),
    (Stage.SUBTRACTION, (41,), (41,), None, (819, 10, 14)),
    (Stage.PCAN, (41,), (41,), _numbers(PIECES, -(2**15), 2**15 - 1, np.int16), (6,)),
    (Stage.LOG, (41,), None, None, (3, 64)),
    (Stage.LOG, (41,), None, None, (0, 1600)),
)
"""Stage, shapes of both operands, table and options of each example."""
