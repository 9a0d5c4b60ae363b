# SPDX-License-Identifier: Apache-2.0
"""Which parts of a graph run a few rows at a time, so that no whole tensor need lie between their ops."""

from __future__ import annotations

from pillion.stripes.plan import Stripe, striped
from pillion.stripes.search import find_stripes
from pillion.stripes.wish import MemoryWish, memory_wish

__all__ = ["MemoryWish", "Stripe", "find_stripes", "memory_wish", "striped"]
