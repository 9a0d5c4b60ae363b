# SPDX-License-Identifier: Apache-2.0
"""Runs Vela in a child process, which may crash or hang and is reused for the next segment."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import sys
import tempfile
from functools import lru_cache
from pathlib import Path

from pillion.devices.ethos_u.vela import compiled
from pillion.devices.ethos_u.vela.compiled import CompiledSegment
from pillion.devices.ethos_u.vela.vela_settings import VelaSettings
from pillion.devices.payloads import ConverterError
from pillion.errors import PillionError
from pillion.host_io.child_process import Child, ChildEnded, ChildTimeoutError, restarting_process

PACKAGE = "ethos-u-vela"
TIMEOUT_SECONDS = 600.0
TAIL_LINES = 20
"""The number of lines of Vela's output in an error."""
WORKER = Path(__file__).with_name("vela_worker.py")
ANSWER_BYTES = 5
"""An exit code in four characters, and the end of its line."""
_NAME = "segment"


class VelaError(PillionError):
    """Vela failed to compile a segment."""


def is_vela_installed() -> bool:
    """Whether Vela is installed. It is not imported."""
    try:
        return importlib.util.find_spec("ethosu.vela") is not None
    except ModuleNotFoundError:
        return False


@lru_cache(maxsize=1)
def vela_version() -> str:
    """Returns the version of the installed Vela."""
    return importlib.metadata.version(PACKAGE)


def compile_segment(
    tflite: bytes, settings: VelaSettings, timeout: float = TIMEOUT_SECONDS
) -> CompiledSegment:
    """Returns the compiled segment; raises if Vela fails, for example on an unsupported op."""
    with tempfile.TemporaryDirectory(prefix="pillion-vela-") as folder_name:
        folder = Path(folder_name)
        model = folder / f"{_NAME}.tflite"
        model.write_bytes(tflite)
        arguments = [str(model), "--output-dir", folder_name, "--output-format", "raw", *settings.arguments]
        code = _run_vela(folder, arguments, timeout)
        if code:
            raise _vela_error(folder, settings, f"exit code {code}")
        return compiled.read_vela_output(folder, _NAME, vela_version())


def _run_vela(folder: Path, arguments: list[str], timeout: float) -> int:
    child = _loaded_vela()
    try:
        child.send(json.dumps({"folder": str(folder), "arguments": arguments}).encode() + b"\n", timeout)
        return int(child.receive(ANSWER_BYTES, timeout))
    except (ChildEnded, ChildTimeoutError, ValueError) as error:
        child.close()
        how = f"no answer within {timeout:g} seconds" if isinstance(error, ChildTimeoutError) else str(error)
        raise _vela_error(folder, None, how) from None


def _start_vela() -> Child:
    """Starts a process that has loaded Vela. Raises a `ConverterError` if it cannot: that is no fault of any op."""
    child = Child([sys.executable, "-I", str(WORKER)])
    try:
        child.receive(ANSWER_BYTES, TIMEOUT_SECONDS)
    except (ChildEnded, ChildTimeoutError) as error:
        child.close()
        raise ConverterError(
            "Vela is installed, but does not start",
            rule=f"`{sys.executable} -c 'import ethosu.vela.vela'` ends without an error",
            here=str(error) or f"no answer within {TIMEOUT_SECONDS:g} seconds",
            help=f"pip install --force-reinstall {PACKAGE}; --target cortex-m55+int8 compiles for the core alone",
        ) from None
    return child


_loaded_vela = restarting_process(_start_vela)


def _vela_error(folder: Path, settings: VelaSettings | None, how: str) -> VelaError:
    log = folder / "output.txt"
    tail = log.read_text("utf-8", "replace").splitlines()[-TAIL_LINES:] if log.is_file() else []
    chip = f" for {settings.accelerator.name}" if settings else ""
    return VelaError(
        f"Vela did not compile a segment{chip}",
        rule="it ends with exit code 0 and leaves a command stream",
        here="\n".join([how, *(line for line in tail if line.strip())]),
        help="`--intermediates` keeps the segment's file; --keep-on-cpu keeps ops away from the NPU",
    )
