# SPDX-License-Identifier: Apache-2.0
"""NPU and CPU share one quantization: between the units no value changes its format."""

from __future__ import annotations

from collections import Counter

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch


class Gated(torch.nn.Module):
    """A product with a fixed-range operand between convolutions, and functions that only the CPU has."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.gate, self.last = (torch.nn.Conv2d(c, 16, 3, padding=1) for c in (3, 16, 16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.nn.functional.elu(self.first(x))
        return self.last(torch.nn.functional.gelu(y * torch.sigmoid(self.gate(y))))


def kinds(target: str, *keep_on_cpu: str) -> Counter[str]:
    import pillion
    from pillion.compile_options import PlacementOptions
    from pillion.partition import inline_segments

    torch.manual_seed(1)
    x = (torch.randn(1, 3, 17, 13),)
    program = pillion.compile(Gated().eval(), x, target=target, placement=PlacementOptions(keep_on_cpu))
    return Counter(op.kind for op in inline_segments(program.graph))


@pytest.mark.parametrize("kept", [(), ("mul",), ("conv2d",)], ids=str)
def test_no_conversion_between_the_units(kept: tuple[str, ...]) -> None:
    found = kinds("imxrt700", *kept)
    assert (found["quantize"], found["dequantize"], found["requantize"]) == (1, 1, 0)


def test_the_same_ops_with_and_without_an_npu() -> None:
    assert kinds("imxrt700") == kinds("cortex-m33+int8")
