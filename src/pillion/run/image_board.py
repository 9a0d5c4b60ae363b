# SPDX-License-Identifier: Apache-2.0
"""Runs program images on emulated boards: one firmware with a kernel set, to which images are handed as files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import numpy as np

from pillion.boards.board import BOARDS, Board, firmware_files
from pillion.boards.build import Sources
from pillion.boards.firmware import Firmware
from pillion.boards.project_layout import HARNESS_FOLDER
from pillion.boards.qemu import QemuResult, link_firmware, run_built
from pillion.devices.cortex_m import CORES
from pillion.emitters.image.kernel_set import kernel_set_files
from pillion.emitters.image.reader import ProgramImage, image_in, read_image
from pillion.errors import PillionError
from pillion.host_io.atomic_files import LazyContent, suffix_of
from pillion.importers.pte import delegates_in
from pillion.ir.types import Array
from pillion.run.executor import RunResult
from pillion.schemas.pte import PILLION_BACKEND

SET, MODEL = "set", "image"
"""The folders of the kernel set, and of the program that opens an image."""


@dataclass(frozen=True)
class ImageFirmware:
    """A linked firmware that opens any image whose kernels it has."""

    elf: Path
    board: Board

    def run(
        self, image: bytes, samples: Sequence[Sequence[Array]], profile: bool = False, timeout: float = 60.0
    ) -> QemuResult:
        """Runs an image on samples, which are consecutive if it has a state."""
        raw = b"".join(np.ascontiguousarray(x).tobytes() for sample in samples for x in sample)
        return run_built(self.elf, self.board, {"net.plm": image, "input.bin": raw}, profile, timeout)


def images_of(file: Path) -> list[ProgramImage]:
    """Returns the program image in a .plm file, or the images in the delegates of a .pte file."""
    if suffix_of(file) != ".pte":
        return [read_image(file)]
    payloads = (payload for name, payload in delegates_in(file) if name == PILLION_BACKEND)
    return [image_in(payload, f"a delegate of {file}") for payload in payloads]


def is_image_file(file: Path) -> bool:
    """Whether a file is a program image, or a .pte with some."""
    form = suffix_of(file)
    return form == ".plm" or (form == ".pte" and PILLION_BACKEND in dict(delegates_in(file)))


def runnable_image(file: Path) -> ProgramImage:
    """Returns the only image of a file. Raises if a program has several, with NPU segments between them."""
    images = images_of(file)
    count = len(delegates_in(file)) if suffix_of(file) == ".pte" else 1
    if len(images) != 1 or count != 1:
        raise PillionError(
            f"{file} does not run on an emulated board",
            rule="a board runs programs of one image; other delegates run on the chip alone",
            here=f"{count} delegates, of which {len(images)} hold images",
            help="pillion verify MODEL -t TARGET runs NPU segments by their reference",
        )
    return images[0]


def image_firmware(folder: Path, kernels: Iterable[int], board: Board) -> ImageFirmware:
    """Writes and links the firmware for a board with these kernels."""
    files: dict[str, object] = {
        f"{SET}/{k}": v for k, v in kernel_set_files(kernels, CORES[board.core]).items()
    }
    harness = firmware_files(MODEL, [board.name])
    files |= {path: text for path, text in harness.items() if path.startswith(f"{HARNESS_FOLDER}/")}
    own = resources.files("pillion.emitters.image") / "runtime"
    files |= {f"{MODEL}/{name}": (own / name).read_text("utf-8") for name in ("model.c", "model.h")}
    for path, content in files.items():
        assert not isinstance(content, LazyContent)
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(str(content), "utf-8")
    return ImageFirmware(link_firmware(_parts(folder, sorted(files)), board), board)


def _parts(folder: Path, paths: Sequence[str]) -> Firmware:
    """Returns the sources of the firmware; each folder sees all headers of the set."""
    include = f"../{SET}/include"

    def sources(name: str, includes: tuple[str, ...], but: str = "") -> Sources:
        inside = [path.removeprefix(f"{name}/") for path in paths if path.startswith(f"{name}/")]
        files = tuple(path for path in inside if path.endswith(".c") and path != but)
        headers = tuple(f"../{path}" for path in paths if path.endswith(".h"))
        return Sources(folder / name, files, headers, includes)

    model = sources(MODEL, (include, f"../{SET}"))
    harness = sources(HARNESS_FOLDER, (include, f"../{MODEL}"), but="host.c")
    return Firmware(folder, folder / MODEL / "model.h", model, sources(SET, ("include",)), (), harness)


def image_result(image: ProgramImage, ran: QemuResult) -> RunResult:
    """Returns the outputs of a run as arrays."""
    outputs, at = [], 0
    for one in image.outputs:
        raw = ran.outputs[at : at + one.bytes]
        outputs.append(np.frombuffer(raw, one.dtype.numpy).reshape(one.shape))
        at += one.bytes
    return RunResult(tuple(outputs))


def board_of(image: ProgramImage, name: str | None = None) -> Board:
    """Returns the board that runs an image: the one of this name, or one with its core."""
    fitting = [board for board in BOARDS.values() if _runs(board, image.core)]
    core = CORES[image.core]
    own = [BOARDS[core.board]] if core.board and fitting else fitting[:1]
    for board in own if name is None else fitting:
        if name in (None, board.name):
            return board
    raise PillionError(
        f"`{image.name}` does not run on {name or 'an emulated board'}",
        rule="an image runs on boards whose core runs its kernels",
        here=f"the image is for {image.core}",
        help=f"--on {own[0].name}" if own else "run it on the chip",
    )


def _runs(board: Board, core: str) -> bool:
    """Whether a board's core has the instructions of another."""
    return all(CORES[board.core].runs(isa) for isa in type(CORES[core].isa) if CORES[core].runs(isa))
