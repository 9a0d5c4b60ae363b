# SPDX-License-Identifier: Apache-2.0
"""Verifies program images, which hold no graph: they have checksums of the reference's outputs for random inputs."""

from __future__ import annotations

import tempfile
import time
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pillion.errors import PillionError
from pillion.ir.graph import Graph
from pillion.ir.types import DType
from pillion.ops import Segment
from pillion.run.executor import Outputs, RunOptions
from pillion.run.image_board import board_of, image_firmware, runnable_image
from pillion.run.random_inputs import samples_of_manifest
from pillion.run.stream_steps import run_stream_steps
from pillion.run.verify import Verification, VerifiedRun, compare_pairs

SAMPLES, SEED = 3, 0
"""The number of consecutive runs, and the seed of their inputs."""


def reference_checksums(graph: Graph) -> str:
    """Returns a CRC-32 of all outputs for each run; empty for programs that a board does not run, or whose inputs may
    be indices."""
    if any(isinstance(op, Segment) for op in graph.ops) or any(v.dtype is DType.INT32 for v in graph.inputs):
        return ""
    samples = samples_of_manifest(graph.inputs, SAMPLES, SEED)
    steps = run_stream_steps(graph, samples, RunOptions(stream=True), graph.reference_step)
    return " ".join(f"{zlib.crc32(b''.join(y.tobytes() for y in outputs)):08x}" for outputs in steps)


def verify_image(file: Path) -> Verification:
    """Runs the image of a .plm or .pte on an emulated board, and compares checksums of its outputs with its own."""
    image = runnable_image(file)
    if len(image.checksums) != SAMPLES:
        raise PillionError(
            f"{file} has no reference to compare with",
            rule="an image without NPU segments has checksums of the reference's outputs, if its inputs are no indices",
            here=f"it has {image.segments} segments and {len(image.checksums)} checksums",
            help="pillion verify MODEL -t TARGET",
        )
    board, begin = board_of(image), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="pillion-") as folder:
        firmware = image_firmware(Path(folder), image.kernels, board)
        raw = firmware.run(image.content, samples_of_manifest(image.inputs, SAMPLES, SEED)).outputs
    size = len(raw) // SAMPLES
    found = [zlib.crc32(raw[size * n : size * (n + 1)]) for n in range(SAMPLES)]
    runs = (
        VerifiedRun("reference, CRC-32", _as_outputs(image.checksums)),
        VerifiedRun(f"{board.name}, CRC-32", _as_outputs(found), time.monotonic() - begin),
    )
    return Verification(image.name, image.core, SAMPLES, runs, compare_pairs(runs), ())


def _as_outputs(checksums: Sequence[int]) -> tuple[Outputs, ...]:
    return tuple((np.array([one], np.uint32),) for one in checksums)
