# SPDX-License-Identifier: Apache-2.0
"""What devices ask of quantization, together."""

from __future__ import annotations

import dataclasses

import pytest

from pillion.ir.constraints import QuantizationConstraints

FIELDS = [
    field.name
    for field in dataclasses.fields(QuantizationConstraints)
    if field.compare and isinstance(getattr(QuantizationConstraints(), field.name), frozenset)
]


@pytest.mark.parametrize("field", FIELDS)
def test_wishes_together_are_all_that_either_has(field: str) -> None:
    one, other = (
        QuantizationConstraints(**{field: frozenset({"a", "b"})}),
        QuantizationConstraints(**{field: frozenset({"b", "c"})}),
    )
    assert one | other == QuantizationConstraints(**{field: frozenset({"a", "b", "c"})})
    assert one | QuantizationConstraints() == QuantizationConstraints() | one == one


def test_functions_by_name_survive_a_union() -> None:
    one = QuantizationConstraints(functions_by_name=True)
    assert (one | QuantizationConstraints()).functions_by_name
    assert (QuantizationConstraints() | one).functions_by_name
    assert not (QuantizationConstraints() | QuantizationConstraints()).functions_by_name


def test_targets_together_are_both_named() -> None:
    one, other = QuantizationConstraints(target="a"), QuantizationConstraints(target="b")
    assert ((one | other).target, (one | one).target, (one | QuantizationConstraints()).target) == (
        "a and b",
        "a",
        "a",
    )
