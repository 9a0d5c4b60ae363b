# SPDX-License-Identifier: Apache-2.0
"""Writes reports with the command line that reproduces them, and the hashes of their inputs."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from shlex import join
from typing import Any

from pillion.cli import console
from pillion.cli.request import Request
from pillion.data.sample import Source
from pillion.errors import PillionError
from pillion.host_io.atomic_files import suffix_of
from pillion.program import Program
from pillion.report.collect import collect
from pillion.report.image_report import ImageReport
from pillion.report.page import require_template_engine, write_page
from pillion.report.report_facts import Facts
from pillion.report.report_options import ReportOptions

HTML_SUFFIXES = (".html", ".htm")


def check_report_path(path: Path | None) -> None:
    """Raises before long work if the report file could not be written."""
    if path is None:
        return
    require_template_engine()
    if suffix_of(path) not in HTML_SUFFIXES or path.is_dir():
        raise PillionError(
            f"{path} cannot be written",
            rule="a report is an .html file",
            here="a folder" if path.is_dir() else f"suffix {path.suffix or 'none'}",
            help=str(path / "report.html" if path.is_dir() else path.with_suffix(".html")),
        )


def write_report(facts: Facts | ImageReport, path: Path) -> console.Facts:
    """Writes a report, and returns its path and size."""
    write_page(facts, path)
    return {"report": str(path), "report_bytes": path.stat().st_size}


def collect_facts(
    program: Program,
    request: Request,
    data: Path | None,
    asked: ReportOptions,
    *,
    opened: Source | None = None,
    quiet: bool = False,
) -> Facts:
    """Collects a program's facts, with a progress bar for many samples. `opened` is data opened earlier."""
    is_calibration = data == request.options.quantize.calibrate
    source: Any = opened or (request.samples if is_calibration else None) or data
    command = join(["pillion", *sys.argv[1:]])
    with console.progress_bar(quiet):
        return collect(
            program, replace(asked, data=source, command=command, named_files=_input_files(request, data))
        )


def _input_files(request: Request, data: Path | None) -> dict[str, Path]:
    """Returns the input files by purpose."""
    model = Path(request.model.partition(".py:")[0] + ".py" if ".py:" in request.model else request.model)
    paths: dict[str, Any] = {
        "the model's file": model,
        "weights": request.options.loading.weights,
        "calibration data": request.options.quantize.calibrate,
        "data": None if data == request.options.quantize.calibrate else data,
    }
    return {what: path for what, path in paths.items() if path is not None and path.exists()}
