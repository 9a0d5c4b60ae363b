# SPDX-License-Identifier: Apache-2.0
"""Detectors' files end in TFLite_Detection_PostProcess: what LiteRT finds is found, on every machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from detection_file import DetectionFile, options
from streaming_file import InLiteRt

import pillion
from nightly import part_of
from pillion.emitters.tflite import emit
from pillion.errors import PillionError
from pillion.importers.tflite import read
from pillion.ir.types import Array
from pillion.schemas import flexbuffer, tflite
from pillion.schemas.flatbuffer import MalformedError, read_root_table, write_flatbuffer


def found_only(results: tuple[Array, ...]) -> list[Any]:
    """What stands before the end; LiteRT leaves the rest as it was."""
    count = int(results[3][0])
    return [*(x[:, :count].tolist() for x in results[:3]), count]


@pytest.mark.parametrize("seed", range(25))
def test_detections_equal_litert(seed: int) -> None:
    """Ties of scores, overlaps of any size, boxes without an area, a background class or none."""
    rng = np.random.default_rng(seed)
    file = DetectionFile(
        boxes=int(rng.integers(1, 120)),
        classes=int(rng.integers(1, 6)),
        background=seed % 2,
        is_int8=seed % 3 > 0,
        codes=4 + seed % 2,
        is_uint8=seed % 7 == 0,
        is_open=seed % 5 == 0,
        seed=seed,
        named={
            "use_regular_nms": seed % 4 > 1,
            "max_detections": int(rng.integers(1, 40)),
            "detections_per_class": int(rng.integers(1, 50)),
            "nms_score_threshold": (0.0, -1e8, 0.3, 0.5)[seed % 4],
            "nms_iou_threshold": (0.1, 0.45, 0.6, 1.0)[seed // 4 % 4],
            "y_scale": (10.0, 7.3)[seed % 2],
        },
    )
    raw = file.bytes()
    graph, theirs = read(raw), InLiteRt(raw)
    again = InLiteRt(emit(graph))
    for _ in range(3):
        inputs = [_drawn(rng, v.shape, v.dtype.value, bool(seed % 2)) for v in graph.inputs]
        wanted = found_only(theirs.step(*inputs))
        assert found_only(graph.reference(*inputs)) == wanted
        assert found_only(again.step(*inputs)) == wanted


def _drawn(rng: np.random.Generator, shape: tuple[int, ...], dtype: str, ties: bool) -> Array:
    if dtype != "float32":
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        return rng.integers(low, high, shape, endpoint=True).astype(dtype)
    drawn = rng.normal(0, 4, shape)
    return (np.round(drawn * 2) / 2 if ties else drawn).astype(np.float32)


@pytest.mark.turns(3)
@pytest.mark.qemu
@pytest.mark.parametrize("by_class", part_of([False, True], 2))
def test_detectors_find_the_same_on_every_machine(by_class: bool, tmp_path: Path) -> None:
    named = {"use_regular_nms": by_class, "nms_iou_threshold": 0.3}
    (tmp_path / "net.tflite").write_bytes(raw := DetectionFile(boxes=61, classes=4, named=named).bytes())
    rng, theirs = np.random.default_rng(0), InLiteRt(raw)
    steps = [[rng.integers(-128, 128, (1, 61, n)).astype(np.int8) for n in (4, 5)] for _ in range(8)]
    wanted = [found_only(theirs.step(*x)) for x in steps]
    assert len({str(w) for w in wanted}) == len(steps)
    for core, machine in (("cortex-m33", "mps2-an505"), ("cortex-m55", "mps3-an547"), ("cortex-m4", "host")):
        program = pillion.compile(tmp_path / "net.tflite", target=core)
        assert [v.shape for v in program.graph.outputs] == [(1, 10, 4), (1, 10), (1, 10), (1,)]
        assert [found_only(ys) for ys in program.stream(machine).run(steps)] == wanted


@pytest.mark.parametrize(
    ("named", "words"),
    [
        ({"max_classes_per_detection": 2}, "one class"),
        ({"max_detections": 0}, "boxes are found"),
        ({"max_detections": 2**30}, "boxes are found"),
        ({"num_classes": 9}, "background"),
        ({"num_classes": None}, "without num_classes"),
        ({"y_scale": 0.0}, "four scales"),
        ({"nms_iou_threshold": float("nan")}, "four scales"),
    ],
)
def test_invalid_detector_options_are_refused(named: dict[str, Any], words: str) -> None:
    raw = DetectionFile().bytes()
    model = read_root_table(tflite.Model, raw, tflite.IDENTIFIER)
    model.subgraphs[0].operators[-1].custom_options = options(**DetectionFile(named=named).settings())
    with pytest.raises(PillionError, match=words) as caught:
        read(write_flatbuffer(model, tflite.IDENTIFIER))
    assert caught.value.rule
    assert caught.value.here


def test_options_that_are_cut_or_changed_are_refused_or_read() -> None:
    held = bytes(options(**DetectionFile().settings()))
    assert flexbuffer.read_map_numbers(held) == pytest.approx(DetectionFile().settings())
    rng = np.random.default_rng(0)
    said: set[str] = set()
    for number in range(400):
        damaged = bytearray(held)
        damaged[int(rng.integers(len(held)))] ^= int(rng.integers(1, 256))
        try:
            flexbuffer.read_map_numbers(bytes(damaged[: number if number < len(held) else None]))
        except MalformedError as error:
            said.add(str(error))
    assert len(said) > 10
    assert all("FlexBuffers" in words for words in said)
