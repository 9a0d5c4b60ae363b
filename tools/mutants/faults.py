# SPDX-License-Identifier: Apache-2.0
"""What a fault is, and the random draw of faults."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import c_faults
import python_faults
from edits import Edit


@dataclass(frozen=True)
class Fault:
    """One changed line of one file, and the part whose tests have to notice."""

    part: str
    path: str
    """From the root of the project."""
    edit: Edit
    line: str
    """The line as it is."""

    @property
    def changed_line(self) -> str:
        """The line with the fault in it."""
        before = self.line.encode()
        return (before[: self.edit.begin] + self.edit.new.encode() + before[self.edit.end :]).decode()

    @property
    def key(self) -> str:
        """A name that stays when lines above are added or go."""
        text = "\0".join((self.path, self.line.strip(), self.changed_line.strip()))
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def planted(self, text: str) -> str:
        """The text of the file with the fault in it."""
        lines = text.split("\n")
        lines[self.edit.line - 1] = self.changed_line
        return "\n".join(lines)


def _faults_of(root: Path, part: str, path: Path) -> Iterator[Fault]:
    text = path.read_text("utf-8")
    edits = python_faults.edits(text) if path.suffix == ".py" else c_faults.edits(text)
    lines = text.split("\n")
    for edit in edits:
        yield Fault(part, str(path.relative_to(root)), edit, lines[edit.line - 1])


def in_random_order(root: Path, part: str, files: list[Path], seed: int) -> Iterator[Fault]:
    """Faults of a part, at most one on each line, always in the same order for the same seed and the same text."""
    by_line: dict[tuple[str, int], list[Fault]] = {}
    for path in sorted(files):
        for fault in _faults_of(root, part, path):
            by_line.setdefault((fault.path, fault.edit.line), []).append(fault)
    drawer = random.Random(f"{seed}:{part}")
    places = sorted(by_line)
    drawer.shuffle(places)
    for place in places:
        yield drawer.choice(by_line[place])
