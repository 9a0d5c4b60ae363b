# SPDX-License-Identifier: Apache-2.0
"""Reads the `Signal` operators of TensorFlow Lite Micro: sound features from 16-bit samples, with states."""

from __future__ import annotations

import numpy as np

from pillion.codecs.tflite.read_operator import Reading, ReadOperator
from pillion.importers.tflite.integer_arithmetic import Calculations
from pillion.ir.op import Op
from pillion.ir.types import DType, Value, constant_value
from pillion.ops.compare_select import Compare, Relation
from pillion.ops.indexing import Cast
from pillion.ops.integer_arithmetic import Calculation
from pillion.ops.signal_stages import DEFINITIONS, SignalStage, Stage
from pillion.schemas import flexbuffer
from pillion.schemas.tflite import ElementType

MOST_FILTERS = 2**20
"""The most weights of a filter bank, zeros included."""
MOST_KEPT, MOST_FRAMES = 2**20, 256
"""The most numbers of a state, and the most frames of a run."""
OF_WORDS = (
    *("CAST", "RESHAPE", "SQUEEZE", "EXPAND_DIMS", "SLICE", "STRIDED_SLICE", "CONCATENATION"),
    "CUSTOM Signal",
)
"""The beginnings of the operators that read numbers of 32 bits without a sign."""


def require_no_sign_needed(call: ReadOperator) -> None:
    """Raises if an operator would read a sign where the file has none."""
    types = [call.element_type(v) for v in (*call.inputs, *call.outputs) if v]
    wide = {ElementType.UINT32, ElementType.UINT64}.intersection(types)
    of_64_bits = ElementType.UINT64 in wide and not call.code.startswith("CUSTOM Signal")
    is_real = call.code == "CAST" and ElementType.FLOAT32 in types
    if wide and (of_64_bits or is_real or not call.code.startswith(OF_WORDS)):
        rule = f"uint32 tensors are those of {', '.join(OF_WORDS)}…, casts to float excepted; uint64 ones of Signal… alone"
        raise call.refuse(rule, [v for v in (*call.inputs, *call.outputs) if v], "cast to int32 before it")


def _option(call: ReadOperator, name: str) -> int:
    """Returns an option of the operator; raises unless it is a whole number of 32 bits."""
    number = flexbuffer.read_map_numbers(call.custom).get(name)
    if not isinstance(number, int) or not 0 <= number < 2**31:
        raise call.refuse(f"it says {name}, a whole number of 0 or more", number)
    return int(number)


def _stage(
    call: ReadOperator,
    stage: Stage,
    y: Value,
    x: Value,
    second: Value | None = None,
    table: Value | None = None,
) -> SignalStage:
    """Returns the op of a stage, with the options that it has."""
    numbers = tuple(_option(call, name) for name in DEFINITIONS[stage].options)
    op = SignalStage(x=x, second=second, table=table, y=y, stage=stage, numbers=numbers, source=call.source)
    op.check()
    return op


def stage_reader(stage: Stage, computed: int = 1, has_table: bool = False) -> Reading:
    """Returns the reader of an operator that is one stage, with its computed operands and perhaps a table behind them."""

    def row(call: ReadOperator) -> list[Op]:
        if "fft_length" in DEFINITIONS[stage].options:
            _require_int16(call)
        x, second = call.operand(0), call.operand(1) if computed == 2 else None
        return [_stage(call, stage, call.result, x, second, call.constant(computed) if has_table else None)]

    return row


def _require_int16(call: ReadOperator) -> None:
    kind = flexbuffer.read_map_numbers(call.custom).get("T")
    if kind != ElementType.INT16:
        raise call.refuse("it computes on int16 (T is 7)", f"T is {kind}", "convert it for int16 samples")


def _results(call: ReadOperator) -> tuple[Value, Value]:
    if len(call.outputs) != 2:
        raise call.refuse("there are two results", len(call.outputs))
    return call.outputs[0], call.outputs[1]


def auto_scale(call: ReadOperator) -> list[Op]:
    """Reads samples that are moved left as far as they may, and by how much."""
    (y, amount), x = _results(call), call.operand(0)
    return [_stage(call, Stage.HEADROOM, amount, x), _stage(call, Stage.SHIFT, y, x, amount)]


def filter_bank(call: ReadOperator) -> list[Op]:
    """Reads filters as a matrix: each weight and its complement belong to two neighbouring bands."""
    x, parts = call.operand(0), [call.constant(number) for number in range(1, 6)]
    if any(part.dtype is not DType.INT16 or part.type.rank != 1 for part in parts):
        raise call.refuse("weights, starts and widths are lists of int16", parts)
    weights, unweights, starts, weight_starts, widths = (part.constant.astype(np.int64) for part in parts)
    bands, bins = _option(call, "num_channels"), x.type.elements
    if not len(starts) == len(weight_starts) == len(widths) == bands + 1 or bands * bins > MOST_FILTERS:
        rule = f"there are num_channels + 1 starts and widths, and {MOST_FILTERS} weights at most"
        raise call.refuse(rule, f"num_channels {bands}, {bins} energies, {parts[2:]}")
    filters = np.zeros((bins, bands), np.int64)
    for band, (first, at, width) in enumerate(zip(starts, weight_starts, widths, strict=True)):
        if (
            min(first, at, width) < 0
            or first + width > bins
            or at + width > min(len(weights), len(unweights))
        ):
            raise call.refuse("bands lie within energies and weights", f"{width} at {first}, weights at {at}")
        if band:
            filters[first : first + width, band - 1] += weights[at : at + width]
        if band < bands:
            filters[first : first + width, band] += unweights[at : at + width]
    table = constant_value(call.fresh(f"{call.result.name}/filters"), filters.astype(np.int32))
    return [_stage(call, Stage.FILTER_BANK, call.result, x, table=table)]


def spectral_subtraction(call: ReadOperator) -> list[Op]:
    """Reads the level of each band, which is a state, and the bands less their levels."""
    (y, noise), x = _results(call), call.operand(0)
    if x.shape != (_option(call, "num_channels"),):
        raise call.refuse("there are num_channels bands", repr(x))
    before = _state(call, noise.name, noise)
    return [_stage(call, Stage.NOISE, noise, x, before), _stage(call, Stage.SUBTRACTION, y, x, noise)]


def _state(call: ReadOperator, name: str, after: Value) -> Value:
    """Adds a state that begins with zeros, and returns its value before a run."""
    if after.type.elements > MOST_KEPT:
        raise call.refuse(f"{MOST_KEPT} numbers are kept from run to run at most", repr(after))
    before = after.like(call.fresh(f"{name}/before"))
    call.keep(name, before, after, np.zeros(after.shape, after.dtype.numpy))
    return before


class _Rows(Calculations):
    """The ops of an operator on rows of samples; some samples are kept for the next run."""

    def rows(self, rank: int = 1) -> Value:
        """Returns the operand; raises unless it has rows of int16."""
        x = self.call.operand(0)
        if x.dtype is not DType.INT16 or x.type.rank < rank:
            raise self.call.refuse(f"the operand is int16, with {rank} axes or more", repr(x))
        return x

    def behind_kept(self, x: Value, count: int) -> Value:
        """Returns rows with the `count` last samples of the last run before them, zeros at first."""
        if not count:
            return x
        last, lead = x.type.rank - 1, x.shape[:-1]
        after = x.like(self.call.fresh(f"{x.name}/kept"), shape=(*lead, count))
        before = _state(self.call, self.call.outputs[0].name, after)
        joined = self.concat([before, x], last, "joined")
        self.cut(joined, last, x.shape[-1], count, after)
        return joined

    def saturated_sum(self, a: Value, b: Value) -> Value:
        """Adds a sum of int16 within its range."""
        wide = [self._cast(v, DType.INT32) for v in (a, b)]
        return self._cast(
            self.clamped(self.calculated(Calculation.ADD, *wide), *DType.INT16.bounds), DType.INT16
        )

    def _cast(self, x: Value, to: DType) -> Value:
        return self.add(Cast, to.value, x.shape, x.like("cast", dtype=to), x=x, to=to)


def delay(call: ReadOperator) -> list[Op]:
    """Reads samples that come `delay_length` later."""
    chain = _Rows(call)
    x = chain.rows()
    joined = chain.behind_kept(x, _option(call, "delay_length"))
    chain.slice(joined, (0,) * x.type.rank, x.shape, call.result)
    return chain.ops


def framer(call: ReadOperator) -> list[Op]:
    """Reads overlapping frames, and whether samples fill all of them."""
    chain, (y, valid) = _Rows(call), _results(call)
    x, size, step = chain.rows(), _option(call, "frame_size"), _option(call, "frame_step")
    if not 1 <= step <= size or x.shape[-1] % step or x.shape[-1] // step > MOST_FRAMES:
        rule = f"rows are {MOST_FRAMES} whole steps at most, and a step is no longer than a frame"
        raise call.refuse(rule, f"{x!r}, {size}, {step}")
    count, is_filled = x.shape[-1] // step, bool(_option(call, "prefill"))
    writes = -(-size // step)
    joined = chain.behind_kept(x, size - step if is_filled else (writes - 1) * step)
    last = x.type.rank - 1
    frames = [chain.cut(joined, last, number * step, size) for number in range(count)]
    rows = frames[0] if count == 1 else chain.concat(frames, last, "frames")
    chain.reshape(rows, (*x.shape[:-1], count, size), y)
    runs = 0 if is_filled else -(-(writes - 1) // count)
    return [*chain.ops, *_is_past(call, valid, runs)]


def _is_past(call: ReadOperator, y: Value, runs: int) -> list[Op]:
    """Returns whether a number of runs is over, which a state counts."""
    chain, before = Calculations(call), y.like(call.fresh(f"{y.name}/before"), dtype=DType.INT32)
    after = chain.calculated(Calculation.MINIMUM, chain.calculated(Calculation.ADD, before, 1), runs + 1)
    call.keep(y.name, before, after, np.zeros(y.shape, np.int32))
    chain.add(Compare, y, y.shape, y, a=after, b=chain.numbers(runs), relation=Relation.GREATER)
    return chain.ops


def overlap_add(call: ReadOperator) -> list[Op]:
    """Reads frames that are added where they overlap; sums saturate."""
    _require_int16(call)
    chain, step = _Rows(call), _option(call, "frame_step")
    x = chain.rows(rank=2)
    *lead, count, size = x.shape
    if not 1 <= step <= size or count > MOST_FRAMES:
        rule = f"a run has {MOST_FRAMES} frames at most, and a step is no longer than a frame"
        raise call.refuse(rule, f"{x!r}, {step}")
    last, y, steps, zeros = len(lead), call.result, [], (0,) * len(lead)
    after = x.like(call.fresh(f"{y.name}/kept"), shape=(*lead, size - step))
    rest = _state(call, y.name, after) if step < size else after
    for number in range(count if step < size else 0):
        frame = chain.reshape(chain.cut(x, last, number, 1), (*lead, size))
        padded = chain.pad(rest, (*zeros, 0), (*zeros, step), "padded")
        added = chain.saturated_sum(padded, frame)
        steps.append(chain.cut(added, last, 0, step))
        rest = chain.cut(added, last, step, size - step, after if number == count - 1 else "rest")
    joined = chain.concat(steps, last, "steps") if len(steps) > 1 else steps[0] if steps else x
    chain.reshape(joined, (*lead, count * step), y)
    return chain.ops


ROWS: dict[str, Reading] = {
    "CUSTOM SignalWindow": stage_reader(Stage.WINDOW, has_table=True),
    "CUSTOM SignalFftAutoScale": auto_scale,
    "CUSTOM SignalRfft": stage_reader(Stage.RFFT),
    "CUSTOM SignalIrfft": stage_reader(Stage.IRFFT),
    "CUSTOM SignalEnergy": stage_reader(Stage.ENERGY),
    "CUSTOM SignalFilterBank": filter_bank,
    "CUSTOM SignalFilterBankSquareRoot": stage_reader(Stage.SQUARE_ROOT, computed=2),
    "CUSTOM SignalFilterBankSpectralSubtraction": spectral_subtraction,
    "CUSTOM SignalPCAN": stage_reader(Stage.PCAN, computed=2, has_table=True),
    "CUSTOM SignalFilterBankLog": stage_reader(Stage.LOG),
    "CUSTOM SignalDelay": delay,
    "CUSTOM SignalFramer": framer,
    "CUSTOM SignalOverlapAdd": overlap_add,
}
"""The readers of this file, by operator name."""
