# SPDX-License-Identifier: Apache-2.0
"""The plug-in: it registers the op, its kernel, the row of its PyTorch operator, and a target."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pillion import Registry


def register(registry: Registry) -> None:
    """Fills the registry. Pillion calls it before the first table is read."""
    from pathlib import Path

    from pillion.devices.cortex_m import CORES, Isa
    from pillion.targets import Target
    from pillion_median.kernel import MEDIAN3
    from pillion_median.op import Median3

    registry.add_op(Median3)
    registry.add_kernels(Isa.PORTABLE, MEDIAN3, folder=Path(__file__).parent / "kernels")
    registry.add_torch_rows("pillion_median.torch_row")
    registry.add_target(
        Target("pulse-belt", "A belt with a Cortex-M4", CORES["cortex-m4"], sram_bytes=65_536)
    )
