# SPDX-License-Identifier: Apache-2.0
"""A manifest that somebody else has written, or damaged, is refused in four parts by every command that reads it; the text of a
manifest is what its declaration reads."""

from __future__ import annotations

import contextlib
import copy
import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from faulty_executors import net, program, with_segment
from nightly import part_of
from pillion.emitters.c.manifest import MANIFEST, manifest_of, read_manifest
from pillion.emitters.tflite import emit
from pillion.errors import PillionError

SEEDS = range(150)
HUGE = [2**31, 2**32, 2**63, 2**64, 10**400, -1, -(2**70)]
VALUES: list[Any] = [
    *HUGE,
    True,
    False,
    None,
    "",
    "x",
    "\ud800",
    "\x1b[2J",
    0,
    0.5,
    float("nan"),
    float("inf"),
    [],
    {},
    [[]],
    {"a": 1},
    "../x",
]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return program(with_segment(), "imxrt700").firmware(tmp_path_factory.mktemp("made") / "fw")


@pytest.fixture
def folder(project: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(project, tmp_path / "fw"))


def places(data: Any) -> list[tuple[Any, Any]]:
    """Every container and key in it."""
    keys = list(data) if isinstance(data, dict) else list(range(len(data))) if isinstance(data, list) else []
    return [(data, key) for key in keys] + [place for key in keys for place in places(data[key])]


def put_another(data: Any, rng: random.Random) -> None:
    container, key = rng.choice(places(data))
    container[key] = rng.choice(VALUES)


def leave_out(data: Any, rng: random.Random) -> None:
    container, key = rng.choice([place for place in places(data) if isinstance(place[0], dict)])
    del container[key]


def add(data: Any, rng: random.Random) -> None:
    container, _ = rng.choice([place for place in places(data) if isinstance(place[0], dict)])
    container[rng.choice(["more", "../x", "a/../../x", "/etc/passwd", "\ud800"])] = rng.choice(VALUES)


def nudge(data: Any, rng: random.Random) -> None:
    """Numbers of the right type that contradict others."""
    numbers = [(c, k) for c, k in places(data) if type(c[k]) is int]
    container, key = rng.choice(numbers)
    container[key] += rng.choice([-1, 1, 1000])


def damage(text: str, seed: int) -> bytes:
    rng = random.Random(seed)
    kind = rng.choice(["value", "out", "add", "nudge", "bytes", "cut"])
    if kind in ("bytes", "cut"):
        raw = bytearray(text.encode())
        at = rng.randrange(len(raw))
        raw[at : at + (len(raw) if kind == "cut" else 1)] = rng.randbytes(rng.randrange(3))
        return bytes(raw)
    data = json.loads(text)
    {"value": put_another, "out": leave_out, "add": add, "nudge": nudge}[kind](data, rng)
    return json.dumps(data).encode()


@pytest.mark.parametrize("seed", SEEDS)
def test_damage_is_refused_in_four_parts_or_makes_no_difference(
    seed: int, project: Path, tmp_path: Path
) -> None:
    (tmp_path / MANIFEST).write_bytes(damage((project / MANIFEST).read_text(), seed))
    with contextlib.suppress(PillionError):
        read = read_manifest(tmp_path)
        assert manifest_of(read.text()) == read
        return
    with pytest.raises(PillionError, match="is not a project of Pillion") as error:
        read_manifest(tmp_path)
    assert error.value.rule
    assert error.value.help
    assert MANIFEST in error.value.here
    assert all(line.isprintable() for line in str(error.value).splitlines())


@pytest.mark.turns(10)
@pytest.mark.parametrize("seed", part_of(SEEDS[:40], 4))
def test_damage_ends_no_command_in_a_traceback(
    seed: int, folder: Path, tmp_path: Path, pillion: Callable[..., Any]
) -> None:
    (tmp_path / "net.tflite").write_bytes(emit(net()))
    (folder / MANIFEST).write_bytes(damage((folder / MANIFEST).read_text(), seed))
    (folder / "mine.c").write_text("mine")
    compiled = ("compile", "-m", tmp_path / "net.tflite", "-t", "cortex-m33", "-o", folder)
    for command in (("run", folder), ("verify", folder, "--samples", "1"), compiled, (*compiled, "--force")):
        answer = pillion(*command)
        assert answer.code in (0, 1, 2)
        assert (answer.code == 2) == answer.err.startswith("error: ")
    assert (folder / "mine.c").read_text() == "mine"


def test_most_damage_is_found(project: Path) -> None:
    """So that the test above does not pass by accepting everything."""
    text = (project / MANIFEST).read_text()
    found = 0
    for seed in SEEDS:
        try:
            manifest_of(damage(text, seed).decode())
        except ValueError:
            found += 1
    assert found > len(SEEDS) // 2


def test_manifests_survive_the_round_trip(project: Path) -> None:
    text = (project / MANIFEST).read_text()
    manifest = manifest_of(text)
    assert manifest.text() == text
    assert manifest.listing.is_sealed
    assert set(manifest.files) == {
        str(p.relative_to(project)) for p in project.rglob("*") if p.is_file() and p.name != MANIFEST
    }


def change(edit: Callable[[Any], object]) -> Callable[[Path], object]:
    def apply(folder: Path) -> None:
        data = json.loads((folder / MANIFEST).read_text())
        edit(data)
        (folder / MANIFEST).write_text(json.dumps(data))

    return apply


def instead(content: bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / MANIFEST).write_bytes(content)


def other_kind(make: Callable[[Path], object]) -> Callable[[Path], object]:
    def apply(folder: Path) -> None:
        (folder / MANIFEST).unlink()
        make(folder / MANIFEST)

    return apply


def again(manifest: Path) -> None:
    """The manifest with a key of its own before it, which is right but for that."""
    manifest.write_text(manifest.read_text().replace('{\n  "model"', '{\n  "macs": 1,\n  "model"', 1))


BAD: dict[str, Callable[[Path], object]] = {
    "nested": instead(b"[" * 200_000),
    "nested objects": instead(b'{"a":' * 100_000),
    "not text": instead(b"\xff\xfe{}"),
    "empty": instead(b""),
    "null": instead(b"null"),
    "NaN": instead(b'{"macs": NaN}'),
    "many digits": instead(b'{"macs": ' + b"9" * 5000 + b"}"),
    "twice": lambda folder: again(folder / MANIFEST),
    "a folder": other_kind(lambda path: path.mkdir()),
    "a pipe": other_kind(os.mkfifo),
    "a device": other_kind(lambda path: path.symlink_to("/dev/zero")),
    "too big": lambda folder: os.truncate(folder / MANIFEST, 1 << 40),
    "negative shape": change(lambda m: m["inputs"][0].update(shape=[-1, 2, 3, 4])),
    "huge shape": change(lambda m: m["inputs"][0].update(shape=[2**62] * 4)),
    "many axes": change(lambda m: m["inputs"][0].update(shape=[1] * 65)),
    "huge but right": change(lambda m: m["inputs"][0].update(shape=[10**15], bytes=10**15)),
    "unknown dtype": change(lambda m: m["inputs"][0].update(dtype="float64")),
    "object dtype": change(lambda m: m["inputs"][0].update(dtype="O")),
    "true for one": change(lambda m: m["inputs"][0]["shape"].__setitem__(0, True)),
    "past the arena": change(lambda m: m["outputs"][0].update(offset=m["memory"]["arena_bytes"])),
    "no inputs": change(lambda m: m.pop("inputs")),
    "unknown target": change(lambda m: m.update(target="z80")),
    "unknown kernels": change(lambda m: m.update(kernels="sse")),
    "name of C": change(lambda m: m.update(model='a"; x')),
    "fewer inputs": change(lambda m: m.update(inputs=[])),
    "more outputs": change(lambda m: m["outputs"].append(copy.deepcopy(m["outputs"][0]))),
    "files of nothing": change(lambda m: m.update(files={})),
    "a file that leads out": change(lambda m: m["files"].update({"../../x.c": "0" * 64})),
    "a file that is not there": change(lambda m: m["files"].update({"kernels/x.c": "0" * 64})),
}
ONLY_ON_BOARDS = {"unknown target", "a file that is not there"}
"""`run` on this computer does not look at it."""
AS_A_FAILURE = {"fewer inputs", "more outputs", "files of nothing", "a file that is not there"}
"""`verify` says of these which executor did not finish, and ends with 1."""


@pytest.mark.turns(5)
@pytest.mark.parametrize("name", part_of(BAD, 2))
def test_commands_refuse_folders_without_a_valid_manifest(
    name: str, folder: Path, tmp_path: Path, pillion: Callable[..., Any]
) -> None:
    (tmp_path / "net.tflite").write_bytes(emit(net()))
    BAD[name](folder)
    for command in (("run", folder), ("verify", folder, "--samples", "1")):
        if name in ONLY_ON_BOARDS and command[0] == "run":
            continue
        answer = pillion(*command)
        assert answer.code in (1, 2), answer.out
        assert "Traceback" not in answer.err
        if answer.code == 2:
            lines = [line.split()[0] for line in answer.err.splitlines()]
            assert lines[0] == "error:"
            assert [word for word in ("rule", "here", "help") if word in lines] == ["rule", "here", "help"]
        else:
            assert name in AS_A_FAILURE
    answer = pillion("compile", "-m", tmp_path / "net.tflite", "-t", "cortex-m33", "-o", folder)
    assert answer.code == 2
    assert answer.err.startswith("error: ")


PLACES_AND_FOLDERS = [
    pytest.param("host", "host", id="host"),
    pytest.param("mps2-an385", "model", id="board", marks=pytest.mark.qemu),
]
"""Where a project for a core with kernels of its own runs, and the folder of it that is compiled there."""


@pytest.mark.turns(3)
@pytest.mark.parametrize(("on", "compiled"), PLACES_AND_FOLDERS)
@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("model.h", b"\xff\xff"),
        ("model.h", b""),
        ("model.c", None),
        ("model.h", None),
        ("weights.c", b"\xff"),
    ],
)
def test_other_files_are_read_with_care(
    file: str, content: bytes | None, on: str, compiled: str, tmp_path: Path, pillion: Callable[..., Any]
) -> None:
    path = program(net()).firmware(tmp_path / "fw") / compiled / file
    if content is None:
        path.unlink()
        os.mkfifo(path)
    else:
        path.write_bytes(content)
    answer = pillion("run", tmp_path / "fw", "--on", on)
    assert answer.code == 2
    assert [line.split()[0] for line in answer.err.splitlines() if not line.startswith("   ")] == [
        "error:",
        "rule",
        "here",
        "help",
    ]


NONSENSE = {
    "words": 'semihost_print("{\\"error\\": [[[\\n{\\"tick_ns\\": \\"no\\", \\"overhead_ticks\\": {}}\\n");',
    "a fault": 'semihost_print("{\\"fault\\": \\"hard\\", \\"cfsr\\": \\"zz\\"}\\n");',
    "depth": 'for (int i = 0; i < 200000; i++) { semihost_print("["); }',
    "endless numbers": 'semihost_print("{\\"stack_bytes\\": 1e999}\\n");',
}


@pytest.mark.turns(4)
@pytest.mark.qemu
@pytest.mark.parametrize("name", NONSENSE)
def test_a_board_may_say_anything(name: str, tmp_path: Path, pillion: Callable[..., Any]) -> None:
    folder = program(net(), "cortex-m33").firmware(tmp_path / "fw")
    main = (folder / "harness/main.c").read_text()
    start = main.index("int main(")
    text = f"{main[:start]}int main(void) {{ {NONSENSE[name]} semihost_exit(0); return 0; }}\n"
    (folder / "harness/main.c").write_text(text.split("static ")[0] + text[start:])
    answer = pillion("run", folder, "--on", "mps2-an505", "--profile")
    assert answer.code == 2
    assert "Traceback" not in answer.err
    assert "  help  " in answer.err
    assert "compiling" not in answer.err
