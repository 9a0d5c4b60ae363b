# SPDX-License-Identifier: Apache-2.0
"""Reports as the commands write them: with the command line that makes them again, and the hashes of what went in."""

from __future__ import annotations

import sys
from pathlib import Path
from shlex import join
from typing import Any

from pillion.cli import screen
from pillion.cli.request import Request
from pillion.data.sample import Source
from pillion.errors import PillionError
from pillion.outside.files import suffix_of
from pillion.program import Program
from pillion.report.collect import collect
from pillion.report.facts import Facts
from pillion.report.page import want_template_engine, write_page
from pillion.report.subject import Asked

PAGES = (".html", ".htm")


def check_page(path: Path | None) -> None:
    """Raises where a report could not be written in the end, before long work begins."""
    if path is None:
        return
    want_template_engine()
    if suffix_of(path) not in PAGES or path.is_dir():
        raise PillionError(
            f"{path} cannot be written",
            rule="a report is an .html file",
            here="a folder" if path.is_dir() else f"suffix {path.suffix or 'none'}",
            help=str(path / "report.html" if path.is_dir() else path.with_suffix(".html")),
        )


def paged(program: Program, path: Path, request: Request, data: Path | None, *, quiet: bool) -> screen.Facts:
    """Writes the report of a program, and says so."""
    return written(gathered(program, request, data, quiet=quiet), path)


def written(facts: Facts, path: Path) -> screen.Facts:
    """Writes a report, and says where it is and how large."""
    write_page(facts, path)
    return {"report": str(path), "report_bytes": path.stat().st_size}


def gathered(
    program: Program,
    request: Request,
    data: Path | None,
    *,
    opened: Source | None = None,
    samples: int = Asked.samples,
    measure: bool = True,
    quiet: bool = False,
) -> Facts:
    """Gathers the facts of a program, with a bar where samples are many. Data may be opened before, as options say."""
    is_calibration = data == request.how.quantizing.calibrate
    asked: Any = opened or (request.samples if is_calibration else None) or data
    command = join(["pillion", *sys.argv[1:]])
    with screen.stages(quiet, "looking") as (bar, stage):
        return collect(program, Asked(asked, samples, measure, command, _files(request, data), bar, stage))


def _files(request: Request, data: Path | None) -> dict[str, Path]:
    """What went in, where it is a file."""
    model = Path(request.model.partition(".py:")[0] + ".py" if ".py:" in request.model else request.model)
    given: dict[str, Any] = {
        "the model's file": model,
        "weights": request.how.source.weights,
        "calibration data": request.how.quantizing.calibrate,
        "data": None if data == request.how.quantizing.calibrate else data,
    }
    return {what: path for what, path in given.items() if path is not None and path.exists()}
