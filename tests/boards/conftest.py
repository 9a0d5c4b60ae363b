# SPDX-License-Identifier: Apache-2.0
"""A cache and firmware folders of the tests' own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from small_firmware import WriteFirmware, write


@pytest.fixture
def write_firmware(tmp_path: Path) -> WriteFirmware:
    """A function that writes a firmware whose ops are the given C statements."""
    return lambda ops: write(tmp_path / f"firmware{len(list(tmp_path.iterdir()))}", ops)


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Nothing that an earlier run of the tests has built may serve this one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PILLION_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield
