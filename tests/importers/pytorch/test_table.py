# SPDX-License-Identifier: Apache-2.0
"""How operators are quantized, against the ops and against what the operators become."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pillion.importers.torch.export import export
from pillion.importers.torch.loop_nodes import CARRIED, ELEMENT, LAST, STACKED
from pillion.importers.torch.rewrite.decompositions.table import decompose_by
from pillion.importers.torch.rewrite.pipeline import rewrite_for_quantization
from pillion.importers.torch.rows import ROWS
from pillion.importers.torch.rows.quantization import RULES
from pillion.importers.torch.rows.table import lowers
from pillion.importers.torch.train.batch_norm_calls import batch_norm
from pillion.ir.op import Quantization
from pillion.ops import KINDS

ENDS_OF_LOOPS = (ELEMENT, CARRIED, LAST, STACKED)
aten = torch.ops.aten
X, Y, INDICES = torch.rand(1, 4, 8, 8), torch.rand(1, 4, 8, 8), torch.tensor([2, 0])
FILTERS = torch.rand(4, 4, 3, 3)
TWO_TENSORS = (
    *(
        getattr(aten, name).Tensor
        for name in ("add", "sub", "mul", "div", "lt", "le", "eq", "ne", "ge", "gt")
    ),
    *(aten.minimum.default, aten.maximum.default),
)
Call = Callable[[Any, Tensor, Tensor, Tensor], Tensor]
CALLS: dict[Any, Call] = {
    **dict.fromkeys(TWO_TENSORS, lambda f, x, y, i: f(x, y)),
    **dict.fromkeys((aten.amax.default, aten.amin.default), lambda f, x, y, i: f(x, [1])),
    **dict.fromkeys((aten.mean.dim, aten.sum.dim_IntList, aten.flip.default), lambda f, x, y, i: f(x, [1])),
    **dict.fromkeys((aten.argmax.default, aten.argmin.default), lambda f, x, y, i: f(x, 1)),
    **dict.fromkeys((aten.softmax.int, aten.log_softmax.int), lambda f, x, y, i: f(x, 1)),
    **dict.fromkeys((aten.conv2d.default, aten.conv_transpose2d.input), lambda f, x, y, i: f(x, FILTERS)),
    **dict.fromkeys(
        (aten.conv1d.default, aten.conv_transpose1d.default),
        lambda f, x, y, i: f(x.reshape(1, 4, 64), FILTERS[:, :, 0]),
    ),
    **dict.fromkeys((aten.avg_pool2d.default, aten.max_pool2d.default), lambda f, x, y, i: f(x, [2, 2])),
    **dict.fromkeys(
        (aten.upsample_nearest2d.vec, aten._upsample_nearest_exact2d.vec),
        lambda f, x, y, i: f(x, [16, 16], None),
    ),
    **dict.fromkeys((aten.fmod.Scalar, aten.remainder.Scalar), lambda f, x, y, i: f(x, 2.0)),
    aten._to_copy.default: lambda f, x, y, i: f(i, dtype=torch.float32),
    aten.bmm.default: lambda f, x, y, i: f(x.reshape(4, 8, 8), y.reshape(4, 8, 8)),
    aten.cat.default: lambda f, x, y, i: f([x, y], 1),
    aten.clamp.default: lambda f, x, y, i: f(x, -1.0, 1.0),
    aten.embedding.default: lambda f, x, y, i: f(FILTERS[0, 0], i),
    aten.index_select.default: lambda f, x, y, i: f(x, 1, i),
    aten.linear.default: lambda f, x, y, i: f(x.reshape(1, 256), torch.ones(3, 256)),
    aten.pad.default: lambda f, x, y, i: f(x, [1, 1], "constant", 0.0),
    aten.permute.default: lambda f, x, y, i: f(x, [0, 2, 3, 1]),
    aten.pow.Tensor_Scalar: lambda f, x, y, i: f(x, 3),
    aten.prelu.default: lambda f, x, y, i: f(x, FILTERS[0, 0, 0, 0]),
    aten.reshape.default: lambda f, x, y, i: f(x, [4, 64]),
    aten.round.decimals: lambda f, x, y, i: f(x, decimals=1),
    aten.slice.Tensor: lambda f, x, y, i: f(x, 1, 0, 2),
    aten.threshold.default: lambda f, x, y, i: f(x, 0.1, 0.2),
    aten.upsample_bilinear2d.vec: lambda f, x, y, i: f(x, [16, 16], False, None),
    aten.where.self: lambda f, x, y, i: f(x > y, x, y),
}
"""How the rows' operators are called; the others take one tensor."""


class EachOperator(nn.Module):
    """Calls each operator that has a row once."""

    def __init__(self, targets: list[Any]) -> None:
        super().__init__()
        self.targets = targets

    def forward(self, x: Tensor, y: Tensor, i: Tensor) -> tuple[Tensor, ...]:
        return tuple(CALLS[f](f, x, y, i) if f in CALLS else f(x) for f in self.targets)


@pytest.mark.parametrize("target", RULES, ids=lambda t: str(t).split(" at ")[0])
def test_quantization_rules_follow_from_the_ops(target: Any) -> None:
    rule = RULES[target]
    if target in ENDS_OF_LOOPS:
        assert rule.quantization is Quantization.SHARED, "what is handed on keeps its parameters"
    elif rule.kind == "lut":
        assert (rule.quantization is Quantization.FIXED) == (rule.fixed is not None)
    else:
        assert rule.quantization is KINDS[rule.kind].quantization


def test_quantizer_and_importer_know_the_same_operators() -> None:
    """A batch norm is one of training, which is gone when a graph is imported; ends of loops go into an op that runs its own graph."""
    assert set(RULES) - {batch_norm, *ENDS_OF_LOOPS} == set(ROWS)
    assert set(ENDS_OF_LOOPS) <= set(RULES)


def test_no_rewrite_takes_all_calls_of_an_operator_that_has_a_row() -> None:
    """A row is dead if a decomposition, a synonym or torch's own composition replaces its operator before it is imported."""
    targets = [target for target in ROWS if str(target).startswith("aten.")]
    module = rewrite_for_quantization(
        export(EachOperator(targets), (X, Y, INDICES)).module(check_guards=False)
    )
    left = {node.target for node in module.graph.nodes}
    assert [str(target) for target in targets if target not in left] == []


def test_an_operator_has_one_decomposition() -> None:
    with pytest.raises(AssertionError, match=r"aten.matmul.default has two decompositions"):
        decompose_by(torch.matmul, aten.matmul.default)


def test_a_row_says_how_it_is_quantized() -> None:
    with pytest.raises(TypeError, match="quantized"):
        lowers(object())  # type: ignore[call-arg]  # that is the mistake
