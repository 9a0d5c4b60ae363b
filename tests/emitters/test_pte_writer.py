# SPDX-License-Identifier: Apache-2.0
"""The program format as ExecuTorch's own reader sees it, and what the writer does not need."""

from __future__ import annotations

import math
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from example_graphs import side_by_side
from pillion.devices.cortex_m import CORES
from pillion.emitters.pte import emit
from pillion.emitters.pte.table import TABLE
from pillion.ir.graph import Graph
from pillion.ops import ALL_OPS, Op

BYTES = {"CHAR": 1, "BYTE": 1, "BOOL": 1, "SHORT": 2, "INT": 4, "FLOAT": 4, "LONG": 8}
EMITTED = [cls for cls in ALL_OPS if TABLE.get(cls) and cls.kind not in ("div", "resize_nearest")]


def whole_graph() -> Graph:
    return side_by_side([next(iter(cls.examples())) for cls in EMITTED], "all")


pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def file() -> bytes:
    return emit(whole_graph(), CORES["cortex-m55"])


@pytest.fixture(scope="module")
def read(file: bytes) -> Any:
    """The file as the wheel's Python code reads it."""
    program = pytest.importorskip(
        "executorch.exir._serialize._program", reason="pip install 'pillion[executorch]'"
    )
    return program.deserialize_pte_binary(file)


@pytest.fixture(scope="module")
def plan(read: Any) -> Any:
    (plan,) = read.program.execution_plan
    return plan


def calls(plan: Any) -> list[Any]:
    (chain,) = plan.chains
    return [instruction.instr_args for instruction in chain.instructions]


def indices(value: Any) -> list[int]:
    """The values that a list refers to."""
    return list(value.items) if type(value).__name__ in ("IntList", "TensorList") else []


@pytest.mark.turns(3)
def test_no_value_is_unreferenced(plan: Any) -> None:
    used = set(plan.inputs) | set(plan.outputs) | {i for call in calls(plan) for i in call.args}
    used |= {i for number in used for i in indices(plan.values[number].val)}
    assert used == set(range(len(plan.values)))


def test_equal_numbers_and_lists_are_one_value(plan: Any) -> None:
    seen = Counter(repr(v.val) for v in plan.values if type(v.val).__name__ != "Tensor")
    assert max(seen.values()) == 1


def test_constants_are_stored_once_and_all_used(read: Any, plan: Any) -> None:
    tensors = [v.val for v in plan.values if type(v.val).__name__ == "Tensor"]
    used = {t.data_buffer_idx for t in tensors} - {0}
    buffers = [bytes(b.storage) for b in read.program.constant_buffer]
    assert used == set(range(1, len(buffers)))
    # The reader hands out each buffer up to the begin of the next one.
    assert len({b.rstrip(b"\0") for b in buffers[1:]}) == len(buffers) - 1


def test_the_result_is_on_the_stack_twice(plan: Any) -> None:
    assert all(call.args[-1] == call.args[-2] for call in calls(plan))


def test_planned_tensors_lie_inside_the_arena(plan: Any) -> None:
    arena, ends = plan.non_const_buffer_sizes[1], []
    for value in plan.values:
        if type(value.val).__name__ == "Tensor" and value.val.allocation_info:
            place = value.val.allocation_info
            assert place.memory_id == 1
            assert place.memory_offset % 16 == 0
            ends.append(place.memory_offset + math.prod(value.val.sizes) * BYTES[value.val.scalar_type.name])
    assert max(ends) <= arena
    assert any(BYTES[v.val.scalar_type.name] == 4 for v in plan.values if type(v.val).__name__ == "Tensor")


def test_constants_lie_where_words_can_be_read(file: bytes, read: Any) -> None:
    """The reader hands out each constant up to the begin of the next one, and the segment itself begins at a line of the cache."""
    sizes = [len(bytes(b.storage)) for b in read.program.constant_buffer]
    assert [size % 16 for size in sizes[1:-1]] == [0] * (len(sizes) - 2)
    shapes = [v.constant.nbytes for op in whole_graph() for v in op.operands if v.is_constant]
    assert any(size % 16 for size in shapes), "some constants need padding behind them"
    assert int.from_bytes(file[24:32], "little") % 128 == 0


def test_the_header_says_where_segments_lie(file: bytes, read: Any) -> None:
    size, base, length = (int.from_bytes(file[at : at + 8], "little") for at in (16, 24, 32))
    assert file[4:12] == b"ET12eh00"
    assert base % 128 == 0
    assert size <= base
    assert base + length == len(file)


def test_the_core_is_on_record(read: Any) -> None:
    entries = read.named_data.pte_data
    assert "pillion" in entries
    buffer = bytes(read.named_data.buffers[entries["pillion"].buffer_index])
    assert b'"cortex-m55"' in buffer


def test_writing_imports_neither_torch_nor_executorch() -> None:
    code = (
        "import sys\nfrom test_pte_writer import whole_graph, emit, CORES\n"
        "emit(whole_graph(), CORES['cortex-m33'])\nfound = {m.split('.')[0] for m in sys.modules}\n"
        "assert not found & {'torch', 'torchao', 'executorch'}, found"
    )
    path = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
    code = f"import sys; sys.path[:0] = {path}\n" + code
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


@pytest.mark.parametrize("cls", ALL_OPS, ids=lambda c: c.kind)
def test_every_op_has_a_row(cls: type[Op]) -> None:
    assert cls in TABLE or cls.kind == "segment", f"{cls.kind} has no row in emitters/pte/table.py"
