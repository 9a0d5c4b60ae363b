# SPDX-License-Identifier: Apache-2.0
"""Parses TOML."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from pillion.errors import PillionError


def parse_toml(text: str, path: Path, guide: str) -> dict[str, Any]:
    """Parses the text of a TOML file. Raises with the line of a syntax error, and names the page that has an example."""
    toml = _toml_parser()
    try:
        return dict(toml.loads(text))
    except toml.TOMLDecodeError as error:
        raise _toml_error(path, str(error), guide) from None
    except RecursionError:
        raise _toml_error(path, "it is nested too deeply", guide) from None


def _toml_parser() -> Any:
    """Returns the TOML parser of Python 3.11, or its backport."""
    for name in ("tomllib", "tomli"):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError:
            continue
    raise PillionError(
        "there is no reader for TOML files",
        rule="Python 3.11 has one, Python 3.10 needs a package",
        here="neither `tomllib` nor `tomli`",
        help="pip install 'pillion[sweep]'",
    )


def _toml_error(path: Path, reason: str, guide: str) -> PillionError:
    return PillionError(
        f"{path} is not a TOML file",
        rule='TOML: tables in [brackets], key = value, texts in "quotes"',
        here=reason,
        help=f"correct the file at this place; the guide has a whole one ({guide})",
    )
