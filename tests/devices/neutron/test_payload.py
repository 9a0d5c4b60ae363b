# SPDX-License-Identifier: Apache-2.0
"""Payloads byte for byte, and NXP's converter with everything that it may do wrong (a stand-in for it: sdk_stand_in/)."""

from __future__ import annotations

import dataclasses
import struct
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import pillion
from pillion.devices.neutron.converter import _convert_cached, convert_segments
from pillion.devices.neutron.converter.payload import (
    DevicePayload,
    Port,
    compose_payload,
    parse_payload,
)
from pillion.devices.neutron.converter.sdk import ConvertedSegment, merge_kernel_selections, run_converter
from pillion.devices.neutron.converter.sdk_probe import sdk_available
from pillion.devices.neutron.settings import NeutronSettings
from pillion.devices.payloads import ConverterError, SegmentFile
from pillion.emitters.tflite import emit
from pillion.errors import PillionError
from pillion.ir.graph import Graph
from pillion.ir.types import DType, PerTensor, TensorType, Value
from pillion.ops import Add, Maximum
from pillion.registry import REGISTRY
from pillion.schemas.ir_payload import (
    IrPayload,
    ir_payload,
)
from pillion.targets import find_target

STAND_IN = Path(__file__).parent / "sdk_stand_in"
TARGET = "imxrt700"
SECONDS = 60.0


def value(name: str) -> Value:
    return Value(name, TensorType((1, 3, 5, 8), DType.INT8, PerTensor(0.1, 3)))


@pytest.fixture(scope="module")
def segment() -> bytes:
    """Two inputs, two outputs."""
    a, b, sum_, largest = map(value, ("a", "b", "sum", "largest"))
    ops = (Add(a=a, b=b, y=sum_), Maximum(a=a, b=b, y=largest))
    return emit(Graph("segment", (a, b), ops, (sum_, largest)))


@pytest.fixture
def sdk(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The stand-in, as if installed."""
    monkeypatch.syspath_prepend(str(STAND_IN))
    _convert_cached.cache_clear()
    return monkeypatch


def converted(segment: bytes, timeout: float = SECONDS, target: str = TARGET) -> ConvertedSegment:
    return run_converter(segment, target, timeout=timeout)


def microcode(version: int, inputs: int, outputs: int, size: int = 64, weights: int = 0) -> bytes:
    words = [0] * 16
    words[0], words[6], words[7] = 0x64434D6E, size, weights
    first = (11, 13)[version]
    words[first : first + 2] = [inputs, outputs]
    return struct.pack("<16I", *words) + bytes(max(size - 64, 0))


def payload(
    version: int = 0, inputs: int = 1, outputs: int = 1, arguments: int | None = None
) -> DevicePayload:
    return DevicePayload(
        inputs=tuple(Port(i) for i in range(inputs)),
        outputs=tuple(Port(i) for i in range(outputs)),
        arguments=inputs if arguments is None else arguments,
        version=version,
        microcode=microcode(version, inputs, outputs, 70, 5),
        weights=b"abcde",
        kernels=b"0123456789abcdef",
    )


# The blob


def test_the_blob_byte_for_byte() -> None:
    made = DevicePayload(
        inputs=(Port(2), Port(0, transposed=True)),
        outputs=(Port(1, transposed=True), Port(0)),
        arguments=3,
        version=1,
        microcode=microcode(1, 2, 2, 70, 5),
        weights=b"abcde",
        kernels=b"kernel",
    )
    head = bytes([2, 2, 3, 0, 1, 1, 0, 2, 0, 1, 0, 1]) + bytes(4)
    code = microcode(1, 2, 2, 70, 5) + bytes(10)
    assert compose_payload(made) == head + code + b"abcde" + bytes(11) + b"kernel" + bytes(10)


def test_one_input_and_one_output_have_a_head_of_eight_bytes() -> None:
    assert payload().head == bytes([1, 1, 1, 0, 0, 0, 0, 0])


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("ports", [(1, 1, 1), (2, 3, 5), (7, 1, 7), (255, 255, 255)])
def test_a_blob_parses_back(version: int, ports: tuple[int, int, int]) -> None:
    made = payload(version, *ports)
    assert parse_payload(compose_payload(made)) == made


@pytest.mark.parametrize("count", [255, 256])
def test_the_head_counts_in_bytes(count: int) -> None:
    made = payload(arguments=count)
    if count < 256:
        assert parse_payload(compose_payload(made)) == made
    else:
        with pytest.raises(PillionError, match="at most 255"):
            compose_payload(made)


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({"inputs": (Port(1),)}, "each input has a place of its own"),
        ({"outputs": (Port(0), Port(0))}, "each output has a place of its own"),
        ({"inputs": (Port(0), Port(1)), "arguments": 2}, "1 inputs and 1 outputs by the microcode"),
        ({"version": 2}, "payload version 0 or 1"),
        ({"microcode": bytes(64)}, "begins with 0x64434d6e"),
        ({"microcode": b"short"}, "begins with 13 words"),
        ({"microcode": microcode(0, 1, 1, 64, 5)[:64] + bytes(32)}, "64 bytes of microcode"),
        ({"weights": bytes(17)}, "5 bytes of weights"),
    ],
)
def test_inconsistent_payloads_are_refused(changes: dict[str, object], wanted: str) -> None:
    made = payload()
    with pytest.raises(PillionError, match=wanted):
        compose_payload(DevicePayload(**{**vars(made), **changes}))


# Pillion's own payload


def test_without_the_sdk_the_payload_is_tflite(segment: bytes) -> None:
    raw = ir_payload(segment, ("a", "b"), ("sum", "größtes"))
    assert parse_payload(raw) == IrPayload(segment, ("a", "b"), ("sum", "größtes"))
    assert compose_payload(parse_payload(raw)) == raw
    assert raw[32 : 32 + len(segment)] == segment


def test_a_device_refuses_tflite(segment: bytes) -> None:
    """It reads no inputs, no outputs, a version that is none, and no magic number where microcode should begin."""
    raw = ir_payload(segment, ("a",), ("y",))
    inputs, outputs = raw[:2]
    assert (inputs, outputs) == (0, 0)
    assert raw[3 + 2 * inputs + 2 * outputs] not in (0, 1)
    assert struct.unpack_from("<I", raw, 16) != (0x64434D6E,)


@pytest.mark.parametrize("kind", ["device", "ir"])
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_damaged_bytes_end_in_an_error(kind: str, data: st.DataObject) -> None:
    raw = (
        compose_payload(payload(1, 2, 1))
        if kind == "device"
        else ir_payload(b"\0\0\0\0TFL3rest", ("a", "b"), ("y",))
    )
    cut = data.draw(st.integers(0, len(raw)))
    damaged = bytearray(raw[:cut] + data.draw(st.sampled_from((raw[cut:], b""))))
    for at, byte in data.draw(st.lists(st.tuples(st.integers(0, len(raw)), st.integers(0, 255)), max_size=4)):
        damaged[at : at + 1] = bytes([byte])
    try:
        found = parse_payload(bytes(damaged))
    except PillionError:
        return
    assert compose_payload(found) == bytes(damaged)


@pytest.mark.parametrize(
    ("at", "byte", "wanted"),
    [
        (16, 2, "version 1 of the format"),
        (20, 255, "bytes by its head"),
        (28, 0x5A, "checksum"),
        (33, 1, "checksum"),
    ],
)
def test_damage_has_a_name(at: int, byte: int, wanted: str) -> None:
    raw = bytearray(ir_payload(b"\0\0\0\0TFL3", ("a",), ("y",)))
    raw[at] = byte
    with pytest.raises(PillionError, match=wanted):
        parse_payload(bytes(raw))


@pytest.mark.parametrize("raw", [b"", b"\0", bytes(16), bytes(15), bytes([255] * 16), b"x" * 4096])
def test_bytes_of_anything_else_are_refused(raw: bytes) -> None:
    with pytest.raises(PillionError, match=r"damaged|not known"):
        parse_payload(raw)


# The converter


def test_the_sdk_is_found_without_importing_it(sdk: pytest.MonkeyPatch) -> None:
    assert sdk_available()
    assert "eiq_neutron_sdk" not in sys.modules


def test_the_sdk_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])
    assert not sdk_available()


def test_a_segment_is_converted(sdk: pytest.MonkeyPatch, segment: bytes) -> None:
    made = run_converter(segment, TARGET, prefetch=True, timeout=SECONDS)
    assert made.payload.inputs == made.payload.outputs == (Port(0), Port(1))
    assert (made.payload.arguments, made.payload.version) == (2, 0)
    assert (made.payload.weights, made.payload.kernels) == (bytes(range(33)), b"kernels!")
    assert made.kernel_selection == "/* imxrt700 sram=True */\n"
    assert made.sdk_version == "0.0.stand-in"
    parsed = parse_payload(compose_payload(made.payload))
    assert isinstance(parsed, DevicePayload)
    assert parsed.microcode == made.payload.microcode
    whole = convert_segments(
        NeutronSettings(), [SegmentFile("segment", segment, ("a", "b"), ("sum", "largest"))], TARGET
    )
    assert whole.scratch_bytes == made.payload.scratch_bytes == 40_960
    assert whole.flash_bytes == len(compose_payload(made.payload))


SCRATCH, PROFILE, DEBUG, PREFETCH = 40_960, 96, 32, 4_096
"""What the stand-in asks for, in bytes."""


@pytest.mark.parametrize(
    ("options", "version", "ram"),
    [
        ({}, 0, SCRATCH),
        ({"neutron_prefetch": True}, 0, SCRATCH + PREFETCH),
        ({"neutron_profile": True}, 1, SCRATCH + PROFILE + DEBUG),
        ({"neutron_prefetch": True, "neutron_profile": True}, 1, SCRATCH + PREFETCH + PROFILE + DEBUG),
    ],
)
def test_options_reach_converter_payload_and_memory(
    sdk: pytest.MonkeyPatch, tmp_path: Path, options: dict[str, bool], version: int, ram: int
) -> None:
    """Prefetched weights need no copy in RAM of their own. A profile comes with the converter's list of kernels."""
    x = torch.linspace(-1, 1, 8 * 9 * 7).reshape(1, 8, 9, 7)
    program = pillion.compile(nn.Conv2d(8, 16, 3), x, target=TARGET, **options)
    (made,) = program.payloads.segments
    code = parse_payload(made.payload)
    assert isinstance(code, DevicePayload)
    assert code.version == version
    weights = 0 if "neutron_prefetch" in options else 16 * 8 * 9 + 4 * 16
    assert program.npu_memory.ram_bytes == ram + weights
    assert program.npu_constant_bytes == weights
    assert program.sram_bytes == program.memory.arena_bytes + ram + weights
    assert program.payloads.figures["npu_scratch_bytes"] == ram
    program.save(tmp_path / "net.pte")
    file = pillion.load(tmp_path / "net.pte")
    assert file.npu_memory.ram_bytes == ram + (0 if "neutron_prefetch" in options else len(code.weights))
    assert file.npu_memory.flash_bytes == program.npu_memory.flash_bytes == len(made.payload)
    selection = (tmp_path / "net_neutron_kernel_selection.c").read_text()
    assert f"sram={'neutron_prefetch' in options}" in selection
    listing = tmp_path / "net_neutron_profile.log"
    assert listing.exists() == ("neutron_profile" in options)
    assert not listing.exists() or "kernel 0 is all of it" in listing.read_text()


def test_an_sdk_without_profiles(sdk: pytest.MonkeyPatch, segment: bytes) -> None:
    sdk.setenv("STAND_IN", "without_profiling")
    assert converted(segment).payload.version == 0
    with pytest.raises(ConverterError, match="no code that records times"):
        run_converter(segment, TARGET, profile=True, timeout=SECONDS)


def test_no_kernel_selection_unless_wanted(sdk: pytest.MonkeyPatch, segment: bytes) -> None:
    assert run_converter(segment, TARGET, kernel_selection=False, timeout=SECONDS).kernel_selection is None


def test_payload_version_1(sdk: pytest.MonkeyPatch, segment: bytes) -> None:
    sdk.setenv("STAND_IN", "version_1")
    made = converted(segment).payload
    assert (made.version, len(made.outputs)) == (1, 2)


def test_reordered_inputs_and_outputs_are_found_by_name(sdk: pytest.MonkeyPatch, segment: bytes) -> None:
    sdk.setenv("STAND_IN", "reorder")
    made = converted(segment).payload
    assert made.inputs == made.outputs == (Port(1), Port(0))


def test_a_dropped_input_stays_an_argument(sdk: pytest.MonkeyPatch, segment: bytes) -> None:
    sdk.setenv("STAND_IN", "drop_input")
    made = converted(segment).payload
    assert (made.inputs, made.arguments) == ((Port(0),), 2)


def test_targets_of_newer_sdks(sdk: pytest.MonkeyPatch, segment: bytes) -> None:
    sdk.setenv("STAND_IN", "newer_targets")
    assert converted(segment).payload.version == 0
    with pytest.raises(PillionError, match="controller of its own"):
        converted(segment, target="imx95")


@pytest.mark.turns(7)
@pytest.mark.parametrize(
    ("how", "wanted"),
    [
        ("no_graph", "exactly one operator, a NeutronGraph\n  here  0 of 0"),
        ("two_graphs", "exactly one operator, a NeutronGraph\n  here  2 of 2"),
        ("leftover", "1 of 2 operators: NeutronGraph, ADD"),
        ("rename", "`something_else`"),
        ("drop_output", "missing: largest"),
        ("input_twice", "2 times"),
        ("wrong_magic", "begins with 0x64434d6e"),
        ("wrong_counts", "2 inputs and 3 outputs by the microcode"),
        ("wrong_weights", "bytes of weights, as the microcode says"),
        ("not_a_model", "a TFLite file"),
    ],
)
def test_results_that_are_no_payload(sdk: pytest.MonkeyPatch, segment: bytes, how: str, wanted: str) -> None:
    sdk.setenv("STAND_IN", how)
    with pytest.raises(PillionError) as caught:
        converted(segment)
    assert wanted in str(caught.value)


@pytest.mark.turns(3)
@pytest.mark.parametrize(
    ("how", "wanted"),
    [
        ("abort", "killed by SIGABRT"),
        ("segfault", "killed by SIGSEGV"),
        ("exit_0", "exit code 0, but no result"),
        ("exit_3", "exit code 3"),
        ("raise", "IndexError: pop from empty list"),
    ],
)
def test_ends_of_the_process(sdk: pytest.MonkeyPatch, segment: bytes, how: str, wanted: str) -> None:
    sdk.setenv("STAND_IN", how)
    with pytest.raises(PillionError) as caught:
        converted(segment)
    assert wanted in caught.value.here
    assert "stand-in: converting" in caught.value.here, "the converter's own words are shown"


@pytest.mark.turns(6)
@pytest.mark.slow
def test_a_converter_that_hangs_is_ended(sdk: pytest.MonkeyPatch, segment: bytes) -> None:
    sdk.setenv("STAND_IN", "hang")
    with pytest.raises(ConverterError, match=r"no answer within 5 seconds[\s\S]*stand-in: thinking"):
        converted(segment, timeout=5)


@pytest.mark.parametrize(
    ("target", "hint"), [("imxrt70", "did you mean `imxrt700`"), ("z80", "another release")]
)
def test_the_target_is_checked_before_the_converter_dies_of_it(
    sdk: pytest.MonkeyPatch, segment: bytes, target: str, hint: str
) -> None:
    with pytest.raises(ConverterError, match=f"no target `{target}`") as caught:
        converted(segment, target=target)
    assert caught.value.rule == "its targets: imx95, imxrt700, mcxn94x"
    assert hint in caught.value.help


def test_a_chip_that_the_converter_does_not_know_ends_the_compilation(sdk: pytest.MonkeyPatch) -> None:
    """No op is at fault, so none moves to the core without a word."""
    with REGISTRY.changed() as registry:
        registry.add_target(
            dataclasses.replace(find_target("mcxn947"), name="a-chip", converter_name="z80", aliases=())
        )
        with pytest.raises(ConverterError, match="no target `z80`"):
            pillion.compile(nn.Conv2d(8, 16, 3), torch.ones(1, 8, 9, 7), target="a-chip")


def test_kernel_selections_are_merged(sdk: pytest.MonkeyPatch) -> None:
    assert (
        merge_kernel_selections(["enum\nadd\n", "enum\nconv\n", "enum\nadd\n"], timeout=SECONDS)
        == "enum\nadd\nconv\n"
    )


def test_one_kernel_selection_needs_no_merge() -> None:
    assert merge_kernel_selections(["enum\nadd\n"]) == "enum\nadd\n"
