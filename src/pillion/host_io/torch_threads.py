# SPDX-License-Identifier: Apache-2.0
"""The number of threads that PyTorch uses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def one_thread() -> Iterator[None]:
    """Limits PyTorch to one thread, which suits thousands of tiny computations: on a busy machine, waiting for
    other threads takes longer than the work, and on an idle one they gain nothing."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
