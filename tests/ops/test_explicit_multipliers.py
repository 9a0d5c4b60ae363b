# SPDX-License-Identifier: Apache-2.0
"""Multipliers that a file gives an op instead of scales: every executor computes with them what it computes with the scales that they
came from, and who needs scales says so."""

from __future__ import annotations

import dataclasses
import importlib.util
import re
from typing import Any

import numpy as np
import pytest

from example_graphs import samples_of, side_by_side
from explicit_multipliers import SCALED, examples, unscaled, with_given
from pillion.devices.cortex_m import CORES
from pillion.devices.neutron import N3_64
from pillion.emitters import tflite
from pillion.emitters.c.lower import lower
from pillion.emitters.c.model_source import model_c, model_h
from pillion.emitters.c.subpixel import row_phases
from pillion.emitters.pte import emit
from pillion.emitters.pte.node import PteSettings
from pillion.emitters.pte.table import steps
from pillion.errors import PillionError
from pillion.importers.pte import read
from pillion.importers.pte.container import Container
from pillion.importers.pte.foreign_program import graph_of
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic, Multiplier
from pillion.ir.op import Op, ScaledOp
from pillion.ir.text import parse, to_text
from pillion.ir.types import UnknownScale, Value
from pillion.ir.verify import verify_graph
from pillion.ops import (
    KINDS,
    Add,
    Conv2d,
    Dequantize,
    Linear,
    Mul,
    Quantize,
    Requantize,
    Softmax,
    Sub,
    TransposeConv2d,
    graph_json,
)
from pillion.ops.elementwise import AddOrSub
from pillion.ops.example_values import float_value, value
from pillion.passes.merge_duplicates import merge_duplicates
from pillion.passes.overflow_checks import require_sums_fit_32_bits
from pillion.passes.split_groups import split_groups
from pillion.program import Program
from pillion.targets import find_target

RUNTIME = pytest.mark.skipif(
    importlib.util.find_spec("executorch") is None, reason="pip install 'pillion[executorch]'"
)
EACH = pytest.mark.parametrize("cls", SCALED, ids=lambda cls: cls.kind)


def one_op(op: Op) -> Graph:
    return Graph("g", tuple(dict.fromkeys(op.activations)), (op,), op.results)


def wanted_and_found(op: ScaledOp) -> Any:
    """What an op computes by its scales and by the multipliers alone."""
    for sample in samples_of(one_op(op)):
        yield one_op(op).reference(*sample), verify_graph(one_op(unscaled(op))).reference(*sample)


@EACH
def test_multipliers_alone_give_the_same_bytes(cls: type[ScaledOp]) -> None:
    assert examples(cls)
    for op in examples(cls):
        for wanted, found in wanted_and_found(op):
            np.testing.assert_array_equal(wanted[0], found[0])


def test_other_multipliers_give_other_bytes() -> None:
    op = examples(Mul)[0]
    less = dataclasses.replace(unscaled(op), explicit=(Multiplier(2**30, -9),))
    sample = samples_of(one_op(op))[0]
    assert not np.array_equal(one_op(op).reference(*sample)[0], one_op(less).reference(*sample)[0])


@pytest.mark.parametrize("cls", [Conv2d, Linear], ids=lambda cls: cls.kind)
def test_one_multiplier_stands_for_all_channels(cls: type[ScaledOp]) -> None:
    op: Any = unscaled(examples(cls)[1])
    one, all_alike = (
        dataclasses.replace(op, explicit=(Multiplier(1518500250, -8),) * n) for n in (1, len(op.explicit))
    )
    assert len(op.explicit) > 1
    for ours, theirs in zip(one.multipliers, all_alike.multipliers, strict=True):
        np.testing.assert_array_equal(ours, theirs)
        assert ours.dtype == np.int32


@pytest.mark.parametrize("core", ["cortex-m0plus", "cortex-m33", "cortex-m55"])
@pytest.mark.parametrize("cls", [Conv2d, TransposeConv2d], ids=lambda cls: cls.kind)
def test_one_multiplier_is_the_same_c_as_one_for_each(cls: type[ScaledOp], core: str) -> None:
    for op in map(unscaled, examples(cls)):
        texts, constants = [], []
        for count in (1, len(op.explicit)):
            program = lower(
                one_op(dataclasses.replace(op, explicit=(Multiplier(1518500251, -8),) * count)),
                CORES[core].isa,
            )
            texts.append(model_c(program))
            constants.append([c.data.tobytes() for c in program.constants])
        assert texts[0] == texts[1]
        assert constants[0] == constants[1]


def test_each_phase_of_a_transposed_convolution_has_its_channels() -> None:
    seen = 0
    for op in TransposeConv2d.examples():
        assert isinstance(op, TransposeConv2d)
        for phase in row_phases(op):
            for ours, theirs in zip(phase.conv.multipliers, op.multipliers, strict=True):
                np.testing.assert_array_equal(ours, np.tile(theirs, op.stride[1]))
                seen += len(set(theirs.tolist())) > 1
    assert seen > 3


@EACH
def test_the_text_form_is_exact(cls: type[ScaledOp]) -> None:
    for op in examples(cls):
        text = to_text(one_op(unscaled(op)))
        assert " explicit=[" in text
        assert " @(?, " in text
        again = parse(text, KINDS)
        assert to_text(again) == text
        assert again.ops[0].explicit == unscaled(op).explicit  # type: ignore[attr-defined]  # it is of the same class


def test_many_multipliers_are_not_spelled_out_for_reading() -> None:
    op = next(op for op in examples(Conv2d) if len(op.from_scales(Arithmetic.CMSIS_NN)) > 16)
    assert " explicit=[...]" in to_text(one_op(unscaled(op)), constants=False)


@EACH
def test_the_record_of_a_graph_is_exact(cls: type[ScaledOp]) -> None:
    for op in examples(cls):
        graph = one_op(unscaled(op))
        source = graph_json.GraphSource(lambda number, size: np.zeros(0, np.uint8), KINDS)
        again = graph_json.unpack(graph_json.pack(graph, lambda data: None), source)
        assert to_text(again) == to_text(graph)


# --- what is written


def plain(text: str) -> str:
    """C without its comments, which name scales where they are known."""
    return re.sub(r"/\*.*?\*/", "", text, flags=re.S)


@pytest.mark.parametrize("core", ["cortex-m0plus", "cortex-m33", "cortex-m55"])
@EACH
def test_the_c_is_the_same(cls: type[ScaledOp], core: str) -> None:
    for op in examples(cls)[:4]:
        by_scales, by_multipliers = (lower(one_op(o), CORES[core].isa) for o in (op, unscaled(op)))
        assert plain(model_c(by_multipliers)) == plain(model_c(by_scales))
        for a, b in zip(by_multipliers.constants, by_scales.constants, strict=True):
            np.testing.assert_array_equal(a.data, b.data)


def test_a_header_says_that_a_scale_is_not_known() -> None:
    op = unscaled(examples(Mul)[0])
    header = model_h(lower(one_op(op), CORES["cortex-m33"].isa))
    assert re.search(r"a: int8\[[0-9, ]+\], zero point -?\d+, unknown scale", header)
    assert "real =" not in header
    assert "real =" in model_h(lower(one_op(examples(Mul)[0]), CORES["cortex-m33"].isa))


@pytest.mark.parametrize("core", ["cortex-m33", "cortex-m55"])
@EACH
def test_the_kernel_calls_are_the_same(cls: type[ScaledOp], core: str) -> None:
    """And the file's own record has the graph as it was."""
    for op in examples(cls)[:6]:
        graph = one_op(unscaled(op))
        try:
            by_scales = emit(one_op(op), CORES[core])
        except PillionError:
            continue
        by_multipliers = emit(graph, CORES[core])
        assert to_text(read(by_multipliers).graph) == to_text(graph)
        if cls is not Sub:  # some of its calls are not read back: their multipliers are negative
            ours, theirs = (graph_of(Container(raw, "g")) for raw in (by_multipliers, by_scales))
            assert to_text(ours) == to_text(theirs)


def with_odd_multipliers() -> Graph:
    """Multipliers that are nobody's ratio of scales of 24 bits: all 31 bits count. One half stays one half."""
    half = Multiplier(2**30, 0)
    ops = [
        dataclasses.replace(
            op,
            explicit=tuple(m if m == half else Multiplier(m.mantissa | 0x2B, m.shift) for m in op.explicit),
        )
        for cls in SCALED
        for op in map(unscaled, examples(cls)[:3])
    ]
    return verify_graph(side_by_side(ops, "odd"))


@pytest.mark.turns(6)
@pytest.mark.parametrize(
    ("core", "on"),
    [
        ("cortex-m0plus", "host"),
        ("cortex-m33", "host"),
        ("cortex-m55", "host"),
        pytest.param("cortex-m33", "executorch", marks=[pytest.mark.torch, RUNTIME]),
        pytest.param("cortex-m33", "mps2-an505", marks=[pytest.mark.qemu, pytest.mark.slow]),
        pytest.param("cortex-m55", "mps3-an547", marks=[pytest.mark.qemu, pytest.mark.slow]),
    ],
)
def test_executors_compute_with_them(core: str, on: str) -> None:
    graph = with_odd_multipliers()
    if on == "executorch":
        kept = [op for op in graph.ops if op.kind != "sub" and has_calls(op)]
        graph = side_by_side(kept, "odd")
    program = Program(graph, find_target(core))
    for sample in samples_of(graph, 2):
        for wanted, found in zip(graph.reference(*sample), program.run(*sample, on=on), strict=True):
            np.testing.assert_array_equal(wanted, found)


def has_calls(op: Op) -> bool:
    try:
        return bool(steps(op, PteSettings(Arithmetic.CMSIS_NN, CORES["cortex-m33"].isa)))
    except PillionError:
        return False


# --- who needs scales


@EACH
def test_tflite_refuses_explicit_multipliers(cls: type[ScaledOp]) -> None:
    for op in (
        unscaled(examples(cls)[0]),
        with_given(
            examples(cls)[0], explicit=(Multiplier(1518500251, 1),) * (3 if issubclass(cls, AddOrSub) else 1)
        ),
    ):
        with pytest.raises(PillionError, match="no exact TFLite form") as refusal:
            tflite.emit(one_op(op))
        assert "TFLite files have scales" in refusal.value.rule
        assert "has no scale" in refusal.value.here or "1518500251*2^-30, " in refusal.value.here
        assert "compile the model itself" in refusal.value.help


@EACH
def test_tflite_takes_multipliers_that_the_scales_say(cls: type[ScaledOp]) -> None:
    op = next(op for op in examples(cls) if writable(op))
    given = dataclasses.replace(op, explicit=op.from_scales(Arithmetic.TFLITE))
    assert tflite.emit(one_op(given)) == tflite.emit(one_op(op))


def writable(op: Op) -> bool:
    try:
        return bool(tflite.emit(one_op(op)))
    except PillionError:
        return False


@EACH
def test_npus_refuse_explicit_multipliers(cls: type[ScaledOp]) -> None:
    verdicts = N3_64.judge(unscaled(examples(cls)[0]))
    if cls is not Sub or len(verdicts) > 1:
        assert [v.rule for v in verdicts if not v.ok] == [f"{cls.kind}.scales"]
        assert "has no scale" in verdicts[-1].got


def test_tensors_without_scales_need_ops_without() -> None:
    x, y = (
        Value(name, dataclasses.replace(value(name, (2, 3)).type, quant=UnknownScale(3))) for name in "xy"
    )
    plain, table = float_value("r", (2, 3)), value("z", (2, 3))
    for op in (
        Add(a=x, b=x, y=y),
        Requantize(x=x, y=table),
        Quantize(x=plain, y=y),
        Dequantize(x=x, y=plain),
        Softmax(x=x, y=y),
    ):
        with pytest.raises(PillionError, match="is not valid") as refusal:
            verify_graph(one_op(op))
        assert refusal.value.rule == "an op is given its multipliers, or its tensors have scales"
        assert "is not known" in refusal.value.here


# --- what a file may give


def broken(cls: type[ScaledOp], number: int = 0, **fields: Any) -> PillionError:
    op = dataclasses.replace(unscaled(examples(cls)[number]), **fields)
    with pytest.raises(PillionError, match="is not valid") as refusal:
        verify_graph(one_op(op))
    return refusal.value


@pytest.mark.parametrize(
    ("mantissa", "shift"),
    [(2**30 - 1, 0), (2**31, 0), (-(2**30), 0), (1, 0), (0, 1), (2**30, 31), (2**30, -32), (-(2**31), -5)],
)
@EACH
def test_multipliers_out_of_range_are_refused(cls: type[ScaledOp], mantissa: int, shift: int) -> None:
    op = unscaled(examples(cls)[0])
    found = broken(cls, explicit=(*op.explicit[:-1], Multiplier(mantissa, shift)))
    assert found.rule == "mantissas are from 2^30 to 2147483647, shifts from -31 to 30, or both are 0"
    assert found.here.startswith(f"mantissa {mantissa}, shift {shift}")


@pytest.mark.parametrize(("mantissa", "shift"), [(2**30, -31), (2**31 - 1, -31), (0, 0), (2**31 - 1, 0)])
def test_the_ends_are_taken(mantissa: int, shift: int) -> None:
    for cls in SCALED:
        op = unscaled(examples(cls)[0])
        if cls is not Softmax:
            verify_graph(
                one_op(dataclasses.replace(op, explicit=(*op.explicit[:-1], Multiplier(mantissa, shift))))
            )


@EACH
def test_there_are_as_many_as_the_op_has(cls: type[ScaledOp]) -> None:
    op = unscaled(examples(cls)[1])
    assert f"{len(op.explicit) + 1} are given" in broken(cls, 1, explicit=(*op.explicit, op.explicit[0])).here


def test_operands_of_a_sum_are_not_made_larger() -> None:
    first, second, out = unscaled(examples(Add)[0]).explicit
    assert "at most 0" in broken(Add, explicit=(first, Multiplier(second.mantissa, 1), out)).rule


def test_a_sum_of_whole_operands_reaches_twice_as_far() -> None:
    """By scales an operand is at most half of the common one; given multipliers may leave both as they are."""
    whole = Multiplier(2**31 - 1, 0)
    op = unscaled(examples(Add)[0])
    require_sums_fit_32_bits(dataclasses.replace(op, explicit=(whole, whole, Multiplier(2**30, 2))))
    with pytest.raises(PillionError, match="is not valid"):
        require_sums_fit_32_bits(dataclasses.replace(op, explicit=(whole, whole, Multiplier(2**30, 3))))


@pytest.mark.parametrize("shift", [0, -3])
def test_a_softmax_shifts_to_the_left(shift: int) -> None:
    assert "to the left" in broken(Softmax, explicit=(Multiplier(2**30, shift),)).rule


def test_in_tflite_arithmetic_scales_decide() -> None:
    op = with_given(examples(Mul)[0], explicit=(Multiplier(1518500251, -3),))
    verify_graph(one_op(op))
    with pytest.raises(PillionError, match="is not valid") as refusal:
        verify_graph(one_op(op).replace(arithmetic=Arithmetic.TFLITE))
    assert "follow from the scales" in refusal.value.rule
    assert "1518500251*2^-34, where the scales give " in refusal.value.here


# --- passes


def test_sums_by_other_multipliers_are_not_merged() -> None:
    op = unscaled(examples(Add)[5])
    other = dataclasses.replace(
        op,
        y=dataclasses.replace(op.results[0], name="other"),
        explicit=(op.explicit[0], op.explicit[1], Multiplier(2**30, -18)),
    )
    graph = Graph("g", op.activations, (op, other), (*op.results, *other.results))
    both = (Add(a=op.results[0], b=other.results[0], y=_last(op), explicit=op.explicit),)
    assert len(merge_duplicates(graph.replace(ops=(*graph.ops, *both), outputs=both[0].results)).ops) == 3


def _last(op: Op) -> Value:
    return dataclasses.replace(op.results[0], name="last")


def test_adding_zero_at_another_scale_is_no_identity() -> None:
    """Operand and result of one zero point may have different scales."""
    x = Value("x", dataclasses.replace(value("x", (4,)).type, quant=UnknownScale(0)))
    y = dataclasses.replace(x, name="y")
    held = dataclasses.replace(x, name="held", data=np.zeros(4, np.int8))
    half = Multiplier(2**30, 0)
    for op in (
        Add(a=x, b=held, y=y, explicit=(half, half, Multiplier(2**30, -20))),
        Mul(a=x, b=held, y=y, explicit=(half,)),
    ):
        assert not op.is_identity


def test_groups_are_split_where_scales_say_the_same() -> None:
    op = next(op for op in examples(Conv2d) if isinstance(op, Conv2d) and op.groups > 1)
    assert split_groups(one_op(unscaled(op))).ops[0].kind == "conv2d"
    graph = one_op(with_given(op))
    split = verify_graph(split_groups(graph))
    assert len(split.ops) == 2 * op.groups + 1
    for sample in samples_of(graph):
        np.testing.assert_array_equal(graph.reference(*sample)[0], split.reference(*sample)[0])
