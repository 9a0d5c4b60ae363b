# SPDX-License-Identifier: Apache-2.0
"""Random stages of TensorFlow Lite Micro's sound features."""

from __future__ import annotations

import numpy as np

from fuzz.attributes import attributes
from fuzz.grow import Grower
from pillion.ir.types import Array, DType, Shape, TensorType, Value, constant_value
from pillion.ops import SignalStage, Stage
from pillion.ops.signal_stages import DEFINITIONS, PIECES

ROWS = (Stage.WINDOW, Stage.RFFT, Stage.IRFFT)
"""The stages on several rows."""


def signal_stage(grower: Grower, cls: type[SignalStage]) -> Value:
    """Of samples, energies or levels of its own, all numbers being possible; shifts are often in their range."""
    choices = grower.choices
    stage, count = attributes(cls, choices, ())["stage"], choices.integer(1, 300)
    row, rng = DEFINITIONS[stage], np.random.default_rng(choices.integer(0, 999))
    options = {name: choices.integer(0, most) for name, most in row.options.items()}
    shape: Shape = (count,)
    if "fft_length" in options:
        points = options["fft_length"] = 2 ** choices.integer(2, 10)
        count = points + 2 if stage is Stage.IRFFT else choices.integer(1, points)
    elif stage is Stage.ENERGY:
        options = {"end_index": choices.integer(0, count), "start_index": 0}
        shape = (2 * count,)
    elif stage is Stage.SQUARE_ROOT:
        shape = (count, 2)
    shape = (choices.integer(1, 3), count) if stage in ROWS else shape
    x = grower.source(Value(grower.name("x"), TensorType(shape, row.operands[0])))
    second: Value | None = None
    if stage in (Stage.SHIFT, Stage.SQUARE_ROOT):
        second = constant_value(grower.name("amount"), np.array(choices.integer(0, 33), np.int32))
    elif len(row.operands) == 2:
        second = grower.source(Value(grower.name("second"), TensorType(shape, row.operands[1])))
    table: Value | None = None
    if row.table is not None:
        table = constant_value(grower.name("table"), _table(stage, count, rng))
    fields = {"second": second, "table": table, "numbers": tuple(options.values())}
    return grower.put(cls, row.result, None, x=x, stage=stage, **fields)


def _table(stage: Stage, count: int, rng: np.random.Generator) -> Array:
    """A table; of filters most are zeros at both ends."""
    if stage is Stage.FILTER_BANK:
        bands = int(rng.integers(1, 40))
        starts, widths = rng.integers(0, count, bands), rng.integers(0, 20, bands)
        places = np.arange(count)[:, None]
        filters = rng.integers(0, 2**16, (count, bands))
        return np.where((places >= starts) & (places < starts + widths), filters, 0).astype(np.int32)
    size = PIECES if stage is Stage.PCAN else count
    return rng.integers(DType.INT16.bounds[0], 2**15, size).astype(np.int16)
