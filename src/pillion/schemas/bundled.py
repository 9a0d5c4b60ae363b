# SPDX-License-Identifier: Apache-2.0
"""ExecuTorch's bundled-program format: a program with inputs and expected outputs."""

from __future__ import annotations

from pillion.schemas.flatbuffer import (
    Bytes,
    Table,
    data,
    number_field,
    numbers_field,
    tables_field,
    text_field,
    union_field,
)

IDENTIFIER = b"BP08"
VERSION = 0
PROGRAM_ALIGNMENT = 32
"""Larger than any alignment within a program."""


class Tensor(Table):
    scalar_type: int = number_field(0, "b")
    sizes: list[int] = numbers_field(1, "i")
    data: Bytes | None = data(2)
    dim_order: list[int] = numbers_field(3, "B")


TENSOR = 1
"""The number of the tensor kind among the kinds of values; others are numbers and booleans."""


class Value(Table):
    val_type: int = number_field(0, "B")
    val: Table | None = union_field(1, "val_type", lambda: {TENSOR: Tensor})


class MethodCase(Table):
    """One run: its inputs and expected outputs."""

    inputs: list[Value] = tables_field(0, lambda: Value)
    expected_outputs: list[Value] = tables_field(1, lambda: Value)


class MethodSuite(Table):
    """The runs of one method."""

    method_name: str = text_field(0)
    test_cases: list[MethodCase] = tables_field(1, lambda: MethodCase)


class BundledProgram(Table):
    version: int = number_field(0, "I")
    method_test_suites: list[MethodSuite] = tables_field(1, lambda: MethodSuite)
    program: Bytes | None = data(2, PROGRAM_ALIGNMENT)
