# SPDX-License-Identifier: Apache-2.0
"""Data in files: every format becomes the same samples, and what is broken, absurd or hostile ends in one message."""

from __future__ import annotations

import math
import pickle
import struct
import wave
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from pillion.data.python_data import open_data
from pillion.data.reading_options import Reading
from pillion.data.sample import InputSpec, Sample, batch_samples, evenly_spaced_numbers
from pillion.errors import PillionError
from pillion.ir.types import DType

GRAY = InputSpec("x", (1, 1, 5, 7))
COLOUR = InputSpec("x", (1, 3, 5, 7))
COLOUR_LAST = InputSpec("x", (1, 5, 7, 3))
SOUND = InputSpec("x", (1, 1, 50))


def read(path: object, wanted: InputSpec | tuple[InputSpec, ...], **reading: Any) -> list[Sample]:
    wanted = (wanted,) if isinstance(wanted, InputSpec) else wanted
    return list(open_data(path, Reading(**reading)).samples(wanted))


def image(path: Path, mode: str = "RGB", size: tuple[int, int] = (7, 5), seed: int = 0) -> np.ndarray:
    shape = (size[1], size[0], 3) if mode == "RGB" else (size[1], size[0])
    pixels = np.random.default_rng(seed).integers(0, 256, shape, np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)
    return pixels


def sound(path: Path, frames: bytes, width: int = 2, channels: int = 1, rate: int = 16000) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setsampwidth(width)
        file.setnchannels(channels)
        file.setframerate(rate)
        file.writeframes(frames)


def test_folders_of_images_are_classes_in_the_order_of_their_names(tmp_path: Path) -> None:
    pixels = {name: image(tmp_path / name / "a.png", seed=n) for n, name in enumerate(("dog", "cat", "eel"))}
    image(tmp_path / ".hidden" / "b.png")
    (tmp_path / "cat" / "notes.txt").write_text("x")
    source = open_data(tmp_path)
    assert source.classes == ("cat", "dog", "eel")
    assert source.count() == 3
    found = list(source.samples([COLOUR]))
    assert [int(s.label) for s in found] == [0, 1, 2]
    for sample, name in zip(found, source.classes, strict=True):
        wanted = pixels[name].astype(np.float32) / np.float32(255)
        np.testing.assert_array_equal(sample.inputs[0], wanted.transpose(2, 0, 1)[np.newaxis])
    last = read(tmp_path, COLOUR_LAST)
    np.testing.assert_array_equal(last[1].inputs[0][0], pixels["dog"].astype(np.float32) / np.float32(255))


def test_folders_named_by_numbers_are_class_labels(tmp_path: Path) -> None:
    for name in ("10", "2", "7"):
        image(tmp_path / name / "sub" / "a.png", "L")
    found = read(tmp_path, GRAY)
    assert sorted(int(s.label) for s in found) == [2, 7, 10]
    assert open_data(tmp_path).classes == ()


def test_classes_that_are_named_go_by_their_order(tmp_path: Path) -> None:
    for name in ("cat", "dog"):
        image(tmp_path / name / "a.png", "L")
    found = read(tmp_path, GRAY, classes=("other", "dog", "cat"))
    assert [int(s.label) for s in found] == [2, 1]
    with pytest.raises(PillionError, match="of no class"):
        read(tmp_path, GRAY, classes=("other", "dog"))


def test_images_are_normalized_by_channel(tmp_path: Path) -> None:
    pixels = image(tmp_path / "a.png")
    (sample,) = read(tmp_path / "a.png", COLOUR, mean=(0.1, 0.2, 0.3), std=(0.5, 0.25, 2.0))
    wanted = (pixels / 255 - np.array([0.1, 0.2, 0.3])) / np.array([0.5, 0.25, 2.0])
    np.testing.assert_allclose(
        sample.inputs[0][0], wanted.transpose(2, 0, 1), atol=1e-6
    )  # float32 in another order of operations
    (sample,) = read(tmp_path / "a.png", COLOUR, divide=1.0)
    np.testing.assert_array_equal(sample.inputs[0][0].transpose(1, 2, 0), pixels)
    with pytest.raises(PillionError, match="--std has 2 numbers"):
        read(tmp_path / "a.png", COLOUR, std=(1.0, 2.0))


@pytest.mark.parametrize("fit", ["resize", "crop"])
def test_images_of_other_sizes_are_fitted_only_if_that_is_wished_for(tmp_path: Path, fit: Any) -> None:
    left, right = np.zeros((10, 14, 3), np.uint8), np.full((10, 14, 3), 255, np.uint8)
    Image.fromarray(np.concatenate([left, right], axis=1)).save(tmp_path / "a.png")
    with pytest.raises(PillionError, match=r"(?s)5 x 7 pixels.*10 x 28.*--fit resize"):
        read(tmp_path / "a.png", COLOUR)
    (sample,) = read(tmp_path / "a.png", COLOUR, fit=fit)
    row = sample.inputs[0][0, 0, 2]
    assert row[0] == 0
    assert row[-1] == 1
    assert np.all(np.diff(row) >= 0)


def test_a_crop_is_the_middle(tmp_path: Path) -> None:
    pixels = np.zeros((5, 21), np.uint8)
    pixels[:, 7:14] = 200
    Image.fromarray(pixels).save(tmp_path / "a.png")
    (sample,) = read(tmp_path / "a.png", GRAY, fit="crop")
    np.testing.assert_array_equal(sample.inputs[0], np.full((1, 1, 5, 7), np.float32(200) / np.float32(255)))


def test_arrays_come_with_labels_by_name_or_behind(tmp_path: Path) -> None:
    x, y = np.random.default_rng(0).standard_normal((6, 3, 5, 7)), np.arange(6)
    np.savez(tmp_path / "named.npz", labels=y, data=x)
    np.savez(tmp_path / "behind.npz", x, y)
    for name in ("named.npz", "behind.npz"):
        found = read(tmp_path / name, COLOUR)
        assert [int(s.label) for s in found] == list(range(6))
        np.testing.assert_array_equal(np.concatenate([s.inputs[0] for s in found]), x.astype(np.float32))
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y[::-1])
    found = read(tmp_path / "x.npy", COLOUR, labels=tmp_path / "y.npy")
    assert [int(s.label) for s in found] == list(range(6))[::-1]
    assert [s.label for s in read(tmp_path / "x.npy", COLOUR)] == [None] * 6


def test_several_inputs_go_by_name_where_they_have_the_models(tmp_path: Path) -> None:
    two = (InputSpec("left", (1, 2)), InputSpec("right", (1, 2)))
    left, right = np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]])
    np.savez(tmp_path / "named.npz", right=right, left=left, y=np.array([5]))
    np.savez(tmp_path / "other.npz", a=left, b=right)
    for name in ("named.npz", "other.npz"):
        (sample,) = read(tmp_path / name, two)
        assert [x.tolist() for x in sample.inputs] == [[[1, 2]], [[3, 4]]]


def test_axes_of_one_may_be_missing(tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((4, 5, 7))
    np.save(tmp_path / "x.npy", x)
    np.testing.assert_array_equal(
        np.concatenate([s.inputs[0] for s in read(tmp_path / "x.npy", GRAY)])[:, 0], x.astype(np.float32)
    )


@pytest.mark.parametrize(("width", "scale"), [(1, 128), (2, 2**15), (3, 2**23), (4, 2**31)])
def test_sounds_are_numbers_from_minus_one_to_one(tmp_path: Path, width: int, scale: int) -> None:
    numbers = np.linspace(-scale, scale - 1, 50).astype(np.int64)
    stored = numbers + 128 if width == 1 else numbers
    frames = b"".join(int(n).to_bytes(width, "little", signed=width > 1) for n in stored)
    sound(tmp_path / "a.wav", frames, width)
    (sample,) = read(tmp_path / "a.wav", SOUND)
    np.testing.assert_allclose(
        sample.inputs[0][0, 0], numbers / scale, atol=1e-6
    )  # float32 in another order of operations


def test_channels_of_sounds_are_averaged(tmp_path: Path) -> None:
    pairs = np.stack([np.full(50, 3000), np.full(50, 1000)], axis=1).astype("<i2")
    sound(tmp_path / "a.wav", pairs.tobytes(), channels=2)
    (sample,) = read(tmp_path / "a.wav", SOUND)
    np.testing.assert_allclose(
        sample.inputs[0], 2000 / 2**15, atol=1e-7
    )  # float32 in another order of operations


@pytest.mark.parametrize(("frames", "silent"), [(30, 20), (71, 0)])
def test_sounds_of_other_lengths_are_fitted_only_if_that_is_wished_for(
    tmp_path: Path, frames: int, silent: int
) -> None:
    numbers = np.arange(1, frames + 1).astype("<i2")
    sound(tmp_path / "a.wav", numbers.tobytes())
    with pytest.raises(PillionError, match=f"(?s)sounds of 50 numbers.*{frames} numbers.*--fit crop"):
        read(tmp_path / "a.wav", SOUND)
    held = np.rint(read(tmp_path / "a.wav", SOUND, fit="crop")[0].inputs[0].ravel() * 2**15)
    assert np.count_nonzero(held == 0) == silent
    wanted = numbers[10:60] if frames > 50 else numbers
    np.testing.assert_array_equal(held[held != 0], wanted)


@pytest.mark.parametrize("transform", [None, lambda x: x], ids=["plain", "transform"])
def test_sounds_of_different_rates_are_not_mixed(tmp_path: Path, transform: object) -> None:
    for folder, rate in (("a", 16000), ("b", 16000), ("c", 44100)):
        sound(tmp_path / folder / "one.wav", bytes(100), rate=rate)
    assert len(read(tmp_path / "c", SOUND)) == 1
    said = r"(?s)different rates.*one.wav: 16,000 Hz.*one.wav: 44,100 Hz.*ffmpeg -i one.wav -ar 16000"
    with pytest.raises(PillionError, match=said):
        read(tmp_path, SOUND, transform=transform)


def test_sounds_go_through_a_function_that_makes_features(tmp_path: Path) -> None:
    sound(tmp_path / "yes" / "a.wav", np.arange(64).astype("<i2").tobytes())
    sound(tmp_path / "no" / "a.wav", np.arange(64).astype("<i2").tobytes())
    found = read(tmp_path, InputSpec("x", (1, 8, 8)), transform=lambda x: x.reshape(8, 8) * 2**15)
    assert [int(s.label) for s in found] == [0, 1]
    np.testing.assert_array_equal(found[0].inputs[0].ravel(), np.arange(64))
    with pytest.raises(PillionError, match=r"(?s)raised ZeroDivisionError.*test_data_files.py"):
        read(tmp_path, InputSpec("x", (1, 8, 8)), transform=lambda x: x / (1 // 0))


TABLES = {
    "names": "a,b,label\n1,2,0\n3,4,1\n",
    "label first": "y;a;b\n0;1;2\n1;3;4\n",
    "no names": "1,2,0\n3,4,1\n",
    "words": "1,2,no\n3,4,yes\n",
    "words first": "no\t1\t2\nyes\t3\t4\n",
    "spaces and empty lines": "a, b, label\n\n1, 2, 0\n3, 4, 1\n\n",
    "a mark of UTF-8": "\ufeffa,b,label\n1,2,0\n3,4,1\n",
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_hold_a_row_for_each_sample(tmp_path: Path, name: str) -> None:
    (tmp_path / "x.csv").write_text(TABLES[name], "utf-8")
    found = read(tmp_path / "x.csv", InputSpec("x", (1, 2)))
    assert [s.inputs[0].tolist() for s in found] == [[[1, 2]], [[3, 4]]]
    assert [int(s.label) for s in found] == [0, 1]
    assert open_data(tmp_path / "x.csv").classes == (("no", "yes") if "words" in name else ())


def test_the_column_of_the_label_may_be_named(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a,kind,b\n1,0,2\n3,1,4\n")
    for column in ("kind", "2"):
        found = read(tmp_path / "x.csv", InputSpec("x", (1, 2)), label_column=column)
        assert [(s.inputs[0].tolist(), int(s.label)) for s in found] == [([[1, 2]], 0), ([[3, 4]], 1)]
    with pytest.raises(PillionError, match=r"(?s)no column kin.*a, kind, b"):
        read(tmp_path / "x.csv", InputSpec("x", (1, 2)), label_column="kin")
    (tmp_path / "y.csv").write_text("1,2\n3,4\n")
    assert [s.label for s in read(tmp_path / "y.csv", InputSpec("x", (1, 2)))] == [None, None]


def test_labels_in_a_file_of_words(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((3, 2)))
    (tmp_path / "y.csv").write_text("label\ndog\ncat\ndog\n")
    found = read(tmp_path / "x.npy", InputSpec("x", (1, 2)), labels=tmp_path / "y.csv")
    assert [int(s.label) for s in found] == [1, 0, 1]


def test_inputs_of_int8_are_quantized_and_taken_as_they_are() -> None:
    wanted = InputSpec("x", (1, 4), DType.INT8, 0.5, 3)
    real = np.array([[-100.0, -0.26, 0.74, 100.0]], np.float32)
    (sample,) = open_data((real, np.array([1]))).samples([wanted])
    assert wanted.quantized(sample.inputs[0]).tolist() == [[-128, 2, 4, 127]]
    raw = np.array([[-128, 2, 4, 127]], np.int8)
    (sample,) = open_data((raw, np.array([1]))).samples([wanted])
    assert wanted.quantized(sample.inputs[0]).tolist() == raw.tolist()
    assert wanted.dequantized(raw).tolist() == [[-65.5, -0.5, 0.5, 62.0]]


def test_samples_are_gathered_to_whole_inputs() -> None:
    wanted = (InputSpec("x", (4, 2)),)
    x = np.arange(14.0).reshape(7, 2)
    runs = list(batch_samples(open_data((x, np.arange(7))).samples(wanted), wanted))
    assert [len(parts) for _, parts in runs] == [4, 3]
    assert runs[1][0][0][:, 0].tolist() == [8, 10, 12, 12]


def bomb(path: Path) -> None:
    """A PNG of a few bytes that claims a hundred million pixels, fewer than Pillow itself refuses."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 10000, 10000, 8, 2, 0, 0, 0)
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(b"\0" * 10**6))
        + chunk(b"IEND", b"")
    )


def lying_sound(path: Path) -> None:
    sound(path, b"\0\0" * 50)
    data = bytearray(path.read_bytes())
    data[40:44] = struct.pack("<I", 2**31 - 2)
    path.write_bytes(bytes(data))


def cut_image(path: Path) -> None:
    image(path)
    path.write_bytes(path.read_bytes()[:-30])


def sixteen_bits(path: Path) -> None:
    Image.fromarray(np.zeros((5, 7), np.uint16)).save(path)


class Touches:
    """A pickle that writes a file where it is read."""

    path = Path()

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.path,)


def pickled(path: Path) -> None:
    Touches.path = path.with_name("touched")
    np.save(path, np.array([Touches()], object))


def headed(shape: object, descr: str = "<f4") -> Callable[[Path], object]:
    """An .npy file of one number whose header says some type and shape."""

    def write(path: Path) -> None:
        with path.open("wb") as file:
            np.lib.format.write_array_header_1_0(
                file, {"descr": descr, "fortran_order": False, "shape": shape}
            )
            file.write(bytes(4))

    return write


HOSTILE: dict[str, tuple[str, Callable[[Path], object], InputSpec, str]] = {
    "pickle": ("x.npy", pickled, COLOUR, "pickled objects"),
    "plain pickle": ("x.npy", lambda p: p.write_bytes(pickle.dumps([1])), COLOUR, "cannot read"),
    "not numbers": ("x.npy", lambda p: np.save(p, np.full((2, 3, 5, 7), np.nan)), COLOUR, "(?s)not finite.*sample 1.*nan at element 0"),
    "infinite": ("x.npy", lambda p: np.save(p, np.full((3, 5, 7), -np.inf)), COLOUR, "-inf"),
    "texts": ("x.npy", lambda p: np.save(p, np.full((1, 3, 5, 7), "a")), COLOUR, "<U1"),
    "empty": ("x.npy", lambda p: np.save(p, np.zeros((0, 3, 5, 7))), COLOUR, r"shape \[0, 3, 5, 7\]"),
    "shape of booleans": ("x.npy", headed((True, 1)), COLOUR, "a shape of"),
    "elements of no bytes": ("x.npy", headed((10**11, 10**11), "|V0"), COLOUR, "a shape of"),
    "negative shape": ("x.npy", headed((-1, -1)), COLOUR, "a shape of"),
    "other shape": ("x.npy", lambda p: np.save(p, np.zeros((2, 5, 7, 3))), COLOUR, r"\(N, 3, 5, 7\)"),
    "too many arrays": ("x.npz", lambda p: np.savez(p, a=1, b=2, c=3), COLOUR, "3 arrays"),
    "fewer labels": ("x.npz", lambda p: np.savez(p, x=np.zeros((4, 3, 5, 7)), y=[1, 2, 3]), COLOUR, "4 samples and labels"),
    "labels of text": ("x.npz", lambda p: np.savez(p, x=np.zeros((1, 3, 5, 7)), y=["a"]), COLOUR, "labels of <U1"),
    "no archive": ("x.npz", lambda p: p.write_bytes(b"PK\x03\x04 broken"), COLOUR, "cannot read"),
    "bomb of pixels": ("x.png", bomb, COLOUR, "claims 10000 x 10000 pixels"),
    "cut image": ("x.png", cut_image, COLOUR, "(?s)x.png cannot be read"),
    "no image": ("x.jpg", lambda p: p.write_text("<svg/>"), COLOUR, "cannot be read"),
    "pickle as image": ("x.png", lambda p: p.write_bytes(pickle.dumps([1])), COLOUR, "cannot be read"),
    "16 bits": ("x.png", sixteen_bits, GRAY, "8 bits a channel"),
    "image into a signal": ("x.png", image, InputSpec("x", (1, 50)), "height, width and 1 or 3 channels"),
    "lying sound": ("x.wav", lying_sound, SOUND, "claims 1,073,741,823 samples"),
    "no sound": ("x.wav", lambda p: p.write_bytes(b"RIFF"), SOUND, "cannot be read"),
    "sound into an image": ("x.wav", lambda p: sound(p, b"\0\0" * 105), COLOUR, "one long axis"),
    "empty table": ("x.csv", lambda p: p.write_text(""), GRAY, "an empty file"),
    "words in a table": ("x.csv", lambda p: p.write_text("1,2,0\n3,x,1\n"), InputSpec("x", (1, 2)), "`x` in line 2"),
    "holes in a table": ("x.csv", lambda p: p.write_text("1,2,0\n3,,1\n"), InputSpec("x", (1, 2)), "an empty cell in line 2"),
    "infinite table": ("x.csv", lambda p: p.write_text("1,1e999,0\n"), InputSpec("x", (1, 2)), "finite numbers"),
    "short line": ("x.csv", lambda p: p.write_text("1,2,0\n3,1\n"), InputSpec("x", (1, 2)), "2 cells in line 2"),
    "too few columns": ("x.csv", lambda p: p.write_text("1,2\n3,4\n"), InputSpec("x", (1, 5)), "5 numbers"),
    "binary table": ("x.csv", lambda p: p.write_bytes(b"\xff\xfe\x00,1\n"), InputSpec("x", (1, 2)), "cannot be read"),
    "endless line": ("x.csv", lambda p: p.write_bytes(b"1" * (2**24 + 9)), InputSpec("x", (1, 2)), "more than 16,777,216"),
    "folder without data": ("x", lambda p: p.mkdir(), COLOUR, "a folder with nothing"),
    "other file": ("x.txt", lambda p: p.write_text("1"), COLOUR, "suffix .txt"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_and_broken_files_are_refused(tmp_path: Path, name: str) -> None:
    file, make, wanted, words = HOSTILE[name]
    make(tmp_path / file)
    with pytest.raises(PillionError, match=words):
        read(tmp_path / file, wanted)
    assert not (tmp_path / "touched").exists()


def test_numbers_that_count_are_not_rounded() -> None:
    wanted = (InputSpec("tokens", (1, 3), DType.INT32),)
    (sample,) = open_data(np.array([[1.0, 2.0, 3.0]])).samples(wanted)
    assert sample.inputs[0].dtype == np.int32
    with pytest.raises(PillionError, match="numbers of type int32"):
        list(open_data(np.array([[1.0, 2.5, 3.0]])).samples(wanted))


def test_files_beside_folders_are_refused(tmp_path: Path) -> None:
    image(tmp_path / "a.png")
    image(tmp_path / "cat" / "b.png")
    with pytest.raises(PillionError, match="files beside folders"):
        open_data(tmp_path)


def test_labels_of_other_data_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((3, 2)))
    for count in (2, 4):
        np.save(tmp_path / "y.npy", np.zeros(count, int))
        with pytest.raises(PillionError, match="the labels of other data"):
            read(tmp_path / "x.npy", InputSpec("x", (1, 2)), labels=tmp_path / "y.npy")


@pytest.mark.parametrize(
    "reading",
    [{"divide": 0.0}, {"divide": math.nan}, {"std": (0.0,)}, {"mean": (math.inf,)}, {"fit": "blur"}],
)
def test_ways_of_reading_that_cannot_be_are_refused(reading: dict[str, Any]) -> None:
    with pytest.raises(PillionError):
        Reading(**reading)


def test_without_pillow_the_way_to_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image(tmp_path / "a.png")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(PillionError, match=r"pip install 'pillion\[data\]'"):
        read(tmp_path, COLOUR)


def test_the_first_samples_of_a_folder_are_of_all_classes(tmp_path: Path) -> None:
    for name, count in (("a", 3), ("b", 1), ("c", 2)):
        (tmp_path / name).mkdir()
        for number in range(count):
            np.save(tmp_path / name / f"{number}.npy", np.full((1, 2), number, np.float32))
    wanted = (InputSpec("x", (1, 2)),)

    def labels(reading: Reading) -> list[int]:
        return [int(s.label) for s in open_data(tmp_path, reading).samples(wanted) if s.label is not None]

    assert labels(Reading()) == [0, 1, 2, 0, 2, 0]
    np.save(tmp_path.parent / "labels.npy", np.arange(6))
    assert labels(Reading(labels=tmp_path.parent / "labels.npy")) == [0, 1, 2, 3, 4, 5]
    named = open_data(tmp_path, Reading(labels=tmp_path.parent / "labels.npy"))
    assert [float(s.inputs[0].max()) for s in named.samples(wanted)] == [0, 1, 2, 0, 0, 1]


def test_the_most_samples_are_spread_over_data_sorted_by_class(tmp_path: Path) -> None:
    """As many as wanted, from first to last, whatever holds them; files that are left out are not read."""
    x, y = np.arange(101 * 5, dtype=np.float32).reshape(101, 5), np.arange(101) // 11
    wanted = InputSpec("x", (1, 5))
    np.savez(tmp_path / "data.npz", x=x, y=y)
    np.save(tmp_path / "data.npy", x)
    np.save(tmp_path / "labels.npy", y)
    rows = [",".join(map(str, [*line, label])) for line, label in zip(x, y, strict=True)]
    (tmp_path / "data.csv").write_text("\n".join(["a,b,c,d,e,label", *rows]))
    sources = [
        open_data(tmp_path / "data.npz"),
        open_data(tmp_path / "data.npy", Reading(labels=tmp_path / "labels.npy")),
        open_data(tmp_path / "data.csv"),
        open_data((x, y)),
        open_data(list(zip(x, y, strict=True))),
    ]
    for source in sources:
        for most in (1, 7, 33, 50, 100, 101, 500):
            found = list(source.samples([wanted], most))
            assert len(found) == min(most, 101)
            numbers = [int(s.inputs[0][0, 0]) // 5 for s in found]
            assert numbers == sorted(set(numbers))
            assert [int(s.label) for s in found if s.label is not None] == [n // 11 for n in numbers]
            exact = evenly_spaced_numbers(101, most)
            assert all(0 <= e - n < 101 / most for n, e in zip(numbers, exact, strict=True))
    folder = tmp_path / "images"
    for number in range(9):
        image(folder / f"{number}.png", seed=number)
    (folder / "3.png").write_bytes(b"no image")
    source = open_data(folder, Reading(labels=tmp_path / "nine.npy"))
    np.save(tmp_path / "nine.npy", np.arange(9))
    assert [int(s.label) for s in source.samples([COLOUR], 4)] == [0, 2, 4, 6]
