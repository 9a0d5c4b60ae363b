# SPDX-License-Identifier: Apache-2.0
"""The Helium kernels of LSTM steps and SVDF filters."""

from __future__ import annotations

import numpy as np

from pillion.emitters.c.accumulators import Int8Array, Int32Array
from pillion.emitters.c.kernel import Kernel, Params
from pillion.emitters.c.kernel_conditions import all_of, short_circuit
from pillion.emitters.c.kernel_library import MVE
from pillion.emitters.c.mve.elementwise import OVERREAD_BYTES, no_left_shift, sign_correction
from pillion.emitters.c.mve.pack import EVEN, ODD, as_words, chunks
from pillion.emitters.c.portable import recurrent as portable
from pillion.ir.numerics import Multipliers
from pillion.ir.types import Array
from pillion.ir.verdict import Verdict
from pillion.ops.lstm import LstmCell, LstmGates, LstmOutput
from pillion.ops.svdf import SvdfMemory

ROWS = 8
"""Rows of weights that are summed together."""


def groups_of_eight(rows: int) -> int:
    """Returns the number of groups of eight rows."""
    return -(-rows // ROWS)


def pack(weights: Int8Array, bias: Int32Array, gates: int = 1) -> Int32Array:
    """Packs the rows of each gate in groups of eight: biases, then weights in chunks of 16 inputs, even rows
    first."""
    rows, inputs = weights.shape[0] // gates, weights.shape[1]
    missing = ROWS * groups_of_eight(rows) - rows
    padded = np.pad(weights.reshape(gates, rows, inputs), ((0, 0), (0, missing), (0, -inputs % 16)))
    biases = np.pad(bias.reshape(gates, rows), ((0, 0), (0, missing)))
    return np.concatenate(
        [_group(w, b) for w, b in zip(_split_into_eights(padded), _split_into_eights(biases), strict=True)]
    )


def _split_into_eights(rows: Array) -> Array:
    return rows.reshape(-1, ROWS, *rows.shape[2:])


def _group(weights: Int8Array, bias: Int32Array) -> Int32Array:
    order = [*EVEN, *ODD]
    pieces = weights[order].reshape(ROWS, -1, 16).swapaxes(0, 1)
    return np.concatenate([bias[order], as_words(pieces)])


def scalings(multipliers: Multipliers) -> Int32Array:
    """Returns multiplier, right shift, sign correction and left shift of each gate."""
    numbers = [(m.mantissa, min(m.shift, 0), sign_correction(m.shift), max(m.shift, 0)) for m in multipliers]
    return np.array(numbers, np.int32).reshape(-1)


def gate_params(op: LstmGates) -> Params:
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
        **{name: plain[name] for name in ("inputs", "outputs")},
        "groups": groups_of_eight(op.cells),
        **{"chunks": chunks(op.x.shape[1]), "recurrent_chunks": chunks(op.h.shape[1])},
        **packed,
        "scalings": scalings((*inputs, *outputs)),
    }


def memory_params(op: SvdfMemory) -> Params:
    """Returns weights, biases and multipliers of the filters as parameters."""
    plain = portable.filter_params(op)
    return {
        **{"inputs": plain["inputs"], "groups": groups_of_eight(op.filters), "chunks": chunks(op.x.shape[1])},
        "constants": pack(np.asarray(plain["weights"]), np.asarray(plain["bias"])),
        "scalings": scalings((op.multiplier,)),
    }


def some_inputs(op: LstmGates | SvdfMemory) -> Verdict:
    """Checks whether there are inputs."""
    few = min(v.shape[1] for v in ((op.x, op.h) if isinstance(op, LstmGates) else (op.x,)))
    return Verdict("inputs", few > 0, "one at least", str(few))


WITH_INPUTS = all_of(portable.state_types, some_inputs)


def scratch_bytes(op: LstmGates) -> int:
    """Returns the scratch bytes: the sums of all gates."""
    return 2 * ROWS * groups_of_eight(op.cells) * op.gates


KERNELS: tuple[Kernel, ...] = (
    MVE.kernel(
        LstmCell,
        "lstm_cell_s16",
        lambda op: {**gate_params(op), **portable.cell_bounds(op)},
        requires=(WITH_INPUTS,),
        scratch_bytes=scratch_bytes,
        in_place="c",
        overread_bytes=OVERREAD_BYTES,
        also=("gates",),
    ),
    MVE.kernel(
        LstmOutput,
        "lstm_output_s8",
        lambda op: {**gate_params(op), **portable.output_scale(op)},
        requires=(short_circuit(WITH_INPUTS, lambda op: no_left_shift(op.multiplier.shift)),),
        scratch_bytes=scratch_bytes,
        overread_bytes=OVERREAD_BYTES,
        also=("gates",),
    ),
    MVE.kernel(
        SvdfMemory,
        "svdf_memory_s16",
        memory_params,
        requires=(WITH_INPUTS,),
        scratch_bytes=lambda op: 2 * ROWS * groups_of_eight(op.filters),
        in_place="memory",
        overread_bytes=OVERREAD_BYTES,
        also=("gates",),
    ),
)
