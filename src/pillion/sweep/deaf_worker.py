# SPDX-License-Identifier: Apache-2.0
"""Loaded by each worker on this computer, those included that take the place of dead ones: Ctrl-C is for who started them."""

from __future__ import annotations

import signal


def dask_setup(worker: object) -> None:
    """Ignores Ctrl-C from now on. Dask calls this by its name in each worker that starts."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
