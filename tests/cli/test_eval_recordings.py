# SPDX-License-Identifier: Apache-2.0
"""`pillion eval --events`: programs with states on whole recordings."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
import pytest
from shell import Call, refused

import pillion as package

NETS = Path(__file__).with_name("bell_net.py")
STEPS = np.zeros((20, 1, 2, 4), np.float32)
STEPS[4, 0, 0] = STEPS[7:11, 0, 0] = STEPS[14, 0, 1] = 0.9

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def bells(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program of one step a second, which answers at 5, 8, 11 and 15 seconds."""
    folder = tmp_path_factory.mktemp("bells")
    np.savez(folder / "calibrate.npz", x=np.linspace(0, 1, 80, dtype=np.float32).reshape(10, 1, 2, 4))
    (folder / "data").mkdir()
    np.save(folder / "data" / "loud.npy", STEPS.transpose(1, 2, 0, 3).reshape(2, 80))
    (folder / "data" / "raw.raw").write_bytes(STEPS.tobytes() + b"rest")
    np.save(folder / "data" / "quiet.npy", np.zeros((2, 43), np.float32))
    return folder


def evaluate(pillion: Call, bells: Path, table: str, *more: object) -> object:
    (bells / "events.csv").write_text(table)
    model = (f"{NETS}:bells", "-t", "cortex-m33", "--calibrate", bells / "calibrate.npz")
    return pillion(
        "eval", *model, "-d", bells / "data", "--events", bells / "events.csv", "--rate", 1, *more, "--json"
    )


TABLE = """file,seconds,event
loud.npy,14,1
loud.npy,4,1
loud.npy,7,1
raw.raw,7.0,1
loud.npy,17.5,2
raw.raw,14.25,2
"""


def test_events_are_found_missed_repeated_or_false_alarms(pillion: Call, bells: Path) -> None:
    facts = evaluate(pillion, bells, TABLE, "--within", 4, "--agree", "reference", "--agree-samples", 2).facts
    loud, quiet, raw = facts["each"]
    assert loud == {
        **{"recording": "loud.npy", "seconds": 20, "events": 4, "found": 2},
        **{"missed_at": [14, 17.5], "false_alarms_at": [15], "repeated": 1},
    }
    assert (quiet["seconds"], quiet["events"], quiet["false_alarms_at"]) == (10, 0, [])
    assert (raw["found"], raw["missed_at"], raw["false_alarms_at"], raw["repeated"]) == (2, [], [5], 1)
    assert (facts["events"], facts["false_alarms"], facts["steps"], facts["recordings"]) == (6, 2, 50, 3)
    assert facts["found_share"] == pytest.approx(4 / 6, abs=1e-4)
    assert facts["false_alarms_per_hour"] == pytest.approx(2 / 50 * 3600)
    assert facts["mean_delay_seconds"] == pytest.approx((1 + 1 + 1 + 0.75) / 4, abs=1e-4)
    (same,) = facts["agreement"]
    assert (same["samples"], same["same"], same["bytes_different"]) == (30, 30, 0)


def test_gates_judge_events(pillion: Call, bells: Path) -> None:
    found = evaluate(pillion, bells, TABLE, "--within", 4, "--min-found", 0.7, "--max-false-alarms", 144)
    assert found.code == 1
    assert '"--min-found"' in found.out
    found = evaluate(pillion, bells, TABLE, "--within", 4, "--min-found", 0.6, "--max-false-alarms", 144)
    assert [gate["ok"] for gate in found.facts["gates"]] == [True, True]
    assert evaluate(pillion, bells, TABLE, "--within", 4, "--max-false-alarms", 143).code == 1
    empty = evaluate(pillion, bells, "file,seconds\n", "--min-found", 0.6)
    refused(empty, "--min-found has nothing to judge")


@pytest.mark.parametrize(
    ("table", "more", "says"),
    [
        ("file,seconds\nother.npy,1", (), "line 2: other.npy"),
        ("file,seconds\nloud.npy,nan", (), "line 2: nan"),
        ("file,seconds\nloud.npy,-1", (), "line 2: -1"),
        ("file,seconds,event\nloud.npy,1,0", (), "line 2: 0"),
        ("file,seconds,event\nloud.npy,1,bell", ("--classes", "none,ring"), "one of ring"),
        ("file,seconds,event\nloud.npy,1", (), "line 2: 2 cells"),
        ("name,when\nloud.npy,1", (), "name,when"),
        ("", (), "empty file"),
        (TABLE, ("--metric", "top1"), "metrics of their own"),
        (TABLE, ("--only-int8",), "metrics of their own"),
        (TABLE, ("--fit", "crop"), "--fit is for samples, not for recordings"),
        (TABLE, ("--label-column", "class"), "--label-column is for samples"),
        (TABLE, ("--within", 0), "--within 0 is no length of time"),
        (TABLE, ("--min-accuracy", 0.5), "--min-accuracy has nothing to judge"),
    ],
)
def test_tables_and_options_are_refused(
    pillion: Call, bells: Path, table: str, more: tuple[object, ...], says: str
) -> None:
    refused(evaluate(pillion, bells, table, *more), says)


def test_recordings_that_do_not_fit_are_refused(pillion: Call, bells: Path, tmp_path: Path) -> None:
    table, net = tmp_path / "events.csv", (f"{NETS}:bells", "-t", "cortex-m33")
    common = (*net, "--calibrate", bells / "calibrate.npz", "--events", table)
    table.write_text("file,seconds\n")
    np.save(tmp_path / "turned.npy", np.zeros((80, 2), np.float32))
    refused(
        pillion("eval", *common, "-d", tmp_path / "turned.npy", "--rate", 1), "longer along its axis of time"
    )
    np.save(tmp_path / "short.npy", np.zeros((2, 3), np.float32))
    refused(pillion("eval", *common, "-d", tmp_path / "short.npy", "--rate", 1), "shape [2, 3]")
    refused(pillion("eval", *common, "-d", bells / "data" / "loud.npy"), "no --rate")
    refused(pillion("eval", *common, "-d", table), "there are no recordings")
    small = Path(__file__).with_name("small_net.py")
    refused(
        pillion("eval", f"{small}:Net", "-t", "cortex-m33", "-d", bells / "data", "--events", table),
        "does not answer events",
        "no state",
    )


def test_event_tables_may_name_recordings_beyond_the_limit(pillion: Call, bells: Path) -> None:
    facts = evaluate(pillion, bells, TABLE, "--within", 4, "--limit", 1).facts
    assert [one["recording"] for one in facts["each"]] == ["loud.npy"]


def test_damaged_recordings_end_in_a_message(pillion: Call, bells: Path, tmp_path: Path) -> None:
    table, data = tmp_path / "events.csv", tmp_path / "data"
    table.write_text("file,seconds\n")
    common = ("eval", f"{NETS}:bells", "-t", "cortex-m33", "--calibrate", bells / "calibrate.npz")
    for number, (name, raw, says) in enumerate(
        (
            ("nan.raw", np.full(8, np.nan, np.float32).tobytes(), "not finite"),
            ("empty.npy", b"PK\x05\x06" + bytes(18), "0 arrays"),
        )
    ):
        (folder := data / str(number)).mkdir(parents=True)
        (folder / name).write_bytes(raw)
        refused(pillion(*common, "-d", folder, "--events", table, "--rate", 1), says)
    with wave.open(str(tmp_path / "still.wav"), "wb") as file:
        file.setparams((1, 2, 16, 0, "NONE", ""))
        file.writeframes(bytes(16))
    sound = bytearray((tmp_path / "still.wav").read_bytes())
    sound[24:28] = bytes(4)  # the rate
    (tmp_path / "still.wav").write_bytes(sound)
    stream = (f"{NETS}:knock", "-t", "cortex-m33", "--stream", "x:1", "--hop", 8)
    refused(pillion("eval", *stream, "-d", tmp_path / "still.wav", "--events", table), "a rate of 0")


def test_a_stream_hears_a_wav_file(pillion: Call, tmp_path: Path) -> None:
    signal = np.zeros(32 * 8, np.int16)
    signal[40:48] = signal[160:168] = 30000
    with wave.open(str(tmp_path / "knocks.wav"), "wb") as file:
        file.setparams((1, 2, 16, 0, "NONE", ""))
        file.writeframes(signal.tobytes())
    (tmp_path / "events.csv").write_text("file,seconds\nknocks.wav,2.5\nknocks.wav,10\n")
    np.savez(tmp_path / "calibrate.npz", x=np.linspace(0, 1, 320, dtype=np.float32).reshape(10, 32))
    stream = (
        "-t",
        "cortex-m33",
        "-q",
        "--calibrate",
        tmp_path / "calibrate.npz",
        "--stream",
        "x:1",
        "--hop",
        8,
    )
    made = pillion("compile", "-m", f"{NETS}:knock", *stream, "-o", tmp_path / "fw")
    assert made.code == 0, made.err
    recordings = ("-d", tmp_path, "--events", tmp_path / "events.csv")
    facts = pillion("eval", tmp_path / "fw", *recordings, "--within", 2, "--json").facts
    (row,) = facts["each"]
    # The window is full after 4 steps, and the detector rests in its first 3.
    assert (row["found"], row["missed_at"], row["false_alarms_at"]) == (2, [], [])
    assert facts["mean_delay_seconds"] == pytest.approx(0.5, abs=0.01)
    found = package.evaluate_events(tmp_path / "fw", tmp_path, tmp_path / "events.csv", within=2)
    assert found.recordings[0].steps == 32
    assert found.metrics["found_share"] == 1
    refused(
        pillion("eval", tmp_path / "fw", "-d", tmp_path / "calibrate.npz"),
        "no answers to samples",
        "--events",
    )
