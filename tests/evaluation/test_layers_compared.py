# SPDX-License-Identifier: Apache-2.0
"""Where precision is lost: planted losses are found, in the layer where they were planted, with what would help."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import lossy_nets as nets
import numpy as np
import pytest
import torch
from torch import nn

import pillion
from pillion.errors import PillionError
from pillion.evaluation.compare import compare_layers, compare_programs
from pillion.evaluation.hints import NoisyTensor, hint_of
from pillion.evaluation.layer_chart import layer_chart_svg, text_bar
from pillion.evaluation.layer_errors import Comparison, LayerErrors
from pillion.importers.torch.float_model import float_model
from pillion.importers.torch.float_tensors import FloatTensors
from pillion.ir.types import DType, PerTensor, TensorType, Value

pytestmark = pytest.mark.torch
X = nets.samples(6, 3, 9, 7, seed=2)


def compared(
    model: nn.Module, calibrate: Any = None, target: str = "cortex-m55", **options: Any
) -> Comparison:
    program = pillion.compile(
        model, X[:1], target=target, calibrate=(X if calibrate is None else calibrate,), name="net", **options
    )
    floats = float_model(model, X[:1])
    data = X.permute(0, 2, 3, 1) if options.get("io_layout") == "nhwc" else X
    return compare_layers(program, floats, FloatTensors(floats), data)


def by_name(comparison: Comparison) -> dict[str, LayerErrors]:
    return {layer.name: layer for layer in comparison.layers}


class Chain(nn.Module):
    """Odd images, two convolutions with a clamp between, a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.one, self.two, self.last = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 6, 3), nn.Linear(6, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.two(self.one(x).relu()).relu().mean((2, 3)))


def test_tensors_of_16_bits_are_layers_too() -> None:
    narrow, wide = compared(Chain()), compared(Chain(), precision="int16")
    assert by_name(narrow).keys() == by_name(wide).keys()
    assert narrow.output_db is not None
    assert wide.output_db is not None
    assert wide.output_db > narrow.output_db + 10
    assert not any("256 levels" in layer.hint.reason for layer in wide.layers)


class Joined(nn.Module):
    """Two branches of very different size under one scale."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.small, self.large, self.last = nn.Conv2d(3, 4, 3), nn.Conv2d(3, 4, 3), nn.Conv2d(8, 5, 3)
        with torch.no_grad():
            self.large.weight *= 60
            self.last.weight[:, 4:] /= 60

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.cat([self.small(x).relu(), self.large(x).relu()], 1))


def test_compared_outputs_equal_the_reference() -> None:
    found = compared(nets.Net())
    program = pillion.compile(nets.Net(), X[:1], target="cortex-m55", calibrate=(X,))
    with torch.no_grad():
        wanted = nets.Net()(X).numpy()
    got = np.concatenate([program.run(x[None])[0] for x in X])
    assert found.samples == 6
    assert found.output_db == pytest.approx(
        10 * np.log10((wanted**2).sum() / ((got - wanted) ** 2).sum()), abs=0.01
    )
    assert found.expected_db == pytest.approx(found.output_db, abs=1.5)
    assert sum(layer.share for layer in found.layers) == pytest.approx(1)
    assert [layer.damage for layer in found.layers] == sorted(
        (la.damage for la in found.layers), reverse=True
    )
    assert {"x", "relu_default", "mean", "linear"} <= set(by_name(found))


@pytest.mark.turns(3)
@pytest.mark.parametrize("options", [{"io_layout": "nhwc"}, {"io_dtype": "int8"}, {"target": "imxrt700"}])
def test_layouts_types_and_units_are_seen_through(options: dict[str, Any]) -> None:
    plain, other = compared(Chain()), compared(Chain(), **options)
    assert set(by_name(other)) | {"x"} == set(by_name(plain))
    assert other.output_db == pytest.approx(plain.output_db, abs=3)


def test_a_layer_alone_is_that_layer_alone() -> None:
    """The result of the input's rounding is computed here by hand, in PyTorch."""
    found = by_name(compared(Chain()))["x"]
    program = pillion.compile(Chain(), X[:1], target="cortex-m55", calibrate=(X,))
    value = program.graph.values["x_q"]
    rounded = ((X / value.scale).round() + value.zero_point).clamp(-128, 127)
    with torch.no_grad():
        wanted, got = Chain()(X), Chain()((rounded - value.zero_point) * value.scale)
    assert found.damage == pytest.approx(float(((got - wanted) ** 2).sum() / (wanted**2).sum()), rel=1e-3)


def test_ranges_that_are_too_small_are_named() -> None:
    found = compared(Chain(), calibrate=X * 0.2)
    worst = found.layers[0]
    assert worst.hint.help == "--calibrate with data that reaches them"
    assert worst.hint.is_option
    assert "calibrated for" in worst.hint.reason
    assert found.output_db is not None
    assert found.output_db < 20 < (compared(Chain()).output_db or 0)


def test_a_tensor_that_shares_its_scale_is_named() -> None:
    hint = by_name(compared(Joined()))["relu_default"].hint
    assert "shares a scale with what comes together in `cat_i8`" in hint.reason
    assert hint.help.startswith("change the model")
    assert not hint.is_option


def test_values_that_use_a_part_of_the_levels_are_named() -> None:
    program = pillion.compile(Chain(), X[:1], target="cortex-m55", calibrate=(X * 9,), name="net")
    floats = float_model(Chain(), X[:1])
    hint = by_name(compare_layers(program, floats, FloatTensors(floats), X))["x"].hint
    assert hint.reason.startswith("11% of its 256 levels are used")
    assert hint.help == "--calibrate with data like this"


def test_few_large_values_that_take_the_range_are_named() -> None:
    """Among two million usual values, one that is far off costs more by the range that it takes than it would if it were cut off."""
    real = np.random.default_rng(0).standard_normal((1500, 1500))
    real[7, 8] = 12.0
    low, high = real.min(), real.max()
    scale = float((high - low) / 255)
    value = Value("y_i8", TensorType(real.shape, DType.INT8, PerTensor(scale, round(-128 - low / scale))))
    rounded = np.rint(real / scale) * scale
    tensor = NoisyTensor()
    tensor.add(real, rounded, rounded, value)
    hint = hint_of(nets.classifier().graph.ops[-2], value, tensor)
    assert "few large values take the range" in hint.reason
    assert "torch.clamp(x, " in hint.help
    assert not hint.is_option


def test_channels_of_other_sizes_are_named() -> None:
    model = Chain()
    with torch.no_grad():
        for part in (model.one.weight, model.one.bias):
            part[0] *= 60
        model.two.weight[:, 0] /= 60
    hint = by_name(compared(model))["relu_default"].hint
    assert "one channel is" in hint.reason
    assert "equalize" in hint.help
    assert not hint.is_option


def test_another_models_program_is_refused() -> None:
    program = pillion.compile(nets.Net(), X[:1], target="cortex-m55", calibrate=(X,))

    class Other(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.abs().mean((2, 3)) @ torch.ones(3, 5)

    floats = float_model(Other(), X[:1])
    with pytest.raises(PillionError, match="was not made of this float model"):
        compare_layers(program, floats, FloatTensors(floats), X)
    with pytest.raises(PillionError, match="the data is empty"):
        compare_layers(program, floats, FloatTensors(floats), [])


def test_a_float_model_with_other_weights_is_refused() -> None:
    """As with `--float net.py:Net` and no --weights: each call of `Net` draws weights of its own."""
    program = pillion.compile(Chain(), X[:1], target="cortex-m55", calibrate=(X,), name="net")
    other = Chain()
    torch.manual_seed(2)
    for layer in (other.one, other.two, other.last):
        layer.reset_parameters()
    floats = float_model(other, X[:1])
    with pytest.raises(PillionError, match="has other weights than `net`") as caught:
        compare_layers(program, floats, FloatTensors(floats), X)
    assert "--weights FILE" in str(caught.value.help)


def test_the_picture_holds_names_as_text() -> None:
    found = compared(nets.Net())
    hostile = Comparison(
        "<script>alert(1)</script>",
        "cortex-m55",
        1,
        None,
        None,
        tuple(
            LayerErrors(
                f'</text><script x="{n}">\x07', "conv2d", "", 1.0, 1.0, 1.0, 1.0, 0.5, found.layers[0].hint
            )
            for n in range(60)
        ),
        (),
    )
    for comparison in (found, hostile):
        drawn = layer_chart_svg(comparison)
        root = ElementTree.fromstring(drawn)
        tags = {element.tag.rpartition("}")[2] for element in root.iter()}
        assert tags == {"svg", "title", "style", "rect", "g", "text"}
        bars = [e for e in root.iter() if e.get("class") == "bar"]
        assert len(bars) == min(len(comparison.layers), 40)
        widths = [int(e.get("width") or 0) for e in bars]
        assert widths == sorted(widths, reverse=True)
    assert [len(text_bar(part, 10)) for part in (0, 0.5, 1, 2)] == [0, 5, 10, 10]


def test_two_programs_are_set_beside_each_other() -> None:
    y = torch.arange(6) % 5
    small, large = nets.classifier("cortex-m33"), nets.classifier("cortex-m55")
    found = compare_programs(small, large, ("a", "b"), (X, y), measure=False)
    assert found.first.costs.ram_bytes == small.sram_bytes
    assert found.second.costs.constant_bytes == large.lowered.constant_bytes
    assert found.same_answer == 1.0
    assert found.signal_to_noise_db is None  # the same bytes
    assert found.first.metrics == found.second.metrics == pillion.evaluate(small, (X, y)).metrics
    npu = nets.classifier("imxrt700")
    other = compare_programs(npu, npu, ("a", "b"))
    assert "no emulator has" in other.second.not_measured
    assert other.second.costs.flash_bytes is None
