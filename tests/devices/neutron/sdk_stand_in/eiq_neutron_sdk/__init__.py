# SPDX-License-Identifier: Apache-2.0
"""Stands in for NXP's SDK in tests: the same calls, the same ways to fail, no code for any NPU.

STAND_IN in the environment chooses how it misbehaves."""

from pathlib import Path

__version__ = "0.0.stand-in"


def merge_kernel_selection_files(files: list[str], output: str) -> None:
    """Each line once, in order of first appearance."""
    lines = [line for file in files for line in Path(file).read_text().splitlines()]
    Path(output).write_text("\n".join(dict.fromkeys(lines)) + "\n")
