# SPDX-License-Identifier: Apache-2.0
"""Runs C projects with NPU code on this computer. Their C runs as on the chip and calls a substitute driver, which
executes the NPU's own code: the same driver calls, commands, weights and copies as on the chip. Only the core's
kernels are the portable ones."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread

from pillion.boards.host import HostModel
from pillion.boards.project_layout import HOST_FOLDER, KERNEL_HEADERS, MODEL_FOLDER, NPU_FOLDER
from pillion.devices.host_driver import CHANNEL, Driver
from pillion.emitters.c.manifest import Manifest
from pillion.errors import PillionError
from pillion.host_io.atomic_files import Content, read_whole
from pillion.run.executor import NPU, RunOptions, RunResult, Samples
from pillion.run.host_executor import run_on_model
from pillion.run.project_folder import temporary_project
from pillion.targets import find_target, npu_interpreter

_LENGTH = struct.Struct("=Q")
_MOST_BYTES = 1 << 32
"""The largest request, beyond the memory of any microcontroller."""


def require_npu_code(folder: Path, manifest: Manifest) -> tuple[Driver, list[bytes]]:
    """Returns the driver for a project's NPU and the code of its segments; raises if either is missing."""
    npu = find_target(manifest.target).npu
    payloads = [read_whole(folder / name, ".bin") for name in _segment_files(manifest)]
    if npu is None or not payloads or not any(name.startswith(f"{NPU_FOLDER}/") for name in manifest.files):
        raise PillionError(
            f"`{manifest.model}` holds no code for an NPU",
            rule=f"--on {NPU} executes segments that the NPU's own compiler has made, and the C that calls its driver",
            here=f"target {manifest.target}, {len(payloads)} segments with code",
            help="compile for a target with an NPU, its compiler installed (`pillion targets`, `pillion doctor`); --on host computes the same bytes",
        )
    for payload in payloads:
        npu_interpreter(payload)
    if npu.driver is None:
        raise PillionError(
            f"nothing stands in for the driver of {npu.name}",
            rule=f"--on {NPU} runs C that calls a driver which this computer has, too",
            here=f"target {manifest.target}",
            help="--on host computes the same bytes",
        )
    return npu.driver(), payloads


def run_on_npu(folder: Path, manifest: Manifest, samples: Samples, options: RunOptions) -> list[RunResult]:
    """Runs a project's C on this computer, and executes the NPU's code whenever it calls the driver."""
    driver, payloads = require_npu_code(folder, manifest)
    with (
        temporary_project(_portable_project_files(folder, manifest, driver)) as project,
        _serve_channel(driver.answers(payloads)) as (channel, refused),
    ):
        with HostModel(project, timeout=options.timeout, channels={CHANNEL: channel}) as model:
            try:
                results = run_on_model(manifest, model, samples, options)
            except PillionError:
                if refused:
                    raise refused[0] from None
                raise
        if refused:
            raise refused[0]
        return results


def _segment_files(manifest: Manifest) -> list[str]:
    """Returns the files with the NPU's code, in execution order."""
    names = [name for name in manifest.files if name.startswith("npu_segment_") and name.endswith(".bin")]
    return sorted(names, key=lambda name: int("".join(filter(str.isdigit, name)) or 0))


def _portable_project_files(folder: Path, manifest: Manifest, driver: Driver) -> Mapping[str, Content]:
    """Returns one folder with the portable model and the driver calls, without the NPU's stand-in."""
    model = HOST_FOLDER if f"{HOST_FOLDER}/model.c" in manifest.files else MODEL_FOLDER
    files: dict[str, Content] = {}
    for path in manifest.files:
        directory, _, name = path.partition("/")
        stands_in = name.startswith("npu_segment_")
        if (directory == model and not stands_in) or directory == NPU_FOLDER:
            files[name] = read_whole(folder / path, "C file")
    headers = {f"{KERNEL_HEADERS}/{n}" if n.endswith(".h") else n: text for n, text in driver.files.items()}
    return files | headers


@contextmanager
def _serve_channel(answer: Callable[[bytes], bytes]) -> Iterator[tuple[int, list[PillionError]]]:
    """Serves a channel; yields the child's end and the list of refusals."""
    refused: list[PillionError] = []
    ours, theirs = socket.socketpair()
    thread = Thread(target=_answer_requests, args=(ours, answer, refused), daemon=True)
    thread.start()
    try:
        yield theirs.fileno(), refused
    finally:
        theirs.close()
        with suppress(OSError):
            ours.shutdown(socket.SHUT_RDWR)
        thread.join()
        ours.close()


def _answer_requests(
    channel: socket.socket, answer: Callable[[bytes], bytes], refused: list[PillionError]
) -> None:
    """Answers requests until the other side closes."""
    with suppress(OSError), channel.makefile("rwb") as stream:
        while len(header := stream.read(_LENGTH.size)) == _LENGTH.size:
            (length,) = _LENGTH.unpack(header)
            question = stream.read(length) if length <= _MOST_BYTES else b""
            if len(question) < length:
                return
            try:
                reply = answer(question)
            except PillionError as error:
                refused.append(error)
                reply = b""
            stream.write(_LENGTH.pack(len(reply)) + reply)
            stream.flush()
