# SPDX-License-Identifier: Apache-2.0
"""Runs Vela: in a process of its own, which may crash or never end, and which is kept for the next segment."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import sys
import tempfile
from functools import lru_cache
from pathlib import Path

from pillion.devices.ethos_u.vela import compiled
from pillion.devices.ethos_u.vela.compiled import Compiled
from pillion.devices.ethos_u.vela.settings import Settings
from pillion.errors import PillionError
from pillion.outside.child import Child, ChildEnded, ChildLate

PACKAGE = "ethos-u-vela"
TIMEOUT_SECONDS = 600.0
TAIL_LINES = 20
"""How many lines of what Vela printed an error shows."""
_NAME = "segment"
_child: list[Child] = []


class VelaError(PillionError):
    """Vela did not compile a segment."""


def available() -> bool:
    """Whether Vela is installed. It is not imported."""
    try:
        return importlib.util.find_spec("ethosu.vela") is not None
    except ModuleNotFoundError:
        return False


@lru_cache(maxsize=1)
def version() -> str:
    """Gives the version of Vela that is installed."""
    return importlib.metadata.version(PACKAGE)


def compile_segment(tflite: bytes, settings: Settings, timeout: float = TIMEOUT_SECONDS) -> Compiled:
    """Compiles a segment. One with an op that the NPU does not have is refused by Vela, and raises here."""
    with tempfile.TemporaryDirectory(prefix="pillion-vela-") as place:
        folder = Path(place)
        model = folder / f"{_NAME}.tflite"
        model.write_bytes(tflite)
        arguments = [str(model), "--output-dir", place, "--output-format", "raw", *settings.arguments]
        code = _ask(folder, arguments, timeout)
        if code:
            raise _failed(folder, settings, f"exit code {code}")
        return compiled.read(folder, _NAME, version())


def _ask(folder: Path, arguments: list[str], timeout: float) -> int:
    if not _child:
        _child.append(Child([sys.executable, "-I", str(Path(__file__).with_name("worker.py"))]))
    child = _child[0]
    try:
        child.send(json.dumps({"folder": str(folder), "arguments": arguments}).encode() + b"\n", timeout)
        return int(child.receive(5, timeout))
    except (ChildEnded, ChildLate, ValueError) as error:
        child.close()
        _child.clear()
        how = f"no answer within {timeout:g} seconds" if isinstance(error, ChildLate) else str(error)
        raise _failed(folder, None, how) from None


def _failed(folder: Path, settings: Settings | None, how: str) -> VelaError:
    log = folder / "output.txt"
    said = log.read_text("utf-8", "replace").splitlines()[-TAIL_LINES:] if log.is_file() else []
    chip = f" for {settings.accelerator.name}" if settings else ""
    return VelaError(
        f"Vela did not compile a segment{chip}",
        rule="it ends with exit code 0 and leaves a command stream",
        here="\n".join([how, *(line for line in said if line.strip())]),
        help="`--intermediates` keeps the segment's file; --keep-on-cpu keeps ops away from the NPU",
    )
