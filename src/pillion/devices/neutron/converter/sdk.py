# SPDX-License-Identifier: Apache-2.0
"""Converts a segment's TFLite to the NPU's code with NXP's SDK. The SDK runs in a child process, because it
may crash or hang, and leaves its results in files."""

from __future__ import annotations

import difflib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pillion.devices.neutron.converter import sdk_worker
from pillion.devices.neutron.converter.extract import boundary_names, extract_payload
from pillion.devices.neutron.converter.payload import DevicePayload
from pillion.devices.payloads import ConverterError
from pillion.errors import PillionError
from pillion.host_io.child_process import describe_exit_code
from pillion.host_io.process_guard import guarded_process

TIMEOUT_SECONDS = 600.0
TAIL_LINES = 20
"""The number of lines of the converter's output in an error."""
LOG = "output.txt"


@dataclass(frozen=True)
class ConvertedSegment:
    """A segment as the NPU runs it."""

    payload: DevicePayload
    kernel_selection: str | None
    """The C source with the kernels that this segment needs, for the firmware."""
    sdk_version: str
    listing: str = ""
    """The converter's output, which lists the kernels of code that records times."""


def run_converter(
    tflite: bytes,
    target: str,
    *,
    prefetch: bool = False,
    profile: bool = False,
    kernel_selection: bool = True,
    timeout: float = TIMEOUT_SECONDS,
) -> ConvertedSegment:
    """Returns the converted segment. `target` is the converter's name for the chip."""
    inputs, outputs = boundary_names(tflite)
    options = {"prefetch": prefetch, "profile": profile, "kernel_selection": kernel_selection}
    with tempfile.TemporaryDirectory(prefix="pillion-neutron-") as name:
        folder = Path(name)
        (folder / sdk_worker.MODEL).write_bytes(tflite)
        result = _run_sdk_worker(folder, {"action": "convert", "target": target, **options}, timeout)
        _require_converted(target, result)
        converted = _required_output_file(folder, sdk_worker.CONVERTED).read_bytes()
        selection = folder / sdk_worker.KERNEL_SELECTION
        source = selection.read_text("utf-8", "replace") if selection.is_file() else None
        listing = (folder / LOG).read_text("utf-8", "replace")
    payload = extract_payload(converted, inputs, outputs)
    return ConvertedSegment(payload, source, result["sdk_version"], listing)


def merge_kernel_selections(sources: Sequence[str], *, timeout: float = TIMEOUT_SECONDS) -> str:
    """Returns one kernel selection for all segments of a program."""
    if len(sources) == 1:
        return sources[0]
    with tempfile.TemporaryDirectory(prefix="pillion-neutron-") as name:
        folder = Path(name)
        files = [f"segment_{number}{sdk_worker.KERNEL_SELECTION}" for number in range(len(sources))]
        for file, source in zip(files, sources, strict=True):
            (folder / file).write_text(source, "utf-8")
        _run_sdk_worker(folder, {"action": "merge", "files": files}, timeout)
        return _required_output_file(folder, sdk_worker.MERGED).read_text("utf-8", "replace")


def _require_converted(target: str, result: Mapping[str, Any]) -> None:
    """Raises if the converter does not know the target or an option."""
    if "known_targets" in result:
        known = result["known_targets"]
        close = difflib.get_close_matches(target, known, n=1)
        raise ConverterError(
            f"NXP's converter has no target `{target}`",
            rule="its targets: " + ", ".join(known),
            here=f"SDK {result['sdk_version']}",
            help=f"did you mean `{close[0]}`?" if close else "another release of the SDK may have it",
        )
    if result.get("cannot_profile"):
        raise ConverterError(
            "the installed converter makes no code that records times",
            rule="--neutron-profile needs an SDK with `useProfiling`",
            here=f"SDK {result['sdk_version']}",
            help="leave --neutron-profile out, or install a newer SDK",
        )
    if result.get("is_subsystem"):
        raise ConverterError(
            f"`{target}` is a chip whose NPU has a controller of its own",
            rule="payloads are for NPUs that the Cortex-M drives",
            here=target,
            help="choose a chip whose NPU has none: `pillion targets`",
        )


def _run_sdk_worker(folder: Path, job: Mapping[str, Any], timeout: float) -> dict[str, Any]:
    """Returns the child process's result of a job."""
    (folder / sdk_worker.JOB).write_text(json.dumps(job), "utf-8")
    # The child has the same module path, in any working directory.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(os.path.abspath(p) for p in sys.path)}
    command = [sys.executable, "-m", sdk_worker.__name__, str(folder)]
    with (
        open(folder / LOG, "wb") as log,
        guarded_process(command, cwd=folder, env=environment, stdout=log, stderr=log) as process,
    ):
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise _conversion_error(folder, f"no answer within {timeout:g} seconds", ConverterError) from None
    if code:
        raise _conversion_error(folder, describe_exit_code(code))
    return _read_result(folder, code)


def _read_result(folder: Path, code: int) -> dict[str, Any]:
    path = _required_output_file(folder, sdk_worker.RESULT, f"{describe_exit_code(code)}, but no result")
    try:
        result: dict[str, Any] = json.loads(path.read_text("utf-8"))
    except ValueError:
        raise _conversion_error(folder, "a result that does not parse") from None
    return result


def _required_output_file(folder: Path, name: str, otherwise: str = "") -> Path:
    """Returns the path of a file that the child must have written."""
    if not (folder / name).is_file():
        raise _conversion_error(folder, otherwise or f"no {name}")
    return folder / name


def _conversion_error(folder: Path, how: str, kind: type[PillionError] = PillionError) -> PillionError:
    tail = (folder / LOG).read_text("utf-8", "replace").splitlines()[-TAIL_LINES:]
    return kind(
        "NXP's converter failed",
        rule="it ends with exit code 0 and leaves a result",
        here="\n".join([how, *tail]),
        help="`--intermediates` keeps the segment's file; --keep-on-cpu keeps ops away from the NPU",
    )
