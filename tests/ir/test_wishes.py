# SPDX-License-Identifier: Apache-2.0
"""What devices ask of quantization, together."""

from __future__ import annotations

import dataclasses

import pytest

from pillion.ir.wishes import Wishes

FIELDS = [
    field.name
    for field in dataclasses.fields(Wishes)
    if field.compare and isinstance(getattr(Wishes(), field.name), frozenset)
]


@pytest.mark.parametrize("field", FIELDS)
def test_wishes_together_are_all_that_either_has(field: str) -> None:
    one, other = Wishes(**{field: frozenset({"a", "b"})}), Wishes(**{field: frozenset({"b", "c"})})
    assert one | other == Wishes(**{field: frozenset({"a", "b", "c"})})
    assert one | Wishes() == Wishes() | one == one


def test_who_has_names_for_functions_keeps_them() -> None:
    one = Wishes(functions_by_name=True)
    assert (one | Wishes()).functions_by_name
    assert (Wishes() | one).functions_by_name
    assert not (Wishes() | Wishes()).functions_by_name


def test_targets_together_are_both_named() -> None:
    one, other = Wishes(target="a"), Wishes(target="b")
    assert ((one | other).target, (one | one).target, (one | Wishes()).target) == ("a and b", "a", "a")
