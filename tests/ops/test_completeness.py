# SPDX-License-Identifier: Apache-2.0
"""Every op has its row in every stage's table; what is refused on purpose says None there. A missing row is named."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from pillion.emitters.c import dsp, mve, portable
from pillion.emitters.pte.table import TABLE as PTE_ROWS
from pillion.emitters.tflite.table import ROWS as TFLITE_ROWS
from pillion.ir.op import Op
from pillion.ops import ALL_OPS, Dequantize, Quantize, Requantize

TABLES: dict[str, Mapping[Any, Any]] = {
    "src/pillion/emitters/c/portable.py": {kernel.op: kernel for kernel in portable.KERNELS},
    "src/pillion/emitters/tflite/table.py": TFLITE_ROWS,
    "src/pillion/emitters/pte/table.py": PTE_ROWS,
}


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("cls", ALL_OPS, ids=lambda c: c.kind)
def test_every_op_has_a_row(cls: type[Op], table: str) -> None:
    assert cls in TABLES[table], f"{cls.kind}: add a row to {table} (None = refused on purpose)"


@pytest.mark.parametrize("cls", ALL_OPS, ids=lambda c: c.kind)
def test_every_op_can_come_from_torch(cls: type[Op]) -> None:
    from pillion.importers.torch.quantize import RULES

    made_by_passes = (Quantize, Dequantize, Requantize)
    kinds = {rule.kind for rule in RULES.values()} | {"depthwise_conv2d"}
    assert cls in made_by_passes or cls.kind in kinds, (
        f"{cls.kind}: a row in a file of src/pillion/importers/torch/rows/"
    )


@pytest.mark.parametrize("variants", [dsp.KERNELS, mve.KERNELS], ids=["dsp", "mve"])
def test_variants_are_of_ops_and_names_are_unique(variants: tuple[Any, ...]) -> None:
    names = [(kernel.op, kernel.name) for kernel in variants]
    assert all(kernel.op in ALL_OPS for kernel in variants)
    assert len(set(names)) == len(names)
