# SPDX-License-Identifier: Apache-2.0
"""How commands end: whatever standard output and error are, whatever lies behind a path, and whenever Ctrl-C is pressed."""

from __future__ import annotations

import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from shell import Call

from nightly import part_of
from pillion.emitters.tflite import emit
from pillion.ir.graph import Graph
from pillion.ops import Conv2d

LISTS = (
    *(["targets"], ["models"], ["ops"], ["ops", "--pytorch"], ["ops", "--device", "neutron-n3-64"]),
    *(
        ["ops", "--device", "cortex-m55"],
        ["--help"],
        ["compile", "--help"],
        ["nothing"],
        ["ops", "--device", "×→…"],
    ),
)
OF_A_MODEL = (
    ["compile", "-m", "small.tflite", "-t", "imxrt700", "-o", "out.pte"],
    ["compile", "-m", "small.tflite", "-t", "cortex-m33", "-o", "größe/模型"],
    ["explain", "-m", "small.tflite", "-t", "imxrt700"],
    ["explain", "-m", "small.tflite", "-t", "cortex-m55"],
    ["run", "out.pte", "--on", "reference"],
    ["verify", "größe"],
    ["run", "größe/模型.pte"],
)
ALL_IN_ONE = """
import os, sys
from pillion.cli import main
for arguments in {commands!r}:
    sys.argv[1:] = [os.fsdecode(word.encode()) for word in arguments]
    try:
        main()
    except SystemExit as end:
        assert end.code in (None, 0, 1, 2), end.code
print("all")
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    op = list(Conv2d.examples())[2]
    (tmp_path / "small.tflite").write_bytes(emit(Graph("g", op.activations, (op,), op.results)))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.turns(4)
@pytest.mark.parametrize(
    "words",
    part_of(
        [
            {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
            {"PYTHONIOENCODING": "ascii"},
            {"PYTHONIOENCODING": "cp1252"},
        ],
        3,
    ),
)
def test_every_command_can_be_said_in_any_encoding(words: dict[str, str], folder: Path) -> None:
    Path("all.py").write_text(ALL_IN_ONE.format(commands=[*LISTS, *OF_A_MODEL]), "utf-8")
    done = subprocess.run([sys.executable, "all.py"], env={**os.environ, **words}, capture_output=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.endswith(b"all\n")
    assert b"Traceback" not in done.stderr


def shell(command: str) -> subprocess.CompletedProcess[str]:
    whole = command.replace("pillion", f"{sys.executable} -m pillion")
    return subprocess.run(["bash", "-c", whole], capture_output=True, text=True, timeout=120)


@pytest.mark.turns(4)
@pytest.mark.parametrize(
    ("command", "code", "out"),
    part_of(
        [
            ("pillion ops --json | { exec <&-; sleep 1; }; exit ${PIPESTATUS[0]}", 141, ""),
            ("for i in 1 2 3 4; do pillion ops --json; done | head -1", 0, "[\n"),
            ("pillion ops --pytorch | { exec <&-; sleep 1; }; exit ${PIPESTATUS[0]}", 141, ""),
            ("pillion targets 2>&-", 0, None),
            ("pillion targets >&-", 0, ""),
            ("pillion targets <&- >&- 2>&-", 0, ""),
            ("pillion run gone 2>&-", 2, ""),
            ("pillion compile -m small.tflite -t cortex-m33 -o out.pte >&- 2>&-", 0, ""),
        ],
        2,
    ),
)
def test_closed_and_broken_streams(command: str, code: int, out: str | None, folder: Path) -> None:
    done = shell(command)
    assert (done.returncode, done.stderr) == (code, "")
    assert out is None or done.stdout == out
    if "compile" in command:
        assert Path("out.pte").read_bytes()[4:8] == b"ET12"  # nobody's words went into the file


READY = """
from pillion.cli import error_boundary, main
begin = error_boundary._replace_closed_streams
def ready():
    begin()
    print("ready", flush=True)
error_boundary._replace_closed_streams = ready
main()
"""


@pytest.mark.parametrize("seconds", part_of([0.0, 0.05, 0.3, 0.8, 1.6], 3))
def test_an_interrupt_is_one_line(seconds: float, folder: Path) -> None:
    """During imports as well as during work."""
    process = subprocess.Popen(
        [sys.executable, "-c", READY, "compile", "-m", "mv2", "-t", "cortex-m33", "-q", "-o", "out"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert [line for line in err.splitlines() if not line.startswith("warning:")] == ["interrupted"]
    assert [p.name for p in folder.iterdir()] == ["small.tflite"]


@pytest.fixture
def strange(folder: Path) -> Iterator[Path]:
    """Paths behind which no file lies, each with every suffix that a command takes."""
    (folder / "net.py").write_text(
        "import torch\nNet = lambda: torch.nn.Linear(3, 3)\nexample_inputs = lambda: (torch.zeros(1, 3),)"
    )
    (folder / "good.pte").write_bytes(b"")
    open_sockets = []
    for suffix in ("tflite", "pte", "pt2", "npy", "npz", "py"):
        os.mkfifo(folder / f"pipe.{suffix}")
        (folder / f"folder.{suffix}").mkdir()
        (folder / f"device.{suffix}").symlink_to("/dev/zero")
        (folder / f"loop.{suffix}").symlink_to(folder / f"loop.{suffix}")
        (folder / f"empty.{suffix}").touch()
        with (folder / f"huge.{suffix}").open("wb") as file:
            file.truncate(3 << 30)  # sparse
        held = socket.socket(socket.AF_UNIX)
        held.bind(str(folder / f"socket.{suffix}"))
        open_sockets.append(held)
    yield folder
    for held in open_sockets:
        held.close()


USES = {
    "tflite": ("compile", "-m", "PATH", "-t", "cortex-m33", "-o", "out"),
    "pte": ("compile", "-m", "PATH", "-t", "cortex-m33", "-o", "out"),
    "pt2": ("compile", "-m", "PATH", "-t", "cortex-m33", "-q", "-o", "out"),
    "py": ("compile", "-m", "PATH:Net", "-t", "cortex-m33", "-q", "-o", "out"),
    "npy": ("run", "out.pte", "--on", "reference", "--input", "PATH"),
    "npz": ("compile", "-m", "net.py:Net", "-t", "cortex-m33", "-q", "-o", "out", "--weights", "PATH"),
}
CALIBRATE = ("compile", "-m", "net.py:Net", "-t", "cortex-m33", "-q", "-o", "out", "--calibrate", "PATH")
MORE_USES = [
    *USES.items(),
    ("npz", CALIBRATE),
    ("npy", CALIBRATE),
    ("pte", ("verify", "PATH")),
    ("pte", ("run", "PATH")),
    ("npy", ("verify", "-m", "small.tflite", "-t", "cortex-m33", "--input", "PATH")),
    ("tflite", ("explain", "-m", "PATH", "-t", "imxrt700")),
    ("py", ("train", "PATH:train", "-m", "PATH:Net", "-t", "cortex-m33", "-o", "out")),
]


@pytest.mark.turns(7)
@pytest.mark.parametrize("use", MORE_USES, ids=lambda use: f"{use[1][0]}-{use[0]}-{use[1][-2]}")
def test_special_files_are_refused_at_once(
    use: tuple[str, tuple[str, ...]], strange: Path, pillion: Call
) -> None:
    suffix, command = use
    assert pillion(*OF_A_MODEL[0]).code == 0
    signal.signal(signal.SIGALRM, lambda *_: pytest.fail("it hangs"))
    for kind in ("pipe", "folder", "device", "loop", "empty", "huge", "socket"):
        if kind == "folder" and "--calibrate" in command:
            continue  # a folder of files is what is asked for; this one is empty
        signal.alarm(20)
        answer = pillion(*(word.replace("PATH", f"{kind}.{suffix}") for word in command))
        signal.alarm(0)
        assert answer.code == 2, (kind, answer)
        lines = [
            line.split()[0] for line in answer.err.splitlines() if line.startswith("  ") and line[2] != " "
        ]
        assert lines == ["rule", "here", "help"], (kind, answer)
        assert not Path("out").exists()


@pytest.mark.turns(2)
@pytest.mark.parametrize("length", [200, 255, 256, 5000])
def test_long_names_are_written_or_refused(length: int, folder: Path, pillion: Call) -> None:
    for suffix in (".pte", ".tflite", ""):
        name = "n" * (length - len(suffix)) + suffix
        answer = pillion("compile", "-m", "small.tflite", "-t", "cortex-m33", "-o", name)
        assert answer.code == (0 if length < 256 else 2), answer
        assert length > 255 or Path(name).exists()
        for command in (("run", name), ("verify", name), ("explain", "-m", name, "-t", "cortex-m33")):
            assert length < 256 or pillion(*command).code == 2


def test_headers_that_speak_of_more_than_there_is(folder: Path, pillion: Call) -> None:
    """No memory is taken for what a file does not hold."""
    assert pillion(*OF_A_MODEL[0]).code == 0
    np.save("x.npy", np.zeros((1, 7), np.int8))
    raw = Path("x.npy").read_bytes()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for shape in (b"(99999999999,), ", b"(2**40,), ", b"(1, 7, 9), ", b"(-1,), "):
        Path("x.npy").write_bytes(
            raw.replace(b"(1, 7), ".ljust(len(shape)), shape).replace(b"(1, 7), ", shape)
        )
        assert pillion("run", "out.pte", "--on", "reference", "--input", "x.npy").code == 2
    np.save("x.npy", np.array([{"a": 1}]), allow_pickle=True)
    answer = pillion("run", "out.pte", "--on", "reference", "--input", "x.npy")
    assert "not read" in answer.err
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kilobytes
