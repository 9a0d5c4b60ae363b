# SPDX-License-Identifier: Apache-2.0
"""Streams: rewrites the graph of a whole window into that of a hop, which computes a few new frames in each run
and keeps the rows that later runs need.

Outputs equal those of the window, byte for byte; everything else is refused. The access maps of ops
(`Op.access`) determine which rows depend on which; this package knows no op by name, except those that may end
time."""
