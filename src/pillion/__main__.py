# SPDX-License-Identifier: Apache-2.0
"""Runs `pillion` as `python -m pillion`."""

from pillion.cli import main

main()
