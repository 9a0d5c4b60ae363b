# SPDX-License-Identifier: Apache-2.0
"""Streams: the graph of a whole window becomes that of a hop, a few new frames in each run, with the rows kept that later runs need.

The answers are those of the window, byte for byte, or what cannot be so is refused. Ops say by themselves how their rows follow one another
(`Op.along`); nothing here knows one op from another, but for those that may end time."""
