# SPDX-License-Identifier: Apache-2.0
"""`python -m pillion` is `pillion`."""

from pillion.cli import main

main()
