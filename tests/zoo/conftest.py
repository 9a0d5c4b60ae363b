# SPDX-License-Identifier: Apache-2.0
"""One thread for nets this small: on a busy machine, threads that wait for each other take ten times longer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True, scope="package")
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
