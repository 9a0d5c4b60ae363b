# SPDX-License-Identifier: Apache-2.0
"""The kernels of layers that remember: steps of LSTMs, and filters over time. Their sums are in the words of the processor that they are compiled for."""

from __future__ import annotations

import numpy as np

from pillion.emitters.c.kernel import Call, Kernel, Params, scaling
from pillion.emitters.c.library import PORTABLE
from pillion.ir import numerics
from pillion.ir.numerics import INT16_MAX, Arithmetic, Multipliers
from pillion.ir.op import Op
from pillion.ir.types import DType, Value
from pillion.ir.verdict import Verdict
from pillion.ops.lstm import FRACTION_BITS, Gated, LstmCell, LstmOutput
from pillion.ops.svdf import SvdfMemory, SvdfOutput


def gates(op: Gated) -> Params:
    """Gives weights, biases and multipliers of the gates as parameters. Zero points become part of the biases."""
    weights, recurrent = op.input_weights.constant, op.recurrent_weights.constant
    bias = op.bias.constant.astype(np.int64) - op.x.zero_point * numerics.row_sums(weights)
    multiplier, shift = numerics.mantissas_and_shifts(op.input_multipliers, op.gates)
    recurrent_multiplier, recurrent_shift = numerics.mantissas_and_shifts(op.recurrent_multipliers, op.gates)
    return {
        "batch": op.x.shape[0],
        "inputs": op.x.shape[1],
        "outputs": op.h.shape[1],
        "cells": op.cells,
        "weights": weights,
        "recurrent": recurrent,
        "bias": bias.astype(np.int32),
        "recurrent_bias": (-op.h.zero_point * numerics.row_sums(recurrent)).astype(np.int32),
        "multiplier": multiplier,
        "shift": shift,
        "recurrent_multiplier": recurrent_multiplier,
        "recurrent_shift": recurrent_shift,
    }


def of_each(op: Gated, multipliers: Multipliers) -> Multipliers:
    """Gives one multiplier for each gate, where all may share one."""
    return tuple(multipliers[gate % len(multipliers)] for gate in range(op.gates))


def cell(op: LstmCell, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call that makes the next cell."""
    params: Params = {**gates(op), **cell_bounds(op)}
    return (Call(PORTABLE.routine("lstm_cell_s16"), params, (op.x, op.h, op.c), op.y),)


def cell_bounds(op: LstmCell) -> Params:
    """Gives what makes a cell of two fractions, and the bounds of it, as parameters."""
    low, high = (-op.clip, op.clip) if op.clip else (-INT16_MAX - 1, INT16_MAX)
    return {"places": 2 * FRACTION_BITS + op.cell_exponent, "low": low, "high": high}


def output(op: LstmOutput, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call that makes the answer of a step."""
    params: Params = {**gates(op), **answer(op)}
    return (Call(PORTABLE.routine("lstm_output_s8"), params, (op.x, op.h, op.c), op.y),)


def answer(op: LstmOutput) -> Params:
    """Gives what makes an answer of two fractions as parameters."""
    m = op.multiplier
    return {
        "integer_bits": FRACTION_BITS + op.cell_exponent,
        "out_multiplier": m.mantissa,
        "out_shift": m.shift,
        "out_zp": op.y.zero_point,
    }


def on_the_cell(op: LstmCell) -> tuple[Value, ...]:
    """The new cell may lie where the old one did."""
    return (op.c,)


def memory(op: SvdfMemory, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call by which filters remember an input."""
    return (Call(PORTABLE.routine("svdf_memory_s16"), remembered(op), (op.x, op.memory), op.y),)


def remembered(op: SvdfMemory) -> Params:
    """Gives sizes, weights and scale of filters as parameters. The zero point becomes part of the biases."""
    weights = op.weights.constant
    return {
        "batch": op.x.shape[0],
        "inputs": op.x.shape[1],
        "filters": op.filters,
        "length": op.length,
        **scaling(op.multiplier),
        "weights": weights,
        "bias": (-op.x.zero_point * numerics.row_sums(weights)).astype(np.int32),
    }


def weighed(op: SvdfOutput, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call that weighs what filters remember."""
    params: Params = {
        "batch": op.memory.shape[0],
        "units": op.units,
        "remembered": op.memory.shape[1] // op.units,
        **scaling(op.multiplier),
        "out_zp": op.y.zero_point,
        "weights": op.weights.constant,
        "bias": op.bias.constant,
    }
    return (Call(PORTABLE.routine("svdf_output_s8"), params, (op.memory,), op.y),)


def on_the_memory(op: SvdfMemory) -> tuple[Value, ...]:
    """The new memory may lie where the old one did."""
    return (op.memory,)


def judge(op: Op, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges whether what is remembered has 16 bits, and all else that is computed 8."""
    held = (
        {op.c}
        if isinstance(op, Gated)
        else {op.memory}
        if isinstance(op, (SvdfMemory, SvdfOutput))
        else set()
    )
    wide = {*held, *(op.results if isinstance(op, (LstmCell, SvdfMemory)) else ())}
    return tuple(
        Verdict(v.name, v.dtype is wanted, wanted.value, v.dtype.value)
        for v in dict.fromkeys((*op.activations, *op.results))
        for wanted in (DType.INT16 if v in wide else DType.INT8,)
    )


KERNELS: tuple[Kernel, ...] = (
    PORTABLE.row(SvdfMemory, memory, judge, in_place=on_the_memory),
    PORTABLE.row(SvdfOutput, weighed, judge),
    PORTABLE.row(LstmCell, cell, judge, in_place=on_the_cell),
    PORTABLE.row(LstmOutput, output, judge),
)
