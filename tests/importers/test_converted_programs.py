# SPDX-License-Identifier: Apache-2.0
"""Programs that others have quantized with torch's pt2e flow: their scales, bit for bit, and their bytes."""

from __future__ import annotations

import copy
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.fx import GraphModule
from torchao.quantization.pt2e.quantize_pt2e import prepare_pt2e
from typer.testing import CliRunner

import pillion
from importers.pt2e_flows import NETS, QUANTIZERS, converted, net_of, x86, xnnpack
from nightly import in_turn
from pillion import zoo
from pillion.cli import app
from pillion.errors import PillionError
from pillion.importers.torch.fx_nodes import conversion_name
from pillion.importers.torch.quantize.converted_program import read_converted
from pillion.ir.graph import Graph
from pillion.ir.types import DType, PerChannel, PerTensor
from pillion.program import Program
from torch_oracle import compare

pytestmark = pytest.mark.torch
TARGETS = ("cortex-m55", "imxrt700", "cortex-m55+ethos-u55-128")
OTHERS = ("cortex_m", "neutron", "xnnpack")
PAIRS = [
    *((net, quantizer) for net in NETS for quantizer in OTHERS if (net, quantizer) != ("padded", "neutron")),
    ("pooled", "x86"),
    ("pooled", "arm"),
]


@cache
def flow(net: str, quantizer: str, **options: Any) -> tuple[GraphModule, tuple[Tensor, ...]]:
    pytest.importorskip("executorch")
    module, x = net_of(net)
    return converted(module, x, QUANTIZERS[quantizer](**options)), x


def copied(
    net: str = "perceptron", quantizer: str = "xnnpack", **options: Any
) -> tuple[GraphModule, tuple[Tensor, ...]]:
    """A converted program that may be edited."""
    return copy.deepcopy(flow(net, quantizer, **options))


def only(outputs: Any) -> Tensor:
    return outputs[0] if isinstance(outputs, (tuple, list)) else outputs


def activations(module: GraphModule) -> set[tuple[float, int]]:
    """Scales and zero points of a program's activations, in int8."""
    nodes = [n for n in module.graph.nodes if conversion_name(n) == "quantize_per_tensor"]
    return {(n.args[1], n.args[2] - 128 * (n.args[5] is torch.uint8)) for n in nodes}


def weights(module: GraphModule) -> set[tuple[float, ...]]:
    """Scales per channel of a program's int8 weights."""
    nodes = [n for n in module.graph.nodes if conversion_name(n) == "dequantize_per_channel"]
    tensors = [getattr(module, n.args[1].target) for n in nodes if n.args[6] is torch.int8]
    return {tuple(t.double().tolist()) for t in tensors}


def check_scales(module: GraphModule, graph: Graph) -> None:
    """The program has the scales of the converted module, and no others."""
    values = [v for v in graph.values.values() if v.dtype is DType.INT8]
    ours = {
        (v.scale, v.zero_point) for v in values if not v.is_constant and isinstance(v.type.quant, PerTensor)
    }
    assert ours <= activations(module)
    assert {v.type.quant.scales for v in values if isinstance(v.type.quant, PerChannel)} == weights(module)


def has_pool_of_float_sums(module: GraphModule) -> bool:
    """Whether torch adds the pixels of a pool in another order than in the pool's canonical form."""
    return any(node.target is torch.ops.aten.adaptive_avg_pool2d.default for node in module.graph.nodes)


def check_steps(module: GraphModule, x: tuple[Tensor, ...], program: Program) -> None:
    """Rewriting changes no bit, but for the order of sums in pools; each op, fed with our integers, is at most one step from
    torch's float32, whose products are rounded, and whose ties go to even."""
    read = read_converted(module, x, "net")
    source = torch.Generator().manual_seed(2)
    sample = tuple(torch.randn(t.shape, generator=source) for t in x)
    with torch.no_grad():
        ours, theirs = only(read(*sample)), only(module(*sample))
    assert torch.equal(ours, theirs) or has_pool_of_float_sums(module)
    assert float((ours - theirs).abs().max()) <= 2 * max(scale for scale, _ in activations(module))
    found = compare(read, program.graph, *sample)
    assert len(found.largest) >= 2
    assert max(found.largest.values()) <= 1, found


@pytest.mark.parametrize(("net", "quantizer"), PAIRS)
def test_scales_and_steps(net: str, quantizer: str) -> None:
    module, x = flow(net, quantizer)
    program = pillion.compile(module, x, target="cortex-m55")
    check_scales(module, program.graph)
    check_steps(module, x, program)


@pytest.mark.slow
@pytest.mark.turns(3)
@pytest.mark.parametrize("quantizer", OTHERS)
@pytest.mark.parametrize("name", ["ds_cnn", "resnet8", "mobilenet_v2"])
def test_zoo(name: str, quantizer: str) -> None:
    pytest.importorskip("executorch")
    net, x = zoo.build(name, (96, 96) if name == "mobilenet_v2" else None)
    if quantizer == "xnnpack" and name != "mobilenet_v2":
        net.softmax = nn.Identity()  # which XNNPACK leaves in float
    module = converted(net.eval(), x, QUANTIZERS[quantizer]())
    program = pillion.compile(module, x, target="cortex-m55")
    check_scales(module, program.graph)
    check_steps(module, x, program)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
@pytest.mark.turns(3)
@pytest.mark.parametrize(
    ("pair", "target"),
    in_turn([pair for pair in PAIRS if pair[0] in ("branches of three", "mean", "rows", "pooled")], TARGETS),
)
def test_all_executors_agree(pair: tuple[str, str], target: str) -> None:
    module, x = flow(*pair)
    program = pillion.compile(module, x, target=target)
    verdict = program.verify(samples=1)
    assert verdict.ok, verdict


@pytest.mark.parametrize("fold", [True, False])
def test_module_program_and_file_are_one(fold: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after `run_decompositions`, which makes linear layers products with transposed weights."""
    monkeypatch.chdir(tmp_path)
    net, x = net_of("branches")
    module = converted(net, x, xnnpack(), fold=fold)
    exported = torch.export.export(module, x)
    torch.export.save(exported, "net.pt2")
    done = CliRunner().invoke(app, ["compile", "-m", "net.pt2", "-t", "cortex-m55", "-o", "net.pte"])
    assert done.exit_code == 0, done.output
    programs = [
        pillion.compile(module, x, target="cortex-m55"),
        pillion.compile(exported, x, target="cortex-m55"),
        pillion.compile(exported.run_decompositions(), x, target="cortex-m55"),
        pillion.compile("net.pt2", target="cortex-m55"),
        pillion.load("net.pte"),
    ]
    outputs = [program.run(*x)[0] for program in programs]
    assert all(np.array_equal(outputs[0], other) for other in outputs[1:])


def test_part_of_another_module() -> None:
    net, x = net_of("mean")
    module = converted(net, x, xnnpack())
    whole = nn.Sequential(module, nn.Identity())
    program = pillion.compile(whole, x, target="cortex-m55")
    assert np.array_equal(program.run(*x)[0], pillion.compile(module, x, target="cortex-m55").run(*x)[0])


def test_narrow_range_is_a_clamp() -> None:
    """Reduced ranges, 0 to 127 in uint8: nothing beyond them is computed."""
    net, x = net_of("pooled")
    module = converted(net, x, x86(reduce_range=True))
    program = pillion.compile(module, x, target="cortex-m55")
    loud = 9 * x[0]
    with torch.no_grad():
        expected = only(module(loud)).numpy()
    scale = min(scale for scale, _ in activations(module))
    assert np.abs(program.run(loud)[0] - expected).max() <= 2 * scale
    assert program.run(loud)[0].max() == expected.max()


def test_float_program_of_torch_compiles_as_its_module() -> None:
    net, x = net_of("perceptron")
    unlifted = torch.export.export(net, x).module()
    ours = pillion.compile(unlifted, x, target="cortex-m55")
    assert np.array_equal(ours.run(*x)[0], pillion.compile(net, x, target="cortex-m55").run(*x)[0])


class Last(nn.Module):
    """Ends in a function that no quantizer above annotates."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(6, 5)

    def forward(self, x: Tensor) -> Tensor:
        return torch.softmax(self.a(x), -1)


class Gates(nn.Module):
    """Activations directly behind layers: one of an image, one of rows without bias."""

    def __init__(self, activation: nn.Module) -> None:
        super().__init__()
        self.a, self.b, self.f = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 1), nn.Linear(8, 6, bias=False)
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.a(x))
        y = y * self.activation(self.b(y))
        return self.activation(self.f(y.mean((2, 3))))


@pytest.mark.parametrize(
    ("activation", "quantizer", "steps"),
    [(nn.Hardsigmoid, "cortex_m", 0), (nn.Sigmoid, "neutron", 2), (nn.Tanh, "neutron", 2)],
)
def test_activations_that_are_quantized_behind_them_alone(
    activation: type[nn.Module], quantizer: str, steps: int
) -> None:
    """A hard sigmoid is folded into its layer; the range before the others is where they do not saturate."""
    pytest.importorskip("executorch")
    torch.manual_seed(0)
    x = (torch.randn(1, 3, 9, 7),)
    module = converted(Gates(activation()).eval(), x, QUANTIZERS[quantizer]())
    program = pillion.compile(module, x, target="cortex-m55")
    (last,) = module.graph.output_node().all_input_nodes
    with torch.no_grad():
        difference = np.abs(program.run(*x)[0] - only(module(*x)).numpy()).max()
    assert difference <= (steps + 0.01) * last.args[1]


def unconverted() -> tuple[GraphModule, tuple[Tensor, ...]]:
    net, x = net_of("perceptron")
    return prepare_pt2e(torch.export.export(net, x).module(), xnnpack()), x


def last() -> tuple[GraphModule, tuple[Tensor, ...]]:
    x = (torch.randn(2, 6),)
    return converted(Last().eval(), x, xnnpack()), x


def edited(position: int, value: object, which: str = "quantize_per_tensor") -> Any:
    """A converted program in which one argument of all conversions of a kind is another."""

    def make() -> tuple[GraphModule, tuple[Tensor, ...]]:
        module, x = copied()
        for node in module.graph.nodes:
            if conversion_name(node) == which:
                node.args = (*node.args[:position], value, *node.args[position + 1 :])
        module.recompile()
        return module, x

    return make


def with_integer_output() -> tuple[GraphModule, tuple[Tensor, ...]]:
    module, x = copied("pooled", "x86")
    output = module.graph.output_node()
    output.args = ((output.args[0][0].args[0],),)
    module.recompile()
    return module, x


def without_border_conversions(net: str) -> tuple[GraphModule, tuple[Tensor, ...], tuple[Tensor, ...]]:
    """A converted program whose input and output are int8, its float example and one of integers."""
    module, x = copied(net)
    (result,) = module.graph.output_node().all_input_nodes
    module.graph.output_node().replace_input_with(result, result.args[0])
    module.graph.erase_node(result)
    (border,) = (n for n in module.graph.nodes if n.op == "placeholder")
    (quantize,) = border.users
    quantize.replace_all_uses_with(border)
    module.graph.erase_node(quantize)
    module.recompile()
    return module, x, tuple(torch.randint(-128, 128, t.shape, dtype=torch.int8) for t in x)


@pytest.mark.parametrize("net", ["branches", "perceptron", "rows"])
def test_borders_of_int8(net: str) -> None:
    """Conversions at the borders that another pass has taken away already are those that `io_dtype` takes away."""
    module, x, integers = without_border_conversions(net)
    exported = torch.export.export(module, integers)
    whole = pillion.compile(flow(net, "xnnpack")[0], x, target="cortex-m55", io_dtype="int8")
    for given in (module, exported):
        program = pillion.compile(given, integers, target="cortex-m55")
        for ours, theirs in zip(
            (*program.graph.inputs, *program.graph.outputs),
            (*whole.graph.inputs, *whole.graph.outputs),
            strict=True,
        ):
            assert ours.type == theirs.type
        assert np.array_equal(program.run(*integers)[0], whole.run(*integers)[0])


class FloatPool(nn.Module):
    """XNNPACK has no average pool of windows."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Conv2d(3, 5, 3)

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.avg_pool2d(nn.functional.relu6(self.a(x)), 2)


def float_pool() -> tuple[GraphModule, tuple[Tensor, ...]]:
    x = (torch.randn(1, 3, 9, 7),)
    return converted(FloatPool().eval(), x, xnnpack()), x


def asymmetric_weights() -> tuple[GraphModule, tuple[Tensor, ...]]:
    module, x = copied(is_per_channel=False)
    for node in module.graph.nodes:
        if conversion_name(node) == "dequantize_per_tensor" and node.args[0].op == "get_attr":
            node.args = (*node.args[:2], 3, *node.args[3:])
    module.recompile()
    return module, x


FACTORY = """
import torch
from importers.pt2e_flows import converted, net_of, xnnpack

x = net_of("perceptron")[1]

def net():
    return converted(net_of("perceptron")[0], x, xnnpack()), x
"""


def test_factory_of_a_converted_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("executorch")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "flow.py").write_text(FACTORY)
    done = CliRunner().invoke(app, ["compile", "-m", "flow.py:net", "-t", "cortex-m55", "-o", "net.plm"])
    assert done.exit_code == 0, done.output
    module, x = flow("perceptron", "xnnpack")
    program = pillion.compile(module, x, target="cortex-m55", name="net")
    assert (tmp_path / "net.plm").stat().st_size == len(program.image())


REFUSED: dict[str, tuple[Any, dict[str, Any], tuple[str, ...]]] = {
    "calibration data": (copied, {"calibrate": [torch.zeros(2, 13)]}, ("quantized already", "calibrate")),
    "tuning": (copied, {"equalize": True}, ("quantized already", "equalize")),
    "observers": (unconverted, {}, ("prepared, and not converted", "convert_pt2e")),
    "dynamic": (lambda: copied(is_dynamic=True), {}, ("`choose_qparams", "choose_qparams")),
    "float output": (
        last,
        {},
        ("softmax.int `softmax`", "its result is not quantized", "test_converted_programs.py:"),
    ),
    "float pool": (
        float_pool,
        {},
        ("avg_pool2d.default `avg_pool2d`", "its operand `clamp_default` is not quantized"),
    ),
    "16 bits": (edited(5, torch.int16), {}, ("torch.int16",)),
    "other parameters": (edited(1, 0.5), {}, ("other parameters than those of `quantize_per_tensor",)),
    "weights that are not symmetric": (
        asymmetric_weights,
        {},
        ("its weights have the zero point 3",),
    ),
    "integers": (with_integer_output, {}, ("`output` takes the integers", "outputs of int8")),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    pytest.importorskip("executorch")
    make, options, words = REFUSED[name]
    module, x = make()
    with pytest.raises(PillionError) as refused:
        pillion.compile(module, x, target="cortex-m55", **options)
    for word in words:
        assert word in str(refused.value)
    assert all((refused.value.rule, refused.value.here, refused.value.help))


def test_example_of_the_guide() -> None:
    pytest.importorskip("executorch")
    guide = Path(__file__).parents[2] / "docs" / "guide" / "executorch.md"
    section = guide.read_text("utf-8").partition("## From a pt2e flow")[2].partition("\n## ")[0]
    for code in section.split("```python\n")[1:]:
        names: dict[str, Any] = {}
        exec(code.partition("```")[0], names)
        assert names["program"].verify(samples=1).ok
