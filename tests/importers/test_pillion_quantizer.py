# SPDX-License-Identifier: Apache-2.0
"""Pillion's quantizer in torchao's flow: alone, trained, and with the quantizers of others."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.fx import GraphModule
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_qat_pt2e
from torchao.quantization.pt2e.quantizer import ComposableQuantizer

import pillion
from importers.pt2e_flows import converted, net_of, xnnpack
from importers.test_converted_programs import activations, check_scales, only
from pillion.errors import PillionError

pytestmark = pytest.mark.torch
pytest.importorskip("executorch")

from pillion.executorch import PillionQuantizer  # noqa: E402  (it needs the extra)


def attention() -> tuple[nn.Module, tuple[Tensor, ...]]:
    return nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval(), (torch.randn(1, 6, 8),)


def functions() -> tuple[nn.Module, tuple[Tensor, ...]]:
    layers = (nn.Linear(8, 8), nn.SiLU(), nn.Hardswish(), nn.GELU(), nn.LayerNorm(8), nn.Softmax(-1))
    return nn.Sequential(*layers).eval(), (torch.randn(2, 5, 8),)


NETS: dict[str, Callable[[], tuple[nn.Module, tuple[Tensor, ...]]]] = {
    **{name: lambda name=name: net_of(name) for name in ("branches", "branches of three", "mean", "rows")},
    "attention": attention,
    "functions": functions,
}


def check_near(module: GraphModule, x: tuple[Tensor, ...], target: str) -> None:
    """The compiled program has the module's scales, and answers that are near."""
    program = pillion.compile(module, x, target=target)
    with torch.no_grad():
        theirs = only(module(*x)).numpy()
    assert np.abs(program.run(*x)[0] - theirs).max() <= 2 * max(scale for scale, _ in activations(module))
    if target == "cortex-m55":
        check_scales(module, program.graph)


@pytest.mark.parametrize("target", ["cortex-m55", "imxrt700"])
@pytest.mark.parametrize("name", NETS)
def test_nothing_stays_in_float(name: str, target: str) -> None:
    torch.manual_seed(0)
    net, x = NETS[name]()
    quantizer = PillionQuantizer(target)
    module = converted(net, x, quantizer)
    assert not quantizer.float_ops
    check_near(module, x, target)


def test_training() -> None:
    net, x = net_of("branches of three")
    exported = torch.export.export(net, x).module()
    prepared = prepare_qat_pt2e(exported, PillionQuantizer("imxrt700", is_qat=True))
    assert len(list(prepared.parameters())) == 8  # batch norms are folded; four layers remain
    optimizer = torch.optim.SGD(prepared.parameters(), lr=0.05)
    losses = []
    for _ in range(16):
        loss = (only(prepared(*x)) - 0.3).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    assert losses[-1] < losses[0] / 2
    module = convert_pt2e(prepared)
    check_near(module, x, "imxrt700")
    assert float((only(module(*x)) - 0.3).square().mean()) < losses[0] / 2


def linear_only() -> Any:
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )

    config = get_symmetric_quantization_config(is_per_channel=True)
    return XNNPACKQuantizer().set_module_type(nn.Linear, config)


@pytest.mark.parametrize("is_first", [True, False])
def test_with_another_quantizer(is_first: bool) -> None:
    net, x = net_of("branches")
    quantizers = [PillionQuantizer("cortex-m55"), linear_only()]
    module = converted(net, x, ComposableQuantizer(quantizers if is_first else quantizers[::-1]))
    check_near(module, x, "cortex-m55")


def test_quantizes_ops_that_another_quantizer_leaves() -> None:
    """XNNPACK has no softmax: alone it leaves one in float."""
    torch.manual_seed(0)
    net, x = nn.Sequential(nn.Linear(6, 5), nn.Softmax(-1)).eval(), (torch.randn(2, 6),)
    both = ComposableQuantizer([xnnpack(), PillionQuantizer("cortex-m55")])
    check_near(converted(net, x, both), x, "cortex-m55")


def test_float_ops_are_listed() -> None:
    class Spectrum(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.det(x)

    quantizer = PillionQuantizer("cortex-m55")
    module = converted(Spectrum(), (torch.eye(3),), quantizer)
    assert ["det" in op.op for op in quantizer.float_ops] == [True]
    with pytest.raises(PillionError, match="det"):
        pillion.compile(module, (torch.eye(3),), target="cortex-m55")


def test_recurrent_layers_are_refused() -> None:
    net, x = nn.GRU(8, 5, batch_first=True).eval(), (torch.randn(1, 6, 8),)
    with pytest.raises(PillionError, match="a loop over time"):
        converted(net, x, PillionQuantizer("cortex-m55"))


def test_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    monkeypatch.delitem(sys.modules, "pillion.executorch")
    with pytest.raises(PillionError, match=r"pip install 'pillion\[executorch\]'"):
        importlib.import_module("pillion.executorch")
