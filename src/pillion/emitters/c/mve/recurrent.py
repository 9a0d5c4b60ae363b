# SPDX-License-Identifier: Apache-2.0
"""The Helium kernels of LSTM steps and SVDF filters."""

from __future__ import annotations

import numpy as np

from pillion.emitters.c.accumulators import Int8Array, Int32Array
from pillion.emitters.c.kernel import Call, Kernel, Params
from pillion.emitters.c.kernel_library import MVE
from pillion.emitters.c.mve.elementwise import OVERREAD_BYTES, no_left_shift, sign_correction
from pillion.emitters.c.mve.pack import EVEN, ODD, as_words, chunks
from pillion.emitters.c.portable import recurrent as portable
from pillion.ir.numerics import Arithmetic, Multipliers
from pillion.ir.types import Array
from pillion.ir.verdict import Verdict, all_ok
from pillion.ops.lstm import Gated, LstmCell, LstmOutput
from pillion.ops.svdf import SvdfMemory

ROWS = 8
"""Rows of weights that are summed together."""
CELL = MVE.routine("lstm_cell_s16", "gates")
OUTPUT = MVE.routine("lstm_output_s8", "gates")
MEMORY = MVE.routine("svdf_memory_s16", "gates")


def groups(rows: int) -> int:
    """Returns the number of groups of eight rows."""
    return -(-rows // ROWS)


def pack(weights: Int8Array, bias: Int32Array, gates: int = 1) -> Int32Array:
    """Packs the rows of each gate in groups of eight: biases, then weights in chunks of 16 inputs, even rows
    first."""
    rows, inputs = weights.shape[0] // gates, weights.shape[1]
    missing = ROWS * groups(rows) - rows
    whole = np.pad(weights.reshape(gates, rows, inputs), ((0, 0), (0, missing), (0, -inputs % 16)))
    biases = np.pad(bias.reshape(gates, rows), ((0, 0), (0, missing)))
    return np.concatenate([_group(w, b) for w, b in zip(_eights(whole), _eights(biases), strict=True)])


def _eights(rows: Array) -> Array:
    return rows.reshape(-1, ROWS, *rows.shape[2:])


def _group(weights: Int8Array, bias: Int32Array) -> Int32Array:
    order = [*EVEN, *ODD]
    pieces = weights[order].reshape(ROWS, -1, 16).swapaxes(0, 1)
    return np.concatenate([bias[order], as_words(pieces)])


def scalings(multipliers: Multipliers) -> Int32Array:
    """Returns multiplier, right shift, sign correction and left shift of each gate."""
    numbers = [(m.mantissa, min(m.shift, 0), sign_correction(m.shift), max(m.shift, 0)) for m in multipliers]
    return np.array(numbers, np.int32).reshape(-1)


def gate_params(op: Gated) -> Params:
    """Returns weights, biases and multipliers of the gates as parameters."""
    plain = portable.gate_params(op)
    inputs, outputs = (
        portable.gate_multipliers(op, m) for m in (op.input_multipliers, op.recurrent_multipliers)
    )
    packed = {
        name: pack(np.asarray(plain[weights]), np.asarray(plain[bias]), op.gates)
        for name, weights, bias in (
            ("constants", "weights", "bias"),
            ("recurrent_constants", "recurrent", "recurrent_bias"),
        )
    }
    return {
        **{name: plain[name] for name in ("batch", "inputs", "outputs", "cells")},
        "groups": groups(op.cells),
        **{"chunks": chunks(op.x.shape[1]), "recurrent_chunks": chunks(op.h.shape[1])},
        **packed,
        "scalings": scalings((*inputs, *outputs)),
    }


def calls_cell(op: LstmCell, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Returns the call that computes the next cell state."""
    return (Call(CELL, {**gate_params(op), **portable.cell_bounds(op)}, (op.x, op.h, op.c), op.y),)


def calls_output(op: LstmOutput, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Returns the call that computes the output of a step."""
    params = {**gate_params(op), **portable.output_scale(op), "out_fix": sign_correction(op.multiplier.shift)}
    return (Call(OUTPUT, params, (op.x, op.h, op.c), op.y),)


def calls_memory(op: SvdfMemory, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Returns the call that pushes an input into the filters' memory."""
    plain = portable.filter_params(op)
    params: Params = {
        **{name: plain[name] for name in ("batch", "inputs", "filters", "length")},
        **{"groups": groups(op.filters), "chunks": chunks(op.x.shape[1])},
        "constants": pack(np.asarray(plain["weights"]), np.asarray(plain["bias"])),
        "scalings": scalings((op.multiplier,)),
    }
    return (Call(MEMORY, params, (op.x, op.memory), op.y),)


def check_gates(op: LstmCell | LstmOutput, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks the element types, whether there are inputs, and whether the output is rescaled by a right shift."""
    few = min(op.x.shape[1], op.h.shape[1])
    known = (*portable.check(op, arithmetic), Verdict("inputs", few > 0, "one at least", str(few)))
    return (
        (*known, no_left_shift(op.multiplier.shift))
        if isinstance(op, LstmOutput) and all_ok(known)
        else known
    )


def check_memory(op: SvdfMemory, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks the element types, and whether there are inputs."""
    inputs = op.x.shape[1]
    return (*portable.check(op, arithmetic), Verdict("inputs", inputs > 0, "one at least", str(inputs)))


def scratch_bytes(op: Gated) -> int:
    """Returns the scratch bytes: the sums of all gates."""
    return 2 * ROWS * groups(op.cells) * op.gates


KERNELS: tuple[Kernel, ...] = (
    MVE.kernel(
        LstmCell,
        calls_cell,
        check_gates,
        scratch_bytes=scratch_bytes,
        in_place=portable.in_place_cell,
        overread_bytes=OVERREAD_BYTES,
    ),
    MVE.kernel(
        LstmOutput, calls_output, check_gates, scratch_bytes=scratch_bytes, overread_bytes=OVERREAD_BYTES
    ),
    MVE.kernel(
        SvdfMemory,
        calls_memory,
        check_memory,
        scratch_bytes=lambda op: 2 * ROWS * groups(op.filters),
        in_place=portable.in_place_memory,
        overread_bytes=OVERREAD_BYTES,
    ),
)
