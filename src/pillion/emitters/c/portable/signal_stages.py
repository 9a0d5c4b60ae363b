# SPDX-License-Identifier: Apache-2.0
"""The kernels of TensorFlow Lite Micro's sound features: one function for each stage."""

from __future__ import annotations

from pillion.emitters.c.families.log_mel import pack_filters
from pillion.emitters.c.kernel import Kernel, Params, Routine
from pillion.emitters.c.kernel_library import PORTABLE
from pillion.emitters.c.params_structs import params_structs
from pillion.ir.types import Value
from pillion.ir.verdict import Verdict
from pillion.ops.fft16 import split_twiddles16, stage_twiddles
from pillion.ops.signal_arithmetic import log_corrections
from pillion.ops.signal_stages import SignalStage, Stage

FFTS = (Stage.RFFT, Stage.IRFFT)


def routine(op: SignalStage) -> Routine:
    """Returns the function of a stage."""
    file = PORTABLE.routine("signal_fft" if op.stage in FFTS else "signal")
    return Routine(f"pillion_signal_{op.stage.value}", file.source, file.header)


def params(op: SignalStage) -> Params:
    """Returns the parameters of a stage: sizes, the options that its kernel knows, and tables."""
    count = op.x.shape[-1] if op.x.shape else 1
    known = {
        **{"count": count, "rows": op.x.type.elements // count, "bands": op.y.shape[0] if op.y.shape else 1},
        **op.options,
    }
    if op.stage is Stage.SHIFT:
        known["count"] = op.x.type.elements
    elif op.stage in (Stage.ENERGY, Stage.SQUARE_ROOT):
        known["count"] = op.y.type.elements
    fields = {field.name for field in params_structs()[routine(op).params_type]}
    return {**{name: number for name, number in known.items() if name in fields}, **_tables(op)}


def _tables(op: SignalStage) -> Params:
    if op.stage in FFTS:
        points = op.numbers[0] // 2
        tables = {"twiddles": stage_twiddles(points), "split": split_twiddles16(points)}
        return {"points": op.numbers[0], **{name: table.ravel() for name, table in tables.items()}}
    if op.stage is Stage.FILTER_BANK and op.table is not None:
        weights, spans = pack_filters(op.table.constant)
        return {"weights": weights, "spans": spans}
    if op.stage is Stage.LOG:
        return {"table": log_corrections()}
    return {} if op.table is None else {"table": op.table.constant}


def arguments(op: SignalStage) -> tuple[Value, ...]:
    """Returns the computed operands of a stage."""
    return (op.x,) if op.second is None else (op.x, op.second)


def has_its_type(op: SignalStage) -> Verdict:
    """Checks whether the operand of a stage has the integers that it reads."""
    (wanted, *_) = op.definition.operands
    return Verdict("x", op.x.dtype is wanted, wanted.value, op.x.dtype.value)


KERNELS: tuple[Kernel, ...] = (
    PORTABLE.kernel(
        SignalStage,
        routine,
        params,
        requires=(has_its_type,),
        operands=arguments,
        scratch_bytes=lambda op: 2 * op.numbers[0] if op.stage is Stage.IRFFT else 0,
    ),
)
