# SPDX-License-Identifier: Apache-2.0
"""How many threads PyTorch computes with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def one_thread() -> Iterator[None]:
    """Lets PyTorch compute with one thread, which suits thousands of tiny computations: on a busy machine, threads that wait for each other at every one of them take twenty times as
    long as one, and on an idle one they are no faster."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
