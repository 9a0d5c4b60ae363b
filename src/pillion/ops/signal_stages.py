# SPDX-License-Identifier: Apache-2.0
"""The stages of sound features that TensorFlow Lite Micro's `Signal` operators compute, bit for bit. 32-bit numbers without
a sign are held in int32; those of 64 bits are pairs of words, the lower one first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from math import isqrt
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from pillion.ir.access import WHOLE, Access, identity_access
from pillion.ir.numerics import Arithmetic, Int64Array
from pillion.ir.op import Op, Quantization, op, operand, optional_operand, require_dtype, result
from pillion.ir.types import Array, DType, Shape, TensorType, Value, constant_value
from pillion.ops.example_values import make_op
from pillion.ops.fft16 import inverse_real_fft16, real_fft16, wrap16
from pillion.ops.fixed16 import saturate16

MOST_POINTS = 4096
PIECES = 125
"""Numbers in PCAN's table: two alone, then a polynomial's four for each power of two, the last one without padding."""
SNR_BITS, GAIN_BITS = 12, 6
"""Fraction bits of PCAN's ratio, and of its result."""
LOG2_E = 45426
"""The natural logarithm of 2, in units of 2^-16."""
ALL_ONES = 2**32 - 1


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
        y = self.definition.compute(self, *wide)
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
    is_matrix = filters.type.rank == 2 and op.x.shape == filters.shape[:1] and filters.type.elements > 0
    op.require(is_matrix, "there is a row of filters for each energy", f"{op.x!r}, {filters!r}")
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


def _window(op: SignalStage, x: Int64Array, table: Int64Array) -> Int64Array:
    return saturate16((x * table) >> op.numbers[0])


def _headroom(op: SignalStage, x: Int64Array) -> Int64Array:
    """Returns the zeros above the largest magnitude. That of -32768 wraps to itself: what follows it counts alone, the first
    of it with its sign."""
    largest = 0
    for sample in x.ravel().tolist():
        largest = sample if sample > largest else -sample if -sample > largest else largest
        largest = -(2**15) if largest == 2**15 else largest
    return np.array(15 - largest.bit_length() if largest > 0 else 0)


def _shift(op: SignalStage, x: Int64Array, amount: Int64Array) -> Int64Array:
    return wrap16(np.where(amount < 16, x << np.minimum(amount, 15), 0))


def _rfft(op: SignalStage, x: Int64Array) -> Int64Array:
    rows = x.reshape(-1, x.shape[-1])
    return real_fft16(np.pad(rows, ((0, 0), (0, op.numbers[0] - rows.shape[1]))))


def _irfft(op: SignalStage, x: Int64Array) -> Int64Array:
    return inverse_real_fft16(x.reshape(-1, x.shape[-1]))


def _energy(op: SignalStage, x: Int64Array) -> Int64Array:
    end, start = op.numbers
    places = np.arange(len(x) // 2)
    return np.where((places >= start) & (places < end), x[::2] ** 2 + x[1::2] ** 2, 0)


def _filter_bank(op: SignalStage, x: Int64Array, filters: Int64Array) -> Int64Array:
    sums = np.array([int(np.dot(x, band)) for band in filters.T], np.int64)
    return np.stack([sums & ALL_ONES, sums >> 32], axis=1)


def _square_root(op: SignalStage, x: Int64Array, amount: Int64Array) -> Int64Array:
    """Returns rounded roots; one that would need another bit than a 16-bit or 32-bit root has is rounded down."""
    roots = []
    for low, high in x.tolist():
        number = high << 32 | low
        root = isqrt(number)
        largest = ALL_ONES if high else 0xFFFF
        roots.append(root + (number - root * root > root and root != largest))
    return np.where(amount < 32, np.array(roots, np.int64) >> np.minimum(amount, 31), 0)


def _noise(op: SignalStage, x: Int64Array, before: Int64Array) -> Int64Array:
    """Returns a weighted mean of what was and of what is, of even and odd bands with weights of their own."""
    o, is_odd = op.options, np.arange(x.size).reshape(x.shape) % 2 == 1
    share = np.where(is_odd, o["alternate_smoothing"], o["smoothing"])
    rest = np.where(is_odd, o["alternate_one_minus_smoothing"], o["one_minus_smoothing"])
    scaled = (x << o["smoothing_bits"]) & ALL_ONES
    level = ((scaled * share + before * rest) >> o["spectral_subtraction_bits"]) & ALL_ONES
    return np.minimum(level, scaled) if o["clamping"] else level


def _subtraction(op: SignalStage, x: Int64Array, noise: Int64Array) -> Int64Array:
    o = op.options
    scaled = (x << o["smoothing_bits"]) & ALL_ONES
    floor = ((x * o["min_signal_remaining"]) >> o["spectral_subtraction_bits"]) & ALL_ONES
    return np.maximum((scaled - np.minimum(noise, scaled)) >> o["smoothing_bits"], floor)


def _bits(x: Int64Array) -> Int64Array:
    """Returns the number of bits that integers below 2^32 take."""
    return np.asarray(np.frexp(x.astype(np.float64))[1].astype(np.int64))


def _pcan(op: SignalStage, x: Int64Array, noise: Int64Array, table: Int64Array) -> Int64Array:
    """Multiplies by a function of the noise, a parabola between powers of two, and shrinks the result."""
    bits = np.maximum(_bits(noise), 2)
    at = 4 * bits - 6
    part = np.where(bits < 11, noise << np.maximum(11 - bits, 0), noise >> np.maximum(bits - 11, 0)) & 0x3FF
    curve = (((table[at + 2] * part) >> 5) + (table[at + 1] << 5)) * part
    gain = wrap16(((curve + (1 << 14)) >> 15) + table[at])
    gain = np.where(noise <= 2, table[np.minimum(noise, 2)], gain) & ALL_ONES
    product = x.astype(np.uint64) * gain.astype(np.uint64)
    ratio = (product >> np.uint64(op.numbers[0])).astype(np.int64) & ALL_ONES
    small = (ratio * ratio & ALL_ONES) >> (2 + 2 * SNR_BITS - GAIN_BITS)
    return np.where(ratio < 2 << SNR_BITS, small, (ratio >> (SNR_BITS - GAIN_BITS)) - (1 << GAIN_BITS))


@cache
def log_corrections() -> NDArray[np.int16]:
    """Returns log2(1 + p) - p for p = 0, 1/128, ... 1, in units of 2^-16."""
    parts = np.arange(129) / 128
    return np.floor((np.log2(1 + parts) - parts) * 2.0**16 + 0.5).astype(np.int16)


def _log(op: SignalStage, x: Int64Array) -> Int64Array:
    """Returns natural logarithms; those of 0 and 1 are 0. Between two numbers of the table there are next to no steps: the
    slope is divided by 2^16 and not by 2^9."""
    shift, scale = op.numbers
    scaled = (x << shift) & ALL_ONES
    whole = np.maximum(_bits(scaled) - 1, 0)
    rest = scaled - (1 << whole)
    part = np.where(whole < 16, rest << np.maximum(16 - whole, 0), rest >> np.maximum(whole - 16, 0))
    part = np.where(scaled > 1, part, 0)
    table, at = log_corrections().astype(np.int64), part >> 9
    slope = ((table[at + 1] - table[at]) * (part & 0x1FF)) >> 16
    natural = (((whole << 16) + part + table[at] + slope) * LOG2_E + (1 << 15)) >> 16
    levels = ((natural * scale + (1 << 15)) & ALL_ONES) >> 16
    return np.where(scaled > 1, np.minimum(levels, 2**15 - 1), 0)


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
        Stage.WINDOW: Definition((INT16,), INT16, _window_shape, _window, {"shift": 31}, INT16),
        Stage.HEADROOM: Definition((INT16,), INT32, lambda op: (), _headroom),
        Stage.SHIFT: Definition((INT16, INT32), INT16, _shift_shape, _shift),
        Stage.RFFT: Definition((INT16,), INT16, _fft_shape, _rfft, POINTS),
        Stage.IRFFT: Definition((INT16,), INT16, _fft_shape, _irfft, POINTS),
        Stage.ENERGY: Definition(
            (INT16,), INT32, _energy_shape, _energy, {"end_index": MOST_POINTS, "start_index": MOST_POINTS}
        ),
        Stage.FILTER_BANK: Definition(ONE_OF_32, INT32, _filtered_shape, _filter_bank, table=INT32),
        Stage.SQUARE_ROOT: Definition(TWO_OF_32, INT32, _root_shape, _square_root),
        Stage.NOISE: Definition(
            TWO_OF_32,
            INT32,
            _same_shape,
            _noise,
            {**dict.fromkeys(WEIGHTS, WEIGHT), **SMOOTHING, "clamping": 1},
        ),
        Stage.SUBTRACTION: Definition(
            TWO_OF_32, INT32, _same_shape, _subtraction, {"min_signal_remaining": WEIGHT, **SMOOTHING}
        ),
        Stage.PCAN: Definition(TWO_OF_32, INT32, _pcan_shape, _pcan, {"snr_shift": 31}, INT16),
        Stage.LOG: Definition(
            ONE_OF_32, INT16, _same_shape, _log, {"input_correction_bits": 31, "output_scale": WEIGHT}
        ),
    }
)
"""The row of each stage. 32-bit operands reach `compute` without a sign."""


def _numbers(count: int, low: int, high: int, dtype: type[np.generic]) -> Callable[[], Array]:
    """Returns a function that makes a table of random numbers."""
    return lambda: np.random.default_rng(count).integers(low, high, count, endpoint=True).astype(dtype)


def _bands() -> Array:
    """Returns filters with gaps, one of them empty."""
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
