# SPDX-License-Identifier: Apache-2.0
"""Every op stands in every table, or there it says that it does not on purpose. A row that is missing is named with its file: to add
an op, write its class and its kernel, and do what this test asks for."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import pillion.ops
from fuzz.attributes import ATTRIBUTES
from fuzz.choices import from_seed
from fuzz.recipes import SPECIAL, grown
from pillion.devices.cortex_m import CORES, Isa
from pillion.emitters.c.kernel_lists import KERNELS_OF
from pillion.emitters.pte.node import KernelCall, PteSettings
from pillion.emitters.pte.table import TABLE as PTE_ROWS
from pillion.emitters.pte.table import steps
from pillion.emitters.tflite.table import ROWS as TFLITE_ROWS
from pillion.emitters.tflite.table import operators_of_op
from pillion.errors import PillionError
from pillion.importers.pte.table import TABLE as PTE_READER
from pillion.importers.tflite.table import ROWS as TFLITE_READER
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op, operand_fields
from pillion.ops import ALL_OPS, KINDS, Lut, Normalize

ROOT = Path(__file__).parents[2]
PURPOSE = "None = refused on purpose"


def list_of_ops(cls: type[Op]) -> Iterator[str]:
    if cls not in ALL_OPS:
        yield f"src/pillion/ops/__init__.py: {cls.__name__} in ALL_OPS"


def portable_kernel(cls: type[Op]) -> Iterator[str]:
    if cls not in {kernel.op for kernel in KERNELS_OF[Isa.PORTABLE]}:
        yield f"src/pillion/emitters/c/families/: a Kernel of {cls.__name__} in the KERNELS of its family"


def tflite_writer(cls: type[Op]) -> Iterator[str]:
    if cls not in TFLITE_ROWS:
        yield f"src/pillion/codecs/tflite/rows.py: a Row of {cls.__name__}, or emitters/tflite/table.py: {cls.__name__} in ROWS ({PURPOSE})"


@cache
def tflite_codes(cls: type[Op]) -> frozenset[str]:
    """The TFLite operators that an op is written as."""
    codes: set[str] = set()
    for op in cls.examples():
        try:
            codes |= {node.code for node in operators_of_op(op)}
        except PillionError:
            continue
    return frozenset(codes)


def tflite_reader(cls: type[Op]) -> Iterator[str]:
    for code in sorted(tflite_codes(cls) - set(TFLITE_READER)):
        yield f"src/pillion/importers/tflite/table.py: {code!r} in ROWS, as which {cls.__name__} is written"


def pte_writer(cls: type[Op]) -> Iterator[str]:
    if cls not in PTE_ROWS:
        yield f"src/pillion/emitters/pte/table.py: {cls.__name__} in TABLE ({PURPOSE})"


@cache
def pte_operators(cls: type[Op]) -> frozenset[str]:
    """The operators of ExecuTorch that an op is written as."""
    found: set[str] = set()
    settings = PteSettings(Arithmetic.CMSIS_NN, CORES["cortex-m55"].isa)
    for op in cls.examples():
        try:
            found |= {step.operator for step in steps(op, settings) if isinstance(step, KernelCall)}
        except PillionError:
            continue
    return frozenset(found)


def pte_reader(cls: type[Op]) -> Iterator[str]:
    for operator in sorted(pte_operators(cls) - set(PTE_READER)):
        yield f"src/pillion/importers/pte/table.py: {operator!r} in TABLE, as which {cls.__name__} is written"


def torch_row(cls: type[Op]) -> Iterator[str]:
    from pillion.importers.torch.rows.quantization import NO_OPERATOR, RULES

    rows = RULES.values()
    kinds = {rule.kind for rule in rows} | {op.kind for rule in rows for op in (*rule.also, *NO_OPERATOR)}
    if cls.kind not in kinds:
        yield (
            f"src/pillion/importers/torch/rows/: a function with @lowers(aten.…, quantized=row({cls.__name__})), "
            f"or a reason in NO_OPERATOR of quantization.py"
        )


def random_programs(cls: type[Op]) -> Iterator[str]:
    fields = {f.name for f in dataclasses.fields(cls) if not f.metadata.get("role")} - {"low", "high"}
    lacking = set() if cls is Lut else fields - set(ATTRIBUTES)
    if lacking:
        yield f"tests/fuzz/attributes.py: {sorted(lacking)} of {cls.__name__} in ATTRIBUTES"
    elif not any(_grows(cls, seed) for seed in range(10)):
        yield f"tests/fuzz/recipes.py: {cls.__name__} in SPECIAL, its declaration alone does not make one"


def _grows(cls: type[Op], seed: int) -> bool:
    try:
        program = grown(from_seed(seed), 3, kinds=(cls,), largest=400)
    except (TypeError, PillionError):  # the recipe by its declaration lacks an operand, or makes nonsense
        return False
    return any(isinstance(op, cls) for op in program.ops)


def docs(cls: type[Op]) -> Iterator[str]:
    if f"\n## {cls.kind}\n" not in (ROOT / "docs" / "reference" / "ops.md").read_text("utf-8"):
        yield f"docs/reference/ops.md: {cls.kind}, by `make docs`"


PLACES: tuple[Callable[[type[Op]], Iterator[str]], ...] = (
    list_of_ops,
    portable_kernel,
    tflite_writer,
    tflite_reader,
    pte_writer,
    pte_reader,
    torch_row,
    random_programs,
    docs,
)


HOLDERS = {"segment", "region", "scan"}
"""Kinds of ops that hold others: made by compilation, or out of loops."""


def declared() -> list[type[Op]]:
    """All classes of pillion.ops that are made ops by `@op`, listed or not, but those that hold other ops."""
    found: dict[str, type[Op]] = {}
    for module in pkgutil.iter_modules(pillion.ops.__path__, "pillion.ops."):
        for held in vars(importlib.import_module(module.name)).values():
            if (
                isinstance(held, type)
                and issubclass(held, Op)
                and vars(held).get("kind", "") not in ("", *HOLDERS)
            ):
                found[held.kind] = held
    return list(found.values())


@pytest.mark.torch
@pytest.mark.parametrize("cls", declared(), ids=lambda cls: cls.kind)
def test_every_op_stands_in_every_table(cls: type[Op]) -> None:
    missing = [line for place in PLACES for line in place(cls)]
    assert not missing, "\n".join((f"{cls.kind} is not complete; add", *missing))


def test_all_kinds_are_declared() -> None:
    assert {cls.kind for cls in declared()} | HOLDERS == set(KINDS)


# --- Rows are taken away one by one: is each of them missed, and named?


def removals(cls: type[Op]) -> Iterator[tuple[Callable[[type[Op]], Iterator[str]], Mapping[Any, Any], Any]]:
    """The rows of an op: who misses it, the table, the key in it."""
    from pillion.importers.torch.rows.quantization import NO_OPERATOR, RULES

    yield tflite_writer, TFLITE_ROWS, cls
    yield pte_writer, PTE_ROWS, cls
    yield from ((tflite_reader, TFLITE_READER, code) for code in tflite_codes(cls))
    yield from ((pte_reader, PTE_READER, operator) for operator in pte_operators(cls))
    if cls in NO_OPERATOR:
        yield torch_row, NO_OPERATOR, cls
    elif len(targets := [t for t, rule in RULES.items() if rule.kind == cls.kind]) == 1:
        yield torch_row, RULES, targets[0]
    if cls in SPECIAL and len(operand_fields(cls)) > 1 and cls not in (Lut, Normalize):  # one will do
        yield random_programs, SPECIAL, cls


@pytest.mark.torch
@pytest.mark.parametrize("cls", ALL_OPS, ids=lambda cls: cls.kind)
def test_rows_that_are_taken_away_are_named(cls: type[Op], monkeypatch: pytest.MonkeyPatch) -> None:
    for place, table, key in removals(cls):
        with monkeypatch.context() as patched:
            patched.delitem(table, key)  # type: ignore[arg-type]  # tables are dicts
            said = list(place(cls))
            assert len(said) == 1, f"{place.__name__} {key}: {said}"
            assert (ROOT / said[0].split(":")[0]).exists()


@pytest.mark.parametrize("cls", ALL_OPS, ids=lambda cls: cls.kind)
def test_missing_rows_are_named(cls: type[Op], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "ALL_OPS", tuple(op for op in ALL_OPS if op is not cls))
    remaining = tuple(kernel for kernel in KERNELS_OF[Isa.PORTABLE] if kernel.op is not cls)
    monkeypatch.setitem(KERNELS_OF, Isa.PORTABLE, remaining)
    for place in (list_of_ops, portable_kernel):
        assert all(cls.__name__ in said for said in place(cls))
        assert list(place(cls))


@pytest.mark.parametrize("isa", Isa)
def test_variants_are_of_ops_and_names_are_unique(isa: Isa) -> None:
    variants = KERNELS_OF[isa]
    names = [(kernel.op, kernel.name) for kernel in variants]
    assert all(kernel.op in ALL_OPS for kernel in variants)
    assert len(set(names)) == len(names)
