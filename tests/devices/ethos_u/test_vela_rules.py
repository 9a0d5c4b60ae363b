# SPDX-License-Identifier: Apache-2.0
"""The rules beside Vela itself: what they take compiles and computes the right bytes, and what lies one past a limit does not compile."""

from __future__ import annotations

import pytest
from edges import (
    BEYOND,
    EDGES,
    EDGES_U85,
    LONGER,
    LONGER_U85,
    OTHER_TYPES,
    SHAPES,
    TYPES,
    UNWRITTEN,
    WRONG,
    WRONG_U85,
    Q,
    conv,
    resize,
    retyped,
)
from single_ops import SOFTMAX, Maker, made, value

from ethos_streams import compiled, differing, graph_of, needs_vela, tflite_of
from nightly import in_turn
from pillion.devices.ethos_u import ETHOS_U, limits
from pillion.devices.ethos_u.accelerators import Family
from pillion.devices.ethos_u.rules import SIXTEEN_BITS, STREAM, SUPPORTED, rules
from pillion.devices.ethos_u.stream.stream_errors import StreamError
from pillion.devices.ethos_u.vela.vela_process import VelaError
from pillion.errors import PillionError
from pillion.ir.op import Op
from pillion.ir.types import DType
from pillion.ops import DepthwiseConv2d, ResizeBilinear, ResizeNearest, Softmax

pytestmark = needs_vela
NPU = ETHOS_U["ethos-u55-128"]


U85 = "ethos-u85-256"
NPUS = ("ethos-u55-128", "ethos-u65-256", U85)
STRICTER = {"broadcast", "function", "axes", "padding", "output_padding", "pixels"}
"""Rules that refuse more than Vela does: what its streams compute wrongly, and borders whose form in TFLite decides."""


def broken(op: Op, accelerator: str = "ethos-u55-128") -> list[str]:
    """The names of the rules that an op breaks."""
    return [verdict.rule.split(".", 1)[1] for verdict in ETHOS_U[accelerator].judge(op) if not verdict.ok]


def accepts(op: Op, accelerator: str = "ethos-u55-128") -> bool:
    try:
        compiled(_file(op), accelerator)
    except VelaError:
        return False
    return True


def _file(op: Op) -> bytes:
    file = tflite_of(op)
    assert file is not None, op
    return file


@pytest.mark.parametrize("accelerator", ["ethos-u55-128", U85])
@pytest.mark.parametrize(("seed", "count"), [(1, 70), pytest.param(2, 600, marks=pytest.mark.nightly)])
def test_accepted_ops_compile_and_are_exact(accelerator: str, seed: int, count: int) -> None:
    maker, taken = Maker(seed), 0
    for _ in range(count):
        op = maker.op()
        file = tflite_of(op)
        if file is None or broken(op, accelerator):
            continue
        made_of_it = compiled(file, accelerator)
        assert differing(graph_of(op), made_of_it, 1) == 0, op
        taken += 1
    assert taken > count // 2


@pytest.mark.turns(3)
@pytest.mark.parametrize("accelerator", ["ethos-u55-128", "ethos-u65-256", U85])
@pytest.mark.parametrize(("seed", "count"), [(5, 70), pytest.param(6, 750, marks=pytest.mark.nightly)])
def test_a_verdict_is_velas(accelerator: str, seed: int, count: int) -> None:
    """What the rules take compiles; what others than the stricter ones refuse does not."""
    maker, decided = Maker(seed), 0
    for _ in range(count):
        op = maker.op()
        if tflite_of(op) is None:
            continue
        failed = broken(op, accelerator)
        grouped = op.attributes.get("groups", 1) > 1 or any(op.attributes.get("padding", ()))
        if STRICTER & set(failed) or (failed == ["stride"] and grouped):
            continue
        assert accepts(op, accelerator) == (not failed), (op, failed)
        decided += 1
    assert decided > 0.7 * count


TAKEN_BY_U85 = (
    conv(4, kind=DepthwiseConv2d),
    resize(ResizeNearest, 3, 5, images=2),
    resize(ResizeBilinear, 1, 1, half=True),
)
"""What U55 and U65 refuse."""


@pytest.mark.parametrize("name", EDGES_U85)
def test_a_limit_of_u85_is_where_vela_has_it(name: str) -> None:
    _require_edge(name, *EDGES_U85[name], U85)


@pytest.mark.parametrize("op", TAKEN_BY_U85, ids=str)
def test_u85_takes_more(op: Op) -> None:
    assert broken(op)
    assert not broken(op, U85)
    assert accepts(op, U85)


@pytest.mark.parametrize(("name", "accelerator"), in_turn(EDGES, ["ethos-u55-128", "ethos-u65-256"]))
def test_a_limit_is_where_vela_has_it(name: str, accelerator: str) -> None:
    _require_edge(name, *EDGES[name], accelerator)


def _require_edge(name: str, inside: Op, outside: Op, accelerator: str) -> None:
    assert not broken(inside, accelerator)
    assert accepts(inside, accelerator)
    assert broken(outside, accelerator) == [name.split(" ")[0].split("'")[0].split(".")[1]]
    assert not accepts(outside, accelerator)


@pytest.mark.parametrize("name", WRONG)
def test_ops_that_vela_compiles_wrongly_are_refused(name: str) -> None:
    """Vela takes it, on all NPUs; the stream is seen to compute something else where it is executed."""
    inside, outside = WRONG[name]
    assert not broken(inside)
    assert differing(graph_of(inside), compiled(_file(inside)), 1) == 0
    assert broken(outside) == broken(outside, U85) == [name.split(".")[1]]
    assert differing(graph_of(outside), compiled(_file(outside)), 2) > 0


@pytest.mark.parametrize("name", WRONG_U85)
def test_ops_that_vela_compiles_wrongly_for_u85_are_refused(name: str) -> None:
    inside, outside = WRONG_U85[name]
    assert not broken(inside, U85)
    assert differing(graph_of(inside), compiled(_file(inside), U85), 1) == 0
    assert broken(outside, U85) == [name.split(" ")[0].split(".")[1]]
    assert _goes_wrong(outside)


def _goes_wrong(op: Op) -> bool:
    """Whether a U85's stream gives other bytes, or starts an operation too soon."""
    try:
        return differing(graph_of(op), compiled(_file(op), U85), 2) > 0
    except StreamError as error:
        return "may not have written" in error.what


@pytest.mark.parametrize("name", BEYOND)
def test_rules_refuse_ops_that_vela_accepts(name: str) -> None:
    inside, outside = BEYOND[name]
    for npu in NPUS:
        assert not broken(inside, npu)
        assert broken(outside, npu) == [name.split(" ")[0].split(".")[1]]
        assert accepts(inside, npu)
        assert accepts(outside, npu)


@pytest.mark.turns(3)
@pytest.mark.parametrize("npu", NPUS)
def test_axes_have_65536_elements_at_most(npu: str) -> None:
    """Of convolutions, pools and softmaxes Vela has the same limit."""
    for kind, (inside, outside) in SHAPES.items():
        assert not broken(inside, npu), kind
        assert accepts(inside, npu), kind
        assert "shape" in broken(outside, npu), kind
        assert accepts(outside, npu) == (kind in (LONGER_U85 if npu == U85 else LONGER)), kind


def test_other_types_are_refused() -> None:
    """Segments are int8, of some ops int16. Of the types that TFLite has for an op, Vela takes some."""
    for kind, op in TYPES.items():
        assert not broken(op), kind
        taken = set()
        for dtype in set(DType) - {DType.INT8}:
            other = retyped(op, dtype)
            if dtype is not DType.INT16 or kind not in SIXTEEN_BITS:
                assert "dtype" in broken(other), (kind, dtype)
            assert "dtype" in broken(other, U85), (kind, dtype)
            if _is_written(other) and any(accepts(other, npu) for npu in (NPUS[0], U85)):
                taken.add(dtype.value)
        assert taken == OTHER_TYPES.get(kind, set()), kind


@pytest.mark.parametrize("name", UNWRITTEN)
def test_ops_without_a_tflite_form_are_refused(name: str) -> None:
    op = UNWRITTEN[name]
    for npu in NPUS:
        assert name.split(".")[1] in broken(op, npu)
    assert not _is_written(op)


def _is_written(op: Op) -> bool:
    """Whether there is such an op, and a TFLite file of it."""
    try:
        op.check()
    except PillionError:
        return False
    return tflite_of(op) is not None


@pytest.mark.parametrize("family", Family)
def test_every_rule_has_its_edge(family: Family) -> None:
    wanted = {f"{rule.op.kind}.{rule.name}" for rule in rules(family)}
    own = (EDGES_U85, WRONG_U85) if family is Family.U85 else (EDGES,)
    tables = (*own, WRONG, BEYOND, UNWRITTEN)
    found = {name.split(" ")[0].split("'")[0] for names in tables for name in names}
    found |= {f"{kind.kind}.shape" for kind in SHAPES} | {f"{kind.kind}.dtype" for kind in TYPES}
    assert found == wanted


@pytest.mark.parametrize(("rows", "fits"), [(65536, True), (65537, False)])
def test_rows_of_a_softmax(rows: int, fits: bool) -> None:
    op = made(Softmax, SOFTMAX, x=value("x", (rows, 2), Q))
    assert [v.ok for v in NPU.judge(op) if v.rule == "softmax.rows"] == [fits]


def test_tensors_of_rank_7_are_refused() -> None:
    six, seven = (made(Softmax, SOFTMAX, x=value("x", (2,) * rank, Q)) for rank in (6, 7))
    assert not broken(six)
    assert broken(seven) == ["shape"]


def test_sources_of_rules_are_known_and_every_op_is_decided_on() -> None:
    for family in Family:
        assert {rule.source for rule in rules(family)} == {"Vela", "tried", STREAM}
        assert {rule.op for rule in rules(family)} <= set(SUPPORTED)
    assert limits.image_of((7, 5, 3)) == (1, 7, 5, 3)
    assert limits.image_of((2, 3, 4, 5, 6)) == (6, 4, 5, 6)


def test_estimates_agree_with_vela() -> None:
    """Single ops of 500 elements and more: within a factor of 4, and their middle near 1."""
    maker, ratios = Maker(9), []
    for _ in range(250):
        op = maker.op()
        file = tflite_of(op)
        if file is None or broken(op) or op.kind == "reshape" or op.results[0].type.elements < 500:
            continue
        ratios.append(NPU.estimate(op) / compiled(file).cycles)
    ratios.sort()
    assert len(ratios) > 20
    assert 0.5 < ratios[len(ratios) // 2] < 2.0
    inside = [r for r in ratios if 0.25 < r < 4]
    assert len(inside) > 0.8 * len(ratios), ratios
