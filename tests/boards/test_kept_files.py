# SPDX-License-Identifier: Apache-2.0
"""Built files are kept, and made again if they are not as they were made."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pillion.boards.build import cached_file
from pillion.errors import PillionError

DAMAGES: dict[str, Callable[[Path], object]] = {
    "emptied": lambda file: file.write_bytes(b""),
    "changed": lambda file: file.write_bytes(b"#!/bin/sh\nfalse\n"),
    "removed": lambda file: file.unlink(),
    "unsealed": lambda file: file.with_name(f"{file.name}.sha256").unlink(),
    "sealed by nobody": lambda file: file.with_name(f"{file.name}.sha256").write_bytes(b""),
    "sealed with other bytes": lambda file: file.with_name(f"{file.name}.sha256").write_bytes(b"\xff\xfe"),
}


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PILLION_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_kept_file_is_made_again_if_it_is_not_as_it_was(damage: str, cache: Path) -> None:
    made: list[Path] = []

    def make(out: Path) -> None:
        made.append(out)
        out.write_bytes(b"program")
        out.chmod(0o755)

    file = cached_file("abcd", "run", make)
    assert cached_file("abcd", "run", make) == file
    assert len(made) == 1
    DAMAGES[damage](file)
    assert cached_file("abcd", "run", make).read_bytes() == b"program"
    assert len(made) == 2
    assert file.stat().st_mode & 0o100


def test_a_cache_that_others_can_write_is_refused(cache: Path) -> None:
    cached_file("abcd", "run", lambda out: out.write_bytes(b"program") and None)
    assert cache.stat().st_mode & 0o777 == 0o700
    cache.chmod(0o777)
    with pytest.raises(PillionError, match="other users can write the cache") as caught:
        cached_file("abcd", "run", lambda out: None)
    assert "drwxrwxrwx" in caught.value.here
