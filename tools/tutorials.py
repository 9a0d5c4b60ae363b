# SPDX-License-Identifier: Apache-2.0
"""Runs a tutorial as its reader would: every block of the page, in order, in an empty folder, and compares what the page shows.

    title="net.py"                    the block is a file of that name, and is written
    sh, python                        without a title: the block is run; all Python of a page shares one session
    text title="output"               what the block before it prints; lines of `…` stand for any lines, `…` in a line for anything
    text title="output (± 5 %)"       the same, but each number may differ by so much, or by one in its last digit

Other blocks are only read.
Files that lie in examples/PAGE are copied into the page by `make docs`; `--update` writes what was printed into it."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "docs" / "tutorials"
EXAMPLES = ROOT / "examples"
BLOCK = re.compile(r'^```(\w+)(?: title="([^"]*)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
SHOWN = re.compile(r"output(?: \(± (\d+) %\))?")
NUMBER = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?")
ANYTHING = "…"
END = "--- end of block ---"
SECONDS = 300
"""After which a tutorial is stopped."""

PYTHON_SESSION = f"""
import json, sys, traceback
names = {{"__name__": "__main__"}}
sys.path.insert(0, "")
for line in sys.stdin:
    try:
        exec(compile(json.loads(line), "<tutorial>", "exec"), names)
    except BaseException:
        traceback.print_exc(file=sys.stdout)
        print("{END} 1", flush=True)
        sys.exit(1)
    print("{END} 0", flush=True)
"""


@dataclass(frozen=True)
class Block:
    """One fenced block of a page."""

    language: str
    title: str
    text: str
    line: int

    @property
    def is_shown(self) -> bool:
        return SHOWN.fullmatch(self.title) is not None

    @property
    def is_file(self) -> bool:
        return bool(self.title) and not self.is_shown

    @property
    def is_run(self) -> bool:
        return not self.title and self.language in ("sh", "python")

    @property
    def tolerance(self) -> float:
        found = SHOWN.fullmatch(self.title)
        return int(found[1]) / 100 if found and found[1] else 0.0


class TutorialError(Exception):
    """A page that is not what happens."""


def blocks(page: str) -> list[Block]:
    """Gives the fenced blocks of a page, in order."""
    return [Block(m[1], m[2] or "", m[3], page.count("\n", 0, m.start()) + 1) for m in BLOCK.finditer(page)]


# ---- comparing ----


def same_number(shown: str, printed: str, tolerance: float) -> bool:
    """Whether a printed number is near enough to the one that the page shows."""
    wanted, got = (float(number.replace(",", "")) for number in (shown, printed))
    decimals = len(shown.partition(".")[2])
    return abs(wanted - got) <= max(abs(wanted) * tolerance, 10.0**-decimals * 1.001)


def fits(shown: str, printed: str) -> bool:
    """Whether a line is the one that is shown, where `…` and the blanks around it may be anything."""
    parts = re.split(rf"\s*{ANYTHING}\s*", shown)
    return re.fullmatch(".*".join(map(re.escape, parts)), printed) is not None


def same_line(shown: str, printed: str, tolerance: float) -> bool:
    """Whether a printed line is the one that the page shows. With a tolerance, columns may be of other widths."""
    if not tolerance:
        return fits(shown.rstrip(), printed.rstrip())
    wanted, found = (re.sub(r"\s+", " ", NUMBER.sub("#", line)).strip() for line in (shown, printed))
    if not fits(wanted, found):
        return False
    numbers, others = NUMBER.findall(shown), NUMBER.findall(printed)
    if ANYTHING in shown:
        return all(any(same_number(one, other, tolerance) for other in others) for one in numbers)
    return all(same_number(one, other, tolerance) for one, other in zip(numbers, others, strict=True))


def same_text(shown: list[str], printed: list[str], tolerance: float) -> bool:
    """Whether what was printed is what the page shows, line by line."""
    if not shown:
        return not printed
    if shown[0].strip() == ANYTHING:
        return any(same_text(shown[1:], printed[skip:], tolerance) for skip in range(len(printed) + 1))
    return (
        bool(printed)
        and same_line(shown[0], printed[0], tolerance)
        and same_text(shown[1:], printed[1:], tolerance)
    )


# ---- running ----


def environment(bin_folder: Path) -> dict[str, str]:
    """Gives the environment of a reader who has installed Pillion into the Python that runs this."""
    for name, module in (("pillion", "-m pillion "), ("python", "")):
        script = bin_folder / name
        script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {module}"$@"\n')
        script.chmod(0o755)
    path = f"{bin_folder}{os.pathsep}{os.environ['PATH']}"
    fixed = {"COLUMNS": "100", "TERMINAL_WIDTH": "100", "PYTHONHASHSEED": "0"}
    return {**os.environ, **fixed, "PATH": path, "OMP_NUM_THREADS": "1"}  # tests run side by side


class Reader:
    """Runs blocks in a folder, and keeps one session of Python."""

    def __init__(self, folder: Path, bin_folder: Path) -> None:
        self.folder, self.environment = folder, environment(bin_folder)
        self.python: subprocess.Popen[str] | None = None

    def __enter__(self) -> Reader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.python is not None:
            self.python.kill()
            self.python.communicate()

    def run(self, block: Block) -> str:
        """Runs a block, and gives what it prints."""
        status, text = self.run_shell(block.text) if block.language == "sh" else self.run_python(block.text)
        if status != 0:
            raise TutorialError(f"line {block.line}: the block ends with exit code {status}:\n{text}")
        return text

    def run_shell(self, text: str) -> tuple[int, str]:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", text],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        return done.returncode, done.stdout

    def run_python(self, text: str) -> tuple[int, str]:
        if self.python is None:
            self.python = subprocess.Popen(
                [sys.executable, "-u", "-c", PYTHON_SESSION],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        assert self.python.stdin
        assert self.python.stdout
        self.python.stdin.write(json.dumps(text) + "\n")
        self.python.stdin.flush()
        lines: list[str] = []
        for line in self.python.stdout:
            if line.startswith(END):
                return int(line.split()[-1]), "".join(lines)
            lines.append(line)
        return self.python.wait(), "".join(lines)


def follow(page: Path, folder: Path, bin_folder: Path) -> Iterator[tuple[Block, str]]:
    """Does all that a page says, in a folder, and gives each block that shows an output with what was printed."""
    printed = ""
    with Reader(folder, bin_folder) as reader:
        for block in blocks(page.read_text("utf-8")):
            if block.is_shown:
                yield block, printed
            elif block.is_file:
                (folder / block.title).parent.mkdir(parents=True, exist_ok=True)
                (folder / block.title).write_text(block.text, "utf-8")
            elif block.is_run:
                printed = reader.run(block)


def check(page: Path, folder: Path, bin_folder: Path) -> int:
    """Follows a page and compares; gives the number of outputs that were compared."""
    count = 0
    for shown, printed in follow(page, folder, bin_folder):
        count += 1
        if not same_text(shown.text.splitlines(), printed.splitlines(), shown.tolerance):
            raise TutorialError(
                f"{page.name}, line {shown.line}: the page shows\n{shown.text}and this was printed\n{printed}"
            )
    return count


def update(page: Path, folder: Path, bin_folder: Path) -> None:
    """Follows a page and writes what was printed where it shows something else."""
    text = page.read_text("utf-8")
    for shown, printed in follow(page, folder, bin_folder):
        if not same_text(shown.text.splitlines(), printed.splitlines(), shown.tolerance):
            new = replace(shown, text="".join(f"{line.rstrip()}\n" for line in printed.splitlines()))
            title = f'```{shown.language} title="{shown.title}"\n'
            text = text.replace(title + shown.text + "```", title + new.text + "```", 1)
            print(f"line {shown.line}: renewed")
    page.write_text(text, "utf-8")


# ---- the files of examples/ ----


def with_files(page: Path) -> str:
    """Gives a page with the files of its folder in examples/ as they are."""

    def filled(found: re.Match[str]) -> str:
        source = EXAMPLES / page.stem / (found[2] or "")
        if not found[2] or not source.is_file():
            return found[0]
        return f'```{found[1]} title="{found[2]}"\n{source.read_text("utf-8")}```'

    return BLOCK.sub(filled, page.read_text("utf-8"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("pages", nargs="*", type=Path, default=sorted(PAGES.glob("*.md")))
    parser.add_argument("--update", action="store_true", help="write what is printed into the page")
    arguments = parser.parse_args()
    for page in arguments.pages:
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as tools:
            print(page.name, flush=True)
            (update if arguments.update else check)(page, Path(folder), Path(tools))


if __name__ == "__main__":
    main()
