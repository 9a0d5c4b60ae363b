# SPDX-License-Identifier: Apache-2.0
"""C that crashes, never ends, prints or forks stays in its process: an error that names the op, and nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from small_firmware import COUNT, ORDINARY_OPS, WriteFirmware, expected_outputs, needs_host

from pillion.boards import host
from pillion.boards.host import HostModel
from pillion.errors import PillionError
from pillion.host_io import process_guard

pytestmark = needs_host

CRASHES = {
    "SIGSEGV": "volatile int *volatile nowhere = (volatile int *)0; *nowhere = 1;",
    "SIGILL": "__builtin_trap();",
    "SIGFPE": "volatile int nothing = 0; a[0] = (int8_t)(7 / nothing);",
    "SIGABRT": "extern void abort(void); abort();",
    "SIGKILL": "extern int raise(int); (void)raise(9);",
    "exit code 7": "extern void exit(int); exit(7);",
    "closed its pipes": "extern int close(int); for (int i = 0; i < 64; i++) { (void)close(i); } test_endless();",
}
"""What the error names, and a statement."""
ENDLESS = {"ready": ORDINARY_OPS["add"], "turns": "test_endless();"}


def processes_of(firmware: Path) -> list[int]:
    """The processes whose command line has the program that was built of a firmware."""
    image = str(host.build_host_program(firmware)).encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if (
                image in (folder / "cmdline").read_bytes()
                and "State:\tZ" not in (folder / "status").read_text()
            ):
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def wait_for(condition: Callable[[], object], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not become true in time"
        time.sleep(0.02)


def run_before_main(firmware: Path, statement: str, priority: str = "") -> Path:
    """The firmware, whose model now has a statement that is executed before `main`."""
    with (firmware / "model/model.c").open("a") as file:
        file.write(
            f"static void first(void) __attribute__((constructor{priority}));\n"
            f"static void first(void) {{ {statement} }}\n"
        )
    return firmware


linux = pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="looks for processes in /proc")


@pytest.mark.turns(3)
@pytest.mark.parametrize("named", CRASHES)
def test_a_crash_names_the_signal_and_the_op(write_firmware: WriteFirmware, named: str) -> None:
    model = HostModel(write_firmware({**ORDINARY_OPS, "wild": f"{{ {CRASHES[named]} }}"}))
    with pytest.raises(PillionError, match="tiny crashed on this computer") as error:
        model.run([bytes(COUNT)])
    assert named in error.value.here
    assert "in op 2 of 3, `wild`" in error.value.here
    assert error.value.help
    with pytest.raises(PillionError, match="crashed"):
        model.run([bytes(COUNT)])


def test_a_stack_without_end_is_a_crash(write_firmware: WriteFirmware) -> None:
    with pytest.raises(PillionError, match="SIGSEGV"):
        HostModel(
            write_firmware({"deep": "volatile int turns = 1; if (turns) { run(a, after_op); } turns++;"})
        ).run([bytes(COUNT)])


@linux
def test_an_endless_loop_ends_in_time(write_firmware: WriteFirmware) -> None:
    firmware = write_firmware(ENDLESS)
    model = HostModel(firmware, timeout=0.5)
    start = time.monotonic()
    with pytest.raises(PillionError, match="tiny did not finish") as error:
        model.run([bytes(COUNT)])
    assert time.monotonic() - start < 20
    assert (error.value.rule, error.value.here) == ("a run ends within 0.5 s", "in op 1 of 2, `turns`")
    assert processes_of(firmware) == []


@pytest.mark.parametrize(
    ("statement", "how"), [("for (;;) {}", "did not finish"), ("__builtin_trap();", "SIGILL")]
)
def test_crashes_before_main_are_caught(write_firmware: WriteFirmware, statement: str, how: str) -> None:
    firmware = run_before_main(write_firmware(ORDINARY_OPS), statement)
    with pytest.raises(PillionError, match=how):
        HostModel(firmware, timeout=0.5)


def test_printed_text_is_not_taken_for_outputs(
    write_firmware: WriteFirmware, capfd: pytest.CaptureFixture[str]
) -> None:
    model = HostModel(
        write_firmware({"says": '{ extern int puts(const char *); (void)puts("here"); }', **ORDINARY_OPS})
    )
    assert model.run([bytes(COUNT)]) == expected_outputs(bytes(COUNT))
    model.close()
    assert capfd.readouterr().out == ""


@linux
def test_child_processes_end_with_the_model(write_firmware: WriteFirmware) -> None:
    firmware = write_firmware(
        {"forks": "{ extern int fork(void); if (fork() == 0) { test_endless(); } }", **ORDINARY_OPS}
    )
    model = HostModel(firmware)
    assert model.run([bytes(COUNT)]) == expected_outputs(bytes(COUNT))
    assert len(processes_of(firmware)) == 2
    del model
    wait_for(lambda: not processes_of(firmware))


def test_one_process_runs_all_samples(write_firmware: WriteFirmware, monkeypatch: pytest.MonkeyPatch) -> None:
    firmware = write_firmware(ORDINARY_OPS)
    host.build_host_program(firmware)
    started: list[object] = []
    start = subprocess.Popen.__init__

    def counted(self: subprocess.Popen[bytes], *args: object, **options: object) -> None:
        if args[0] is not process_guard._SHELL:
            started.append(args)
        start(self, *args, **options)  # type: ignore[call-overload]  # any arguments

    monkeypatch.setattr(subprocess.Popen, "__init__", counted)
    model = HostModel(firmware)
    for number in range(1000):
        x = number.to_bytes(COUNT, "little")
        assert model.run([x]) == expected_outputs(x)
    assert len(started) == 1


def test_a_model_runs_again_after_an_arena_violation(write_firmware: WriteFirmware) -> None:
    """The error is of one run; answers and questions stay in step."""
    model = HostModel(write_firmware({**ORDINARY_OPS, "wild": "if (a[0] == 1) { test_write_at(a, -1); }"}))
    with pytest.raises(PillionError, match="outside its arena"):
        model.run([b"\1" + bytes(COUNT - 1)])
    assert model.run([bytes(COUNT)]) == expected_outputs(bytes(COUNT))


def test_big_samples_go_through(write_firmware: WriteFirmware) -> None:
    """More than a pipe holds, there and back."""
    size = 3_000_001
    firmware = write_firmware({"flip": f"for (int i = 0; i < {size}; i++) {{ a[i] = (int8_t)~a[i]; }}"})
    for file in ("model.c", "model.h"):
        text = (firmware / "model" / file).read_text()
        text = text.replace('"x", 0, 13', f'"x", 0, {size}').replace("ARENA_BYTES 48", f"ARENA_BYTES {size}")
        (firmware / "model" / file).write_text(text.replace('"sum", 16, 13', f'"sum", 0, {size}'))
    x = bytes(range(256)) * (size // 256 + 1)
    assert HostModel(firmware).run([x[:size]])[0] == bytes(255 - b for b in x[:size])


def test_a_place_outside_the_arena_is_refused(write_firmware: WriteFirmware) -> None:
    firmware = write_firmware(ORDINARY_OPS)
    text = (firmware / "model/model.c").read_text()
    (firmware / "model/model.c").write_text(text.replace('"sum", 16, 13', '"sum", 40, 13'))
    with pytest.raises(PillionError, match="does not describe its model") as error:
        HostModel(firmware)
    assert error.value.here == "`sum` does not lie in the arena of 48 bytes"


PARENT = """
import pathlib, sys
from pillion.boards.host import HostModel
try:
    HostModel(pathlib.Path(sys.argv[1]), timeout=600).run([bytes(13)])
except KeyboardInterrupt:
    sys.exit(130)
"""


BEFORE_MAIN = {"in an op": None, "before main": "", "first of all": "(101)"}
"""Where a model does not end, and the priority of its constructor if that is before `main`."""


@pytest.fixture(params=BEFORE_MAIN)
def endless_parent(
    write_firmware: WriteFirmware, request: pytest.FixtureRequest
) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """A process that waits for a model without end, and the model's firmware."""
    firmware, priority = write_firmware(ENDLESS), BEFORE_MAIN[request.param]
    if priority is not None:
        run_before_main(firmware, "for (;;) {}", priority)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", PARENT, str(firmware)], env=environment) as parent:
        wait_for(lambda: processes_of(firmware) or parent.poll() is not None)
        time.sleep(0.2)
        yield parent, firmware
        parent.kill()


@pytest.mark.turns(8)
@linux
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_model_runs_on_without_its_parent(
    endless_parent: tuple[subprocess.Popen[bytes], Path], number: signal.Signals
) -> None:
    parent, firmware = endless_parent
    assert len(processes_of(firmware)) == 1
    parent.send_signal(number)
    assert parent.wait(20) == (130 if number == signal.SIGINT else -number)
    wait_for(lambda: not processes_of(firmware))
