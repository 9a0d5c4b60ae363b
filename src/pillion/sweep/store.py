# SPDX-License-Identifier: Apache-2.0
"""A folder that keeps what jobs gave: each in a folder of its own, there whole or not at all.

Results are read as what anybody may have written: one that is damaged counts as none, and its job is done again."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pillion.errors import PillionError
from pillion.outside.declared import build, parse, plain
from pillion.outside.files import locked, put, read_text, write_whole, writing
from pillion.outside.folders import check_paths
from pillion.sweep.jobs import Job
from pillion.sweep.result import Done, Result

MARK, MARK_TEXT = "sweep.json", '{"what": "results of pillion sweep", "format": 1}\n'
JOBS, RESULT, JOB, LOG = "jobs", "result.json", "job.json", "log.txt"
_MOST_RESULT = 1 << 22
_NEW = ".new-"


class Store:
    """The folder of a sweep, which is ours alone as long as it is open."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def find(self, job: Job) -> Result | None:
        """Gives the result of a job that was done before."""
        file = self.place(job) / RESULT
        try:
            return build(Result, parse(read_text(file, "result", _MOST_RESULT)))
        except (PillionError, ValueError):
            return None

    def place(self, job: Job) -> Path:
        """Gives the folder of a job, whether it is there or not."""
        return self.folder / JOBS / job.key

    def keep(self, job: Job, done: Done) -> None:
        """Writes what a job gave, in place of what it gave before."""
        place, new = self.place(job), self.folder / JOBS / f"{_NEW}{job.key}"
        check_paths(done.files)
        with writing(place):
            shutil.rmtree(new, ignore_errors=True)
            for path, content in done.files.items():
                put(new / path, content)
            put(new / JOB, json.dumps(_described(job), indent=2, default=str) + "\n")
            if done.log:
                put(new / LOG, done.log)
            put(new / RESULT, json.dumps(plain(done.result), indent=2) + "\n")
            if place.exists():
                shutil.rmtree(place)
            os.replace(new, place)

    def write(self, name: str, content: bytes) -> Path:
        """Writes a file of the whole sweep."""
        write_whole(self.folder / name, content)
        return self.folder / name


def _described(job: Job) -> Mapping[str, Any]:
    """A job in words: for people, nothing reads it."""
    return {"model": job.model, "source": job.source, "values": dict(job.values), **_rest(job)}


def _rest(job: Job) -> Mapping[str, Any]:
    return {
        "measure": plain(job.measure),
        "contents": job.contents,
        "pillion": job.pillion,
        "tools": job.tools,
    }


@contextmanager
def opened(folder: Path) -> Iterator[Store]:
    """Opens the folder of a sweep, which is made where it is missing. Two sweeps cannot have the same one open."""
    with writing(folder):
        _want_ours(folder)
        (folder / JOBS).mkdir(parents=True, exist_ok=True)
        if not (folder / MARK).exists():
            write_whole(folder / MARK, MARK_TEXT.encode())
    with locked(folder, seconds=0):
        for left in (folder / JOBS).glob(f"{_NEW}*"):
            shutil.rmtree(left, ignore_errors=True)
        yield Store(folder)


def _want_ours(folder: Path) -> None:
    if not folder.exists():
        return
    is_ours = folder.is_dir() and ((folder / MARK).is_file() or not any(folder.iterdir()))
    if not is_ours:
        raise PillionError(
            f"{folder} is not the folder of a sweep",
            rule="results go to a new or empty folder, or to that of an earlier sweep",
            here=f"there is no {MARK} in it" if folder.is_dir() else "a file",
            help="choose another one with -o",
        )
