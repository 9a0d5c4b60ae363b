# SPDX-License-Identifier: Apache-2.0
"""`Signal` operators of TensorFlow Lite Micro: its interpreter's bytes, kept as hashes, from run to run and on every machine."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from detection_file import options
from signal_files import INT32, SMOOTHING, UINT32, UINT64, SignalFile, bands, front_end, gains, sound

from pillion.errors import PillionError
from pillion.importers.tflite import read
from pillion.ir.graph import Graph
from pillion.ir.types import Array, DType
from pillion.program import Program
from pillion.run.stream import StreamSession
from pillion.schemas import flexbuffer, tflite
from pillion.schemas.flatbuffer import read_root_table, write_flatbuffer
from pillion.schemas.tflite import ElementType
from pillion.targets import find_target

BOOL = ElementType.BOOL


def window() -> bytes:
    file = SignalFile()
    table = np.random.default_rng(5).integers(-32768, 32768, 31).astype(np.int16)
    x = file.input(2, 3, 31)
    return file.bytes(file.add("SignalWindow", [x, file.constant(table)], file.tensor((2, 3, 31)), shift=13))


def auto_scale() -> bytes:
    file = SignalFile()
    x = file.input(37)
    bits = file.tensor((), INT32)
    return file.bytes(file.add("SignalFftAutoScale", [x], file.tensor((37,)), bits), bits)


def rfft(points: int, *shape: int) -> Callable[[], bytes]:
    def make() -> bytes:
        file = SignalFile()
        y = file.tensor((*shape[:-1], points + 2))
        return file.bytes(file.add("SignalRfft", [file.input(*shape)], y, T=7, fft_length=points))

    return make


def irfft(points: int, *lead: int) -> Callable[[], bytes]:
    def make() -> bytes:
        file = SignalFile()
        x, y = file.input(*lead, points + 2), file.tensor((*lead, points))
        return file.bytes(file.add("SignalIrfft", [x], y, T=7, fft_length=points))

    return make


def roots() -> bytes:
    """Energies through filters and roots, moved by what is asked for."""
    file = SignalFile()
    x, amount = file.input(129, kind=UINT32), file.input(kind=INT32)
    tables = [file.constant(part) for part in bands(17, 129, seed=3)]
    y = file.add("SignalFilterBank", [x, *tables], file.tensor((17,), UINT64), num_channels=17)
    return file.bytes(file.add("SignalFilterBankSquareRoot", [y, amount], file.tensor((17,), UINT32)))


def subtraction(clamping: bool) -> Callable[[], bytes]:
    def make() -> bytes:
        file = SignalFile()
        results = file.tensor((41,), UINT32), file.tensor((41,), UINT32)
        named: dict[str, Any] = {**SMOOTHING, "num_channels": 41, "clamping": clamping}
        x = file.input(41, kind=UINT32)
        return file.bytes(file.add("SignalFilterBankSpectralSubtraction", [x], *results, **named), results[1])

    return make


def pcan(shift: int, *, is_wild: bool = False) -> Callable[[], bytes]:
    def make() -> bytes:
        file, table = SignalFile(), np.random.default_rng(1).integers(-32768, 32768, 125).astype(np.int16)
        inputs = [file.input(41, kind=UINT32), file.input(41, kind=UINT32)]
        inputs.append(file.constant(table if is_wild else gains()))
        return file.bytes(file.add("SignalPCAN", inputs, file.tensor((41,), UINT32), snr_shift=shift))

    return make


def logarithm(bits: int, scale: int) -> Callable[[], bytes]:
    def make() -> bytes:
        file, named = SignalFile(), {"input_correction_bits": bits, "output_scale": scale}
        x = file.input(41, kind=UINT32)
        return file.bytes(file.add("SignalFilterBankLog", [x], file.tensor((41,)), **named))

    return make


def energy() -> bytes:
    file = SignalFile()
    y = file.tensor((33,), UINT32)
    return file.bytes(file.add("SignalEnergy", [file.input(66)], y, start_index=0, end_index=33))


def delay(length: int, *shape: int) -> Callable[[], bytes]:
    def make() -> bytes:
        file = SignalFile()
        return file.bytes(
            file.add("SignalDelay", [file.input(*shape)], file.tensor(shape), delay_length=length)
        )

    return make


def framer(size: int, step: int, *shape: int, prefill: bool = True) -> Callable[[], bytes]:
    def make() -> bytes:
        file, count = SignalFile(), shape[-1] // step
        results = file.tensor((*shape[:-1], count, size)), file.tensor((), BOOL)
        named = {"frame_size": size, "frame_step": step, "prefill": prefill}
        y = file.add("SignalFramer", [file.input(*shape)], *results, **named)
        return file.bytes(y, *results[1:])

    return make


def overlap_add(step: int, *shape: int) -> Callable[[], bytes]:
    def make() -> bytes:
        file = SignalFile()
        y = file.tensor((*shape[:-2], shape[-2] * step))
        return file.bytes(file.add("SignalOverlapAdd", [file.input(*shape)], y, T=7, frame_step=step))

    return make


FILES: dict[str, tuple[Callable[[], bytes], str]] = {
    "window": (window, "2554b016f1b4a8b4"),
    "auto_scale": (auto_scale, "066d0fc62f9881fd"),
    "rfft_64": (rfft(64, 2, 61), "37e1c5d92a782556"),
    "rfft_128": (rfft(128, 128), "77085cb0c5492bf3"),
    "rfft_512": (rfft(512, 3, 1, 480), "8941ce67caea66d2"),
    "rfft_2048": (rfft(2048, 1999), "15c6402b242b095b"),
    "irfft_64": (irfft(64, 3), "05ec5550e00dbc65"),
    "irfft_128": (irfft(128), "463f3fa45f884852"),
    "energy": (energy, "a0e259b848e2b3e9"),
    "roots": (roots, "ef276cc335d415c7"),
    "subtraction": (subtraction(clamping=False), "09197497a492c433"),
    "clamped_subtraction": (subtraction(clamping=True), "f44be2af2d7b7887"),
    "pcan": (pcan(6), "1f6c49e127efddcd"),
    "wild_pcan": (pcan(0, is_wild=True), "af35a564fff6dfbd"),
    "logarithm": (logarithm(3, 64), "cdd119d664ce7df8"),
    "steep_logarithm": (logarithm(0, 60000), "836db769263959c9"),
    "delay": (delay(7, 2, 5), "3dfde6c4668b48f2"),
    "long_delay": (delay(33, 11), "7dc1918caa3c4e9c"),
    "no_delay": (delay(0, 11), "c1ba27cf712e1256"),
    "framer": (framer(10, 4, 2, 12), "ab6236d0aa62e340"),
    "overlap_add": (overlap_add(3, 2, 2, 7), "b666bd96311b672f"),
    "overlap_add_nothing": (overlap_add(7, 3, 7), "5f28841fc77d6ffe"),
    "front_end": (front_end, "ce8b2c3c52c5f7bc"),
}
"""A file, and the hash of what TensorFlow Lite Micro's interpreter (90b983c) answers to `steps`."""


def steps(graph: Graph, count: int = 24) -> list[list[Array]]:
    """Samples for each run: sounds, words of all lengths, and shifts."""
    rng, found = np.random.default_rng(1), []
    frames = [sound(max(v.type.elements, 1), count, seed) for seed, v in enumerate(graph.inputs)]
    for step in range(count):
        inputs = []
        for v, sounds in zip(graph.inputs, frames, strict=True):
            if v.dtype is DType.INT16:
                inputs.append(sounds[step].reshape(v.shape))
            elif v.shape:
                words = rng.integers(0, 2**32, v.shape) >> rng.integers(0, 33, v.shape)
                inputs.append(words.astype(np.uint32).view(np.int32))
            else:
                inputs.append(np.array(step % 17, np.int32))
        found.append(inputs)
    return found


def fingerprint(answers: list[Any]) -> str:
    """The hash of all results of all runs."""
    digest = hashlib.sha256()
    for outputs in answers:
        for y in outputs:
            digest.update(np.ascontiguousarray(y).tobytes())
    return digest.hexdigest()[:16]


def answers(raw: bytes, target: str = "cortex-m33", on: str = "reference") -> list[Any]:
    program = Program(read(raw), find_target(target))
    with StreamSession(program, on) as session:
        return session.run(steps(program.graph))


@pytest.mark.parametrize("name", FILES)
def test_files_answer_as_in_tensorflow_lite_micro(name: str) -> None:
    make, wanted = FILES[name]
    assert fingerprint(answers(make())) == wanted


@pytest.mark.qemu
@pytest.mark.parametrize(
    ("target", "on"), [("cortex-m33", "mps2-an505"), ("cortex-m55", "mps3-an547"), ("cortex-m0plus", "host")]
)
@pytest.mark.parametrize("name", ["front_end", "framer", "overlap_add"])
def test_states_live_on_every_machine(name: str, target: str, on: str) -> None:
    make, wanted = FILES[name]
    assert fingerprint(answers(make(), target, on)) == wanted


def test_frames_are_valid_once_there_are_samples_for_all_of_them() -> None:
    """TensorFlow Lite Micro writes nothing where they are not."""
    raw = framer(23, 4, 2, 8, prefill=False)()
    found = answers(raw)
    assert [bool(valid) for _, valid in found[:6]] == [False, False, False, True, True, True]
    assert fingerprint([y for y in found if y[1]]) == FRAMES_WITHOUT_ZEROS
    (state,) = (s for s in read(raw).states if s.before.dtype is DType.INT16)
    assert state.before.shape == (2, 20)


FRAMES_WITHOUT_ZEROS = "9bfc83b9c591e8d2"


def changed(make: Callable[[], bytes], **named: Any) -> Callable[[], bytes]:
    """A file whose first operator says something else."""

    def made() -> bytes:
        model = read_root_table(tflite.Model, make(), tflite.IDENTIFIER)
        operator = model.subgraphs[0].operators[0]
        said = flexbuffer.read_map_numbers(operator.custom_options.tobytes())
        kept = {name: value for name, value in (said | named).items() if value is not None}
        operator.custom_options = options(**kept)
        return write_flatbuffer(model, tflite.IDENTIFIER)

    return made


def read_by(code: str, kind: ElementType, *, to: ElementType = INT32) -> Callable[[], bytes]:
    def make() -> bytes:
        file = SignalFile()
        x = file.input(5, kind=kind)
        inputs = [x] if code == "CAST" else [x, file.constant(np.ones(5, np.int32))]
        return file.bytes(file.add(code, inputs, file.tensor((5,), to)))

    return make


def stacker() -> bytes:
    file = SignalFile()
    results = file.tensor((6,)), file.tensor((), BOOL)
    return file.bytes(file.add("SignalStacker", [file.input(2)], *results, num_channels=2))


REFUSED: dict[str, tuple[Callable[[], bytes], str]] = {
    "no option": (changed(window, shift=None), "it says shift, a whole number of 0 or more"),
    "a real option": (changed(window, shift=1.5), "it says shift"),
    "a wide shift": (changed(window, shift=32), "options are in their ranges: shift 0 to 31"),
    "real numbers": (changed(rfft(64, 61), T=0), "it computes on int16"),
    "an odd length": (changed(rfft(64, 61), fft_length=96), "an FFT has 4 to 4096 points, a power of two"),
    "long rows": (changed(rfft(64, 61), fft_length=32), "rows fit the points of the FFT"),
    "bands": (changed(roots, num_channels=18), "there are num_channels"),
    "other bands": (changed(subtraction(clamping=False), num_channels=40), "there are num_channels bands"),
    "energies": (changed(energy, end_index=34), "indices are of pairs"),
    "a long step": (changed(framer(10, 4, 2, 12), frame_step=12), "a step is no longer than a frame"),
    "half a step": (changed(framer(10, 4, 2, 12), frame_step=5), "rows are 256 whole steps at most"),
    "a long delay": (
        changed(delay(7, 2, 5), delay_length=2**30),
        "1048576 numbers are kept from run to run at most",
    ),
    "a sum": (read_by("MAXIMUM", UINT32, to=UINT32), "uint32 tensors are those of CAST"),
    "a real": (read_by("CAST", UINT32, to=ElementType.FLOAT32), "casts to float excepted"),
    "pairs": (read_by("CAST", UINT64), "uint64 ones of Signal"),
    "a stack": (stacker, "operators are among"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_files_are_refused_by_name(name: str) -> None:
    make, rule = REFUSED[name]
    with pytest.raises(PillionError) as caught:
        read(make())
    assert rule in caught.value.rule
    assert caught.value.here
    assert caught.value.help


@pytest.mark.parametrize("name", FILES)
def test_any_options_are_read_or_refused(name: str) -> None:
    """And what is read has a reference that answers."""
    make, _ = FILES[name]
    model = read_root_table(tflite.Model, make(), tflite.IDENTIFIER)
    customs = [o for o in model.subgraphs[0].operators if o.custom_options is not None]
    taken = 0
    for operator in customs:
        held = operator.custom_options
        said = flexbuffer.read_map_numbers(held.tobytes())
        for option in said:
            for number in (said[option], -1, 0, 1, 31, 32, 255, 2**16, 2**31 - 1, 2**31, 2**40):
                operator.custom_options = options(**(said | {option: number}))
                try:
                    graph = read(write_flatbuffer(model, tflite.IDENTIFIER))
                except PillionError:
                    continue
                taken += 1
                graph.reference(*steps(graph, 3)[2])
        operator.custom_options = held
    assert taken or name == "auto_scale"
