# SPDX-License-Identifier: Apache-2.0
"""A folder that keeps each job's result in its own folder, written atomically.

Results are untrusted: a damaged one counts as missing, and its job runs again."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pillion.errors import PillionError
from pillion.host_io.atomic_files import errors_naming_path, folder_lock, read_text, write_parts, write_whole
from pillion.host_io.json_dataclasses import as_plain_data, object_from_json, parse_strict_json
from pillion.host_io.project_folders import check_paths
from pillion.sweep.job_result import JobOutput, JobResult
from pillion.sweep.jobs import Job

MARK, MARK_TEXT = "sweep.json", '{"what": "results of pillion sweep", "format": 1}\n'
JOBS, RESULT, JOB, LOG = "jobs", "result.json", "job.json", "log.txt"
_MOST_RESULT = 1 << 22
_NEW = ".new-"


class Store:
    """The folder of a sweep, locked while it is open."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def find(self, job: Job) -> JobResult | None:
        """Returns the stored result of a job, if any."""
        file = self.place(job) / RESULT
        try:
            return object_from_json(JobResult, parse_strict_json(read_text(file, "result", _MOST_RESULT)))
        except (PillionError, ValueError):
            return None

    def place(self, job: Job) -> Path:
        """Returns the path of a job's folder."""
        return self.folder / JOBS / job.key

    def keep(self, job: Job, done: JobOutput) -> None:
        """Writes a job's result over an earlier one."""
        folder, new = self.place(job), self.folder / JOBS / f"{_NEW}{job.key}"
        check_paths(done.files)
        with errors_naming_path(folder):
            shutil.rmtree(new, ignore_errors=True)
            for path, content in done.files.items():
                write_parts(new / path, content)
            write_parts(new / JOB, json.dumps(as_plain_data(job), indent=2, default=str) + "\n")
            if done.log:
                write_parts(new / LOG, done.log)
            write_parts(new / RESULT, json.dumps(as_plain_data(done.result), indent=2) + "\n")
            if folder.exists():
                shutil.rmtree(folder)
            os.replace(new, folder)

    def write(self, name: str, content: bytes) -> Path:
        """Writes a file of the whole sweep."""
        write_whole(self.folder / name, content)
        return self.folder / name


@contextmanager
def open_store(folder: Path) -> Iterator[Store]:
    """Opens the folder of a sweep, creating it if missing. Raises if another sweep has it open."""
    with errors_naming_path(folder):
        _require_sweep_folder(folder)
        (folder / JOBS).mkdir(parents=True, exist_ok=True)
        if not (folder / MARK).exists():
            write_whole(folder / MARK, MARK_TEXT.encode())
    with folder_lock(folder, waits=False):
        for left in (folder / JOBS).glob(f"{_NEW}*"):
            shutil.rmtree(left, ignore_errors=True)
        yield Store(folder)


def _require_sweep_folder(folder: Path) -> None:
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
