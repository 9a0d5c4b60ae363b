# SPDX-License-Identifier: Apache-2.0
"""Text of generated files from the files in `templates/`, with named values and optional lines."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from importlib import resources

_VALUE = re.compile(r"@(\w+)@")
_OPTIONAL = re.compile(r"([a-z_,]+)\| ?(.*\n)")
"""A line that exists if one of the named parts does."""


@cache
def _read_template(name: str, package: str) -> str:
    return (resources.files(package) / "templates" / name).read_text("utf-8")


def fill_template(
    name: str, values: Mapping[str, object], parts: Collection[str] = (), package: str = __package__ or ""
) -> str:
    """Returns a template of a package with `@name@` replaced by values, without the lines `part| text` of absent parts."""
    kept = "".join(_kept_lines(_read_template(name, package), parts))
    return _VALUE.sub(lambda match: str(values[match[1]]), kept)


def _kept_lines(text: str, parts: Collection[str]) -> Iterator[str]:
    for line in text.splitlines(keepends=True):
        optional = _OPTIONAL.fullmatch(line)
        if optional is None:
            yield line
        elif any(part in parts for part in optional[1].split(",")):
            yield optional[2]
