# SPDX-License-Identifier: Apache-2.0
"""ExecuTorch's bundled-program format: a program with inputs and expected outputs."""

from __future__ import annotations

from pillion.schemas.flatbuffer import Bytes, Table, data, numbers, scalar, tables, text, union

IDENTIFIER = b"BP08"
VERSION = 0
PROGRAM_ALIGNMENT = 32
"""Larger than any alignment within a program."""


class Tensor(Table):
    scalar_type: int = scalar(0, "b")
    sizes: list[int] = numbers(1, "i")
    data: Bytes | None = data(2)
    dim_order: list[int] = numbers(3, "B")


TENSOR = 1
"""The number of a tensor among the kinds of values; the others are numbers and booleans."""


class Value(Table):
    val_type: int = scalar(0, "B")
    val: Table | None = union(1, "val_type", lambda: {TENSOR: Tensor})


class MethodCase(Table):
    """One run: its inputs and expected outputs."""

    inputs: list[Value] = tables(0, lambda: Value)
    expected_outputs: list[Value] = tables(1, lambda: Value)


class MethodSuite(Table):
    """The runs of one method."""

    method_name: str = text(0)
    test_cases: list[MethodCase] = tables(1, lambda: MethodCase)


class BundledProgram(Table):
    version: int = scalar(0, "I")
    method_test_suites: list[MethodSuite] = tables(1, lambda: MethodSuite)
    program: Bytes | None = data(2, PROGRAM_ALIGNMENT)
