# SPDX-License-Identifier: Apache-2.0
"""Writes bundled programs: inputs and expected outputs with which ExecuTorch's runtime checks itself on a
device."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pillion.emitters.pte.writer import little_endian
from pillion.errors import PillionError
from pillion.ir.types import Array
from pillion.schemas import bundled, pte
from pillion.schemas.flatbuffer import Table, read_root_table, write_flatbuffer

METHOD = "forward"
MOST_BYTES = 64 << 20
"""The limit of the samples: a flatbuffer has 32-bit offsets, and a device has less memory."""


def write_bundle(
    program: bytes, samples: Sequence[Sequence[Array]], expected: Sequence[Sequence[Array]]
) -> bytes:
    """Returns the bundle. Sizes and dim orders come from the program's inputs and outputs."""
    _require_room(samples, expected)
    _, _, size, _, _ = pte.HEADER.unpack_from(program, 8)
    plan = read_root_table(pte.Program, program[:size], pte.IDENTIFIER).execution_plan[0]
    taken = [_tensor_of(plan, number) for number in plan.inputs]
    output_tensors = [_tensor_of(plan, number) for number in plan.outputs]
    cases = [
        bundled.MethodCase(
            [_bundled_value(tensor, x) for tensor, x in zip(taken, sample, strict=True)],
            [_bundled_value(tensor, y) for tensor, y in zip(output_tensors, outputs, strict=True)],
        )
        for sample, outputs in zip(samples, expected, strict=True)
    ]
    suite = bundled.MethodSuite(METHOD, cases)
    program_bytes = np.frombuffer(program, np.uint8)
    return write_flatbuffer(
        bundled.BundledProgram(bundled.VERSION, [suite], program_bytes), bundled.IDENTIFIER
    )


def _require_room(samples: Sequence[Sequence[Array]], expected: Sequence[Sequence[Array]]) -> None:
    total = sum(x.nbytes for arrays in (*samples, *expected) for x in arrays)
    if not samples or total > MOST_BYTES:
        raise PillionError(
            f"a bundle of {len(samples):,} samples takes {total:,} bytes",
            rule=f"one sample or more, {MOST_BYTES:,} bytes at most",
            here=f"{total // max(len(samples), 1):,} bytes for each sample: inputs and outputs",
            help="give fewer samples" if samples else "give one sample or more",
        )


def _tensor_of(plan: pte.ExecutionPlan, number: int) -> pte.Tensor:
    tensor = plan.values[number].val
    assert isinstance(tensor, pte.Tensor), "programs of ours take and give tensors"
    return tensor


def _bundled_value(tensor: pte.Tensor, array: Array) -> bundled.Value:
    """Returns an array's bytes as a tensor in the program's dim order."""
    raw = np.frombuffer(little_endian(array), np.uint8)
    bundled_tensor: Table = bundled.Tensor(tensor.scalar_type, tensor.sizes, raw, tensor.dim_order)
    return bundled.Value(bundled.TENSOR, bundled_tensor)
