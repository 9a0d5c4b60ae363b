# SPDX-License-Identifier: Apache-2.0
"""The form of a refusal."""

from __future__ import annotations

import pickle

from pillion.errors import PillionError


def test_four_parts_in_the_order_in_which_they_are_read() -> None:
    error = PillionError(
        "x does not fit", rule="at most 3\nat least 1", here="4 in net.py:7", help="take less"
    )
    assert str(error).splitlines() == [
        "x does not fit",
        "  rule  at most 3",
        "        at least 1",
        "  here  4 in net.py:7",
        "  help  take less",
    ]


def test_errors_survive_pickling() -> None:
    error = pickle.loads(pickle.dumps(PillionError("a", rule="b", here="c", help="d")))
    assert (error.what, error.rule, error.here, error.help) == ("a", "b", "c", "d")
