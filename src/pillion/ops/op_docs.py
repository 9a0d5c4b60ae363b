# SPDX-License-Identifier: Apache-2.0
"""The table of ops for the docs, from their docstrings."""

from __future__ import annotations

import inspect

from pillion.ops import listed_ops


def docstring_summary(cls: type) -> str:
    """Returns the first sentence of a docstring."""
    text = " ".join((inspect.getdoc(cls) or "").split("\n\n")[0].split())
    return text


def describe_ops() -> list[dict[str, str]]:
    """Returns the table of all ops for the reference docs."""
    return [
        {"op": op.kind, "summary": docstring_summary(op), "quantization": op.quantization.value}
        for op in listed_ops()
    ]
