# SPDX-License-Identifier: Apache-2.0
"""The portable kernels of LSTM steps and SVDF filters."""

from __future__ import annotations

import numpy as np

from pillion.emitters.c.kernel import Kernel, Params
from pillion.emitters.c.kernel_library import PORTABLE
from pillion.ir import numerics
from pillion.ir.numerics import INT16_MAX, Multipliers
from pillion.ir.op import Op
from pillion.ir.types import DType
from pillion.ir.verdict import Verdict
from pillion.ops.lstm import FRACTION_BITS, LstmCell, LstmGates, LstmOutput
from pillion.ops.svdf import SvdfMemory, SvdfOutput


def gate_params(op: LstmGates) -> Params:
    """Returns weights, biases and multipliers of the gates as parameters, with zero points folded into the biases."""
    weights, recurrent = op.input_weights.constant, op.recurrent_weights.constant
    bias = op.bias.constant.astype(np.int64) - op.x.zero_point * numerics.row_sums(weights)
    multiplier, shift = numerics.mantissas_and_shifts(op.input_multipliers, op.gates)
    recurrent_multiplier, recurrent_shift = numerics.mantissas_and_shifts(op.recurrent_multipliers, op.gates)
    return {
        **{"inputs": op.x.shape[1], "outputs": op.h.shape[1]},
        **{"weights": weights, "recurrent": recurrent, "bias": bias.astype(np.int32)},
        "recurrent_bias": (-op.h.zero_point * numerics.row_sums(recurrent)).astype(np.int32),
        **{"multiplier": multiplier, "shift": shift},
        **{"recurrent_multiplier": recurrent_multiplier, "recurrent_shift": recurrent_shift},
    }


def gate_multipliers(op: LstmGates, multipliers: Multipliers) -> Multipliers:
    """Returns one multiplier for each gate, repeating shared ones."""
    return tuple(multipliers[gate % len(multipliers)] for gate in range(op.gates))


def cell_bounds(op: LstmCell) -> Params:
    """Returns the shift and the bounds of the cell state as parameters."""
    low, high = (-op.clip, op.clip) if op.clip else (-INT16_MAX - 1, INT16_MAX)
    return {"places": 2 * FRACTION_BITS + op.cell_exponent, "low": low, "high": high}


def output_scale(op: LstmOutput) -> Params:
    """Returns the integer bits of the cell state as parameters."""
    return {"integer_bits": FRACTION_BITS + op.cell_exponent}


def filter_params(op: SvdfMemory) -> Params:
    """Returns sizes, weights and scale of the filters as parameters, with the zero point folded into the biases."""
    weights = op.weights.constant
    return {
        "inputs": op.x.shape[1],
        "weights": weights,
        "bias": (-op.x.zero_point * numerics.row_sums(weights)).astype(np.int32),
    }


def svdf_output_params(op: SvdfOutput) -> Params:
    """Returns the parameters of the weighted filters' memory."""
    return {
        "batch": op.memory.shape[0],
        "remembered": op.memory.shape[1] // op.units,
        **{"weights": op.weights.constant, "bias": op.bias.constant},
    }


def state_types(op: Op) -> tuple[Verdict, ...]:
    """Checks whether cell state and filter memory are int16, and all other computed values int8."""
    wide_states = (
        {op.c}
        if isinstance(op, LstmGates)
        else {op.memory}
        if isinstance(op, (SvdfMemory, SvdfOutput))
        else set()
    )
    wide = {*wide_states, *(op.results if isinstance(op, (LstmCell, SvdfMemory)) else ())}
    return tuple(
        Verdict(v.name, v.dtype is expected, expected.value, v.dtype.value)
        for v in dict.fromkeys((*op.activations, *op.results))
        for expected in (DType.INT16 if v in wide else DType.INT8,)
    )


KERNELS: tuple[Kernel, ...] = (
    PORTABLE.kernel(SvdfMemory, "svdf_memory_s16", filter_params, requires=(state_types,), in_place="memory"),
    PORTABLE.kernel(SvdfOutput, "svdf_output_s8", svdf_output_params, requires=(state_types,)),
    PORTABLE.kernel(
        LstmCell,
        "lstm_cell_s16",
        lambda op: {**gate_params(op), **cell_bounds(op)},
        requires=(state_types,),
        in_place="c",
    ),
    PORTABLE.kernel(
        LstmOutput,
        "lstm_output_s8",
        lambda op: {**gate_params(op), **output_scale(op)},
        requires=(state_types,),
    ),
)
