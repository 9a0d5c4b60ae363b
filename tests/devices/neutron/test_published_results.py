# SPDX-License-Identifier: Apache-2.0
"""Published results of NXP's converter (generation 1.x): our split against theirs, and every header word that
public sources name. The files lie in ../shared/models/neutron, or where PILLION_NEUTRON_RESULTS points."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

import pillion
from pillion.devices.neutron.converter import _convert_cached
from pillion.devices.neutron.converter.code_listing import header_words
from pillion.devices.neutron.converter.extract import NEUTRON_GRAPH, ConvertedOperator, converted_operators
from pillion.devices.neutron.converter.payload import parse_payload
from pillion.devices.neutron.generations import NAMES, OLD_FLOW

DEFAULT = Path(__file__).parents[4] / "shared" / "models" / "neutron"
FOLDER = Path(os.environ.get("PILLION_NEUTRON_RESULTS", DEFAULT))
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason=f"no results of NXP's converter in {FOLDER}")

CIFAR, WORDS, IMAGES = "cifarnet_quant_int8", "ds_cnn_s", "mobilenet_v1_0.25_128_quant_int8"
PAIRS = [
    (CIFAR, "mcxn947", f"mcxn947_{CIFAR}_npu"),
    (WORDS, "mcxn947", f"mcxn947_{WORDS}_npu"),
    (IMAGES, "mcxn947", f"mcxn947_{IMAGES}_npu"),
    (WORDS, "imxrt700", f"mimxrt700_{WORDS}_npu"),
    (IMAGES, "imxrt700", f"mimxrt700_{IMAGES}_npu"),
]
"""Original, target, and the converter's result."""
SCRATCH = {
    f"mcxn947_{CIFAR}_npu": 40_960,
    f"mcxn947_{WORDS}_npu": 16_000,
    f"mcxn947_{IMAGES}_npu": 98_304,
    f"mimxrt700_{WORDS}_npu": 16_000,
    f"mimxrt700_{IMAGES}_npu": 98_304,
    "rt700_cifar_model_data": 40_960,
    "rt700_kws_24": 16_000,
    "rt700_kws_main": 16_000,
}


def result(name: str) -> tuple[ConvertedOperator, ...]:
    return converted_operators((FOLDER / f"{name}.tflite").read_bytes())


@pytest.mark.parametrize(("original", "target", "converted"), PAIRS)
def test_split_equals_that_of_the_same_generation(original: str, target: str, converted: str) -> None:
    """Softmax of 10, 12 and 1001 channels stays on the core by the rules of generation 1 alone; op by op the rest is
    the same in all generations."""
    for generation in (None, *NAMES):
        program = pillion.compile(FOLDER / f"cpu_{original}.tflite", target=target, neutron_sdk=generation)
        ours = [entry.op.source.rpartition(", ")[2] for entry in program.ledger if entry.segment is None]
        theirs = [operator.name for operator in result(converted) if operator.payload is None]
        assert theirs.count("SOFTMAX") == 1
        assert [name for name in ours if name != "SOFTMAX"] == [name for name in theirs if name != "SOFTMAX"]
        assert ours == theirs or generation != "1"
        assert "SOFTMAX" not in ours or generation in OLD_FLOW


@pytest.mark.parametrize("name", SCRATCH)
def test_header_words(name: str) -> None:
    """Sizes in the header equal those of the tensors; word 9 is the scratch tensor's, in RAM."""
    (graph,) = [operator for operator in result(name) if operator.name == NEUTRON_GRAPH]
    payload = graph.payload
    assert payload is not None
    assert payload.version == 0
    words = header_words(payload.microcode, payload.version)
    sizes = (len(payload.microcode), len(payload.weights), len(payload.kernels))
    assert [word.value for word in words[6:]] == [*sizes, SCRATCH[name], 0, 1, 1]
    assert words[0].value == 0x64434D6E
    assert [word.number for word in words if not word.meaning] == [1, 2, 3, 4, 5]
    assert words[2].value == words[4].value < len(payload.microcode)
    assert payload.scratch_bytes == graph.scratch_tensor_bytes == SCRATCH[name]


@pytest.mark.parametrize("name", SCRATCH)
def test_payload_is_read_back(name: str) -> None:
    (graph,) = [operator for operator in result(name) if operator.payload is not None]
    assert graph.payload is not None
    code = graph.payload.compose()
    assert parse_payload(code).compose() == code


TIMES = [
    (CIFAR, "imxrt700", "324MHz", 1027),
    (WORDS, "imxrt700", "324MHz", 595),
    (IMAGES, "imxrt700", "324MHz", 2759),
    (CIFAR, "mcxn947", "150MHz", 7130),
]
"""Original, target, clock, and the microseconds of one inference: three by NXP (github.com/nxp-mcuxpresso/mcuxsdk-examples,
eiq_examples/tflm_*/readme.md), the last one by a user (github.com/CreatorKanata/terra-guard-ai-digikey-make-one-2026, issue 2)."""


@pytest.mark.qemu
@pytest.mark.parametrize(("original", "target", "clock", "microseconds"), TIMES)
def test_published_times_lie_within_the_band(
    original: str, target: str, clock: str, microseconds: int
) -> None:
    """The middle is at most 11 % off, and lower where the core's part is large: it is that of Pillion's kernels,
    measured was that of CMSIS-NN's, whose softmax of 1001 classes executes ten times the instructions."""
    program = pillion.compile(FOLDER / f"cpu_{original}.tflite", target=target, neutron_sdk="1")
    band = program.time(clock).milliseconds
    assert microseconds / 1e3 in band
    assert 0.88 < math.sqrt(band.low * band.high) / (microseconds / 1e3) < 1.1


def show(file: Path, *options: str) -> list[str]:
    command = [sys.executable, "-m", "pillion", "show", str(file), *options]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=True
    ).stdout.splitlines()


def test_show_lists_words_and_leftovers(tmp_path: Path) -> None:
    file = FOLDER / "rt700_kws_main.tflite"
    lines = show(file)
    assert [line for line in lines if line.endswith("CPU")] == [
        *("QUANTIZE on the CPU", "SOFTMAX on the CPU", "DEQUANTIZE on the CPU")
    ]
    assert "  word  9      16,000  bytes of scratch memory" in lines
    assert "  RAM          47,456  bytes, without inputs and outputs" in lines, "16,000 and 31,456 of weights"
    assert not any("no public meaning" in line for line in lines)
    (graph,) = [operator for operator in result(file.stem) if operator.payload is not None]
    assert graph.payload is not None
    code = tmp_path / "npu_segment_0.bin"
    code.write_bytes(graph.payload.compose())
    shown = show(code, "--commands")
    assert shown[0] == "eIQ Neutron, payload version 0"
    assert sum("no public meaning" in line for line in shown) == 5


def test_leftover_ops_stay_on_the_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a converter that leaves SOFTMAX, our split is that of NXP's results."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "sdk_stand_in"))
    monkeypatch.setenv("STAND_IN", "leaves_softmax")
    _convert_cached.cache_clear()
    program = pillion.compile(FOLDER / f"cpu_{CIFAR}.tflite", target="mcxn947")
    ours = [entry.op.source.rpartition(", ")[2] for entry in program.ledger if entry.segment is None]
    assert ours == ["SOFTMAX", "DEQUANTIZE"]
    (softmax,) = [entry for entry in program.ledger if "SOFTMAX" in entry.op.source]
    assert "1 of 2 operators: NeutronGraph, ADD" in softmax.because
