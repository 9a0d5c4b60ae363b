# SPDX-License-Identifier: Apache-2.0
"""Quantization-aware training as users do it: their loop, their checkpoints, and the compiled program is what they trained."""

from __future__ import annotations

import copy
import io
import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from quantized_graphs import check_graph, random_inputs
from test_ptq import CASES, FUNCTIONS, Call
from torch import Tensor, nn
from torch.nn import functional as F
from training_loops import batches, compiled, train

import pillion
from nightly import part_of
from pillion.errors import PillionError
from pillion.importers.torch.quantize.specs import Specs
from pillion.importers.torch.train.qat import finish_training, prepare_qat
from pillion.importers.torch.train.qat_module import QatModule
from pillion.ir.constraints import QuantizationConstraints
from torch_oracle import compare, compare_trained

pytestmark = pytest.mark.slow

EXAMPLE = random_inputs((1, 3, 9, 7))
TARGETS = ["imxrt700", "cortex-m55+int8"]


class Net(nn.Module):
    """Everything that has a mode: norms that fold and one that does not, dropouts, both ranks."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.norm = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8, eps=1e-3, momentum=0.3)
        self.second = nn.BatchNorm2d(8)
        self.drop2d, self.drop = nn.Dropout2d(0.3), nn.Dropout(0.5)
        self.linear, self.norm1 = nn.Linear(8, 6, bias=False), nn.BatchNorm1d(6, momentum=None)
        self.last = nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norm(self.conv(x)))
        y = self.drop2d(self.second(y + y.mean((2, 3), keepdim=True))).mean((2, 3))
        y = F.relu(self.norm1(self.linear(self.drop(y))))
        return self.last(F.dropout(y, 0.1, self.training))


@pytest.fixture
def trained() -> QatModule:
    module = pillion.prepare_qat(Net(), EXAMPLE, TARGETS[0])
    train(module, batches(EXAMPLE, 5, size=8))
    return module.eval()


@pytest.mark.slow
def test_an_ordinary_loop(trained: QatModule) -> None:
    """Data to learn: which of four quadrant patterns is in the image."""
    torch.manual_seed(0)
    labels = torch.randint(4, (256,))
    patterns = torch.randn(4, 3, 9, 7)
    images = patterns[labels] + 0.5 * torch.randn(256, 3, 9, 7)
    model = Net()
    before = copy.deepcopy(model.state_dict())
    module = pillion.prepare_qat(model, EXAMPLE, "imxrt700")
    optimizer = torch.optim.Adam(module.parameters(), lr=0.01)
    for _ in range(6):
        module.train()
        for start in range(0, 256, 32):
            optimizer.zero_grad()
            F.cross_entropy(module(images[start : start + 32]), labels[start : start + 32]).backward()
            optimizer.step()
    module.eval()
    with torch.no_grad():
        assert (module(images).argmax(1) == labels).float().mean() > 0.9
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())


@pytest.mark.turns(7)
@pytest.mark.parametrize("name", part_of([*CASES, *FUNCTIONS], 4))
def test_the_trained_module_is_the_program(name: str) -> None:
    """Every op of the reference within one step of torch's integers and of the module in eval mode."""
    function, shapes = CASES.get(name, (lambda m, x: FUNCTIONS[name](m.conv(x)), ((1, 8, 5, 7),)))
    inputs = random_inputs(*shapes)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the model's forward depends on the batch")
        module = prepare_qat(Call(function), inputs)
    train(module, batches(inputs, 3))
    program, graph = compiled(module.eval(), inputs)
    check_graph(program)
    assert program.float_ops == ()
    x = batches(inputs, 1, seed=9)[0]
    found = compare(program.graph_module, graph, *x), compare_trained(module, graph, *x)
    assert all(largest <= 1 for comparison in found for largest in comparison.largest.values())


@pytest.mark.parametrize("target", TARGETS)
def test_compile_takes_it_from_there(target: str) -> None:
    module = pillion.prepare_qat(Net(), EXAMPLE, target)
    train(module, batches(EXAMPLE, 5, size=8))
    module.eval()
    program = pillion.compile(module, EXAMPLE, target=target)
    (scale,) = {op.x.type.quant.scale for op in program.graph.ops if op.kind == "dequantize"}
    for x, *_ in batches(EXAMPLE, 8, seed=50):
        with torch.no_grad():
            steps = (module(x).numpy() - program.run(x)[0]) / scale
        assert abs(steps).max() < 3.5  # steps of the result, after seven ops that may differ by one each


@pytest.mark.parametrize("size", [1, 2, 5])
def test_batches_of_any_size(trained: QatModule, size: int) -> None:
    (x,) = random_inputs((size, 3, 9, 7))
    with torch.no_grad():
        whole = trained(x)
        assert torch.allclose(whole, torch.cat([trained(sample[None]) for sample in x]), atol=1e-6)
    program = finish_training(trained, (x,))
    assert next(n for n in program.nodes if n.op == "placeholder").meta["val"].shape[0] == size


def test_eval_mode_keeps_trained_ranges(trained: QatModule) -> None:
    (x,) = random_inputs((4, 3, 9, 7), seed=3)
    trained(x)  # the weights' ranges follow the last step of the optimizer
    before = copy.deepcopy(trained.state_dict())
    first, second = trained(x), trained(100 * x)
    assert torch.equal(first, trained(x))
    assert not torch.equal(first, second)
    assert all(torch.equal(before[key], value) for key, value in trained.state_dict().items())


def test_modes() -> None:
    module = prepare_qat(Net(), EXAMPLE)
    assert module.training
    assert module.eval() is module
    assert not module.training
    (x,) = random_inputs((4, 3, 9, 7))
    assert torch.equal(module(x), module(x))
    assert module.train().training
    assert not torch.equal(module(x), module(x))
    outer = nn.Sequential(module, nn.Softmax(1)).eval()
    assert not module.training
    assert torch.equal(outer(x), outer(x))


@pytest.mark.parametrize("mode", [True, False])
def test_state_dict(trained: QatModule, mode: bool) -> None:
    """Through a file into a fresh module: same results, and the mode stays the fresh one's."""
    (x,) = random_inputs((4, 3, 9, 7))
    want = trained(x)
    file = io.BytesIO()
    torch.save(trained.state_dict(), file)
    file.seek(0)
    fresh = pillion.prepare_qat(Net(), EXAMPLE, TARGETS[0]).train(mode)
    fresh.load_state_dict(torch.load(file))
    assert fresh.training == mode
    assert fresh.is_trained
    before = fresh.ranges()[0].max_val.clone()
    fresh(100 * x)
    assert bool(fresh.ranges()[0].max_val != before) == mode
    fresh.load_state_dict(trained.state_dict())
    assert torch.equal(fresh.eval()(x), want)


def test_copies_are_independent(trained: QatModule) -> None:
    (x,) = random_inputs((4, 3, 9, 7))
    want = trained(x)
    twin = copy.deepcopy(trained)
    assert torch.equal(twin(x), want)
    train(twin, batches(EXAMPLE, 3, size=8))
    assert not torch.equal(twin.eval()(x), want)
    assert torch.equal(trained(x), want)


def test_loops_with_more_in_them() -> None:
    """Mixed precision, groups of parameters, a schedule, clipped gradients, and an average over models, which is compiled."""
    module = pillion.prepare_qat(Net(), EXAMPLE, TARGETS[1])
    named = dict(module.named_parameters())
    weights = [p for name, p in named.items() if name.endswith("weight")]
    others = [p for name, p in named.items() if not name.endswith("weight")]
    optimizer = torch.optim.AdamW([{"params": weights, "weight_decay": 0.1}, {"params": others}], 0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 4)
    average = torch.optim.swa_utils.AveragedModel(module)
    for x, *_ in batches(EXAMPLE, 4, size=8):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = module(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        average.update_parameters(module)
    averaged = average.module
    assert isinstance(averaged, QatModule)
    assert averaged.is_trained
    program, graph = compiled(averaged.eval(), EXAMPLE)
    check_graph(program)
    assert all(largest <= 1 for largest in compare_trained(averaged, graph, *EXAMPLE).largest.values())


def test_compiling_leaves_the_module_as_it_was(trained: QatModule) -> None:
    (x,) = random_inputs((4, 3, 9, 7))
    trained(x)
    before = copy.deepcopy(trained.state_dict())
    pillion.compile(trained.train(), EXAMPLE, target=TARGETS[0])
    assert trained.training
    trained.eval()
    assert all(
        torch.equal(before[key], value) for key, value in trained.state_dict().items() if "enabled" not in key
    )
    train(trained, batches(EXAMPLE, 1, size=8))


def test_device_moves() -> None:
    """All tensors go along (no machine of the tests has a GPU; `meta` takes its place)."""
    module = prepare_qat(Net(), EXAMPLE).to("meta")
    assert {t.device.type for t in (*module.parameters(), *module.buffers())} == {"meta"}
    assert not [n for n in module.rounding.graph.nodes if "device" in n.kwargs]


def test_frozen_parameters_stay() -> None:
    model = Net()
    model.conv.weight.requires_grad_(False)
    module = prepare_qat(model, EXAMPLE)
    train(module, batches(EXAMPLE, 3, size=8))
    state = module.rounding.state_dict()
    assert torch.equal(state["conv.weight"], model.conv.weight)
    assert not torch.equal(state["last.weight"], model.last.weight)


@pytest.mark.parametrize(
    "function",
    [
        lambda m, x: m.linear(x) / (m.table[0, :3] + 5),
        lambda m, x: F.linear(x, m.linear.weight * m.scale),
        lambda m, x: x @ m.matrix,
        lambda m, x: torch.minimum(m.linear(x), m.scale),
        lambda m, x: x * m.table[0, :7] + m.scale,
    ],
)
def test_parameters_that_are_no_weights_are_trained(function: Callable[..., Tensor]) -> None:
    class Free(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.linear = nn.Linear(7, 3)
            self.matrix = nn.Parameter(torch.randn(7, 3))
            self.table = nn.Parameter(torch.randn(1, 9))
            self.scale = nn.Parameter(torch.tensor(0.7))

        def forward(self, x: Tensor) -> Tensor:
            return function(self, x)

    inputs = random_inputs((5, 7))
    module = prepare_qat(Free(), inputs)
    train(module, batches(inputs, 3))
    used = [p for p in module.parameters() if p.grad is not None]
    assert len(used) == len(
        {n.target for n in module.rounding.graph.nodes if n.op == "get_attr"}
        & dict(module.rounding.named_parameters()).keys()
    )
    assert all(bool(p.grad.abs().sum() > 0) for p in used if p.grad is not None)
    program, graph = compiled(module.eval(), inputs)
    check_graph(program)
    assert all(largest <= 1 for largest in compare_trained(module, graph, *inputs).largest.values())


@pytest.mark.slow
def test_tensors_that_share_a_range_have_the_widest() -> None:
    """A moving average over tensors would settle between 1 and 20, and cut off the second operand."""
    module = prepare_qat(Call(lambda m, x: torch.cat([x, m.conv(x) * 20], 1)), random_inputs((2, 8, 5, 7)))
    train(module, batches(random_inputs((2, 8, 5, 7)), 100))
    (x,) = random_inputs((2, 8, 5, 7), seed=500)
    widest = max(float(observer.max_val) for observer in module.ranges())
    with torch.no_grad():
        assert widest > 0.8 * float(module.eval()(x).max())


def test_dropout_does_not_widen_ranges() -> None:
    """What it scales up in training is not what the device will see."""
    inputs = random_inputs((4, 7))
    module = prepare_qat(nn.Sequential(nn.ReLU(), nn.Dropout(0.9), nn.Linear(7, 3)), inputs)
    module(torch.ones(4, 7))
    assert max(float(o.max_val) for o in module.ranges()[:2]) == pytest.approx(1.0)


def test_fake_quantization_is_that_of_the_conversion() -> None:
    """Scale and zero point in training are those that conversion computes, bit for bit."""
    for seed in range(50):
        spec: Any = Specs(training=True).activation.observer_or_fake_quant_ctr
        rounding = spec(dtype=torch.int8, quant_min=-128, quant_max=127, qscheme=torch.per_tensor_affine)
        rounding(random_inputs((97,), seed=seed)[0] * (seed + 1) + seed)
        scale, zero_point = rounding.calculate_qparams()
        assert torch.equal(scale, rounding.scale)
        assert torch.equal(zero_point, rounding.zero_point)


def test_untrained_modules_are_calibrated_with_a_warning() -> None:
    with pytest.warns(UserWarning, match="not trained"):
        pillion.compile(prepare_qat(Net(), EXAMPLE), EXAMPLE, target="cortex-m55")
    data = [(5 * x,) for x, *_ in batches(EXAMPLE, 4)]
    with pytest.warns(UserWarning, match="not trained"):
        program = finish_training(prepare_qat(Net(), EXAMPLE), EXAMPLE, data)
    first = next(
        n for n in program.nodes if "quantize_per_tensor" in str(n.target) and "relu" not in str(n.args)
    )
    assert first.args[1] > 0.05
    module = prepare_qat(Net(), EXAMPLE).eval()
    for batch in data:
        module(*batch)
    with pytest.warns(UserWarning, match="not trained"):
        finish_training(module, EXAMPLE)


def test_trained_modules_do_not_warn(trained: QatModule) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pillion.compile(trained, EXAMPLE, target=TARGETS[0])


def test_refusals(trained: QatModule) -> None:
    with pytest.raises(PillionError, match="ranges already"):
        finish_training(trained, EXAMPLE, calibrate=[EXAMPLE])
    with pytest.raises(PillionError, match="do not fit"):
        finish_training(trained, random_inputs((1, 3, 9, 8)))
    plain = prepare_qat(Net(), EXAMPLE)
    with pytest.raises(PillionError, match="another way"):
        finish_training(
            plain, EXAMPLE, constraints=QuantizationConstraints(per_tensor_weights=frozenset({"linear"}))
        )
    with pytest.raises(PillionError, match="no target"):
        pillion.prepare_qat(Net(), EXAMPLE, "imxrt7000")


@pytest.mark.parametrize("where", ["data", "weights"])
def test_diverged_training_is_reported(where: str) -> None:
    """The loop goes on with losses of NaN, as without quantization; compiling says what happened."""
    inputs = random_inputs((2, 3, 5, 7))
    module = prepare_qat(nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()), inputs)
    train(module, batches(inputs, 1))
    if where == "weights":
        nn.init.constant_(next(module.parameters()).data[1], float("nan"))
        losses = train(module, batches(inputs, 2))
    else:
        losses = train(module, [(torch.full((2, 3, 5, 7), float("nan")),), *batches(inputs, 1)])
    assert torch.tensor(losses).isnan().all()
    with pytest.raises(PillionError, match="training met a value that is not finite"):
        finish_training(module.eval(), inputs)


def test_float_ops_are_warned_of_before_training() -> None:
    class Products(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.logcumsumexp(x, 1)

    with pytest.warns(UserWarning, match="logcumsumexp"):
        prepare_qat(nn.Sequential(nn.Linear(3, 4), Products()), random_inputs((2, 3)))


def test_a_forward_that_fixes_the_batch_is_reported() -> None:
    with pytest.warns(UserWarning, match=r"inputs of \[2, 8, 5, 7\]"):
        module = prepare_qat(Call(lambda m, x: m.conv(x).view(2, 280)), random_inputs((2, 8, 5, 7)))
    train(module, batches(random_inputs((2, 8, 5, 7)), 2))


def test_nothing_is_printed() -> None:
    """As torchao does where it finds no GPU."""
    code = "import pillion, torch; pillion.prepare_qat(torch.nn.Linear(4, 4), (torch.randn(2, 4),), 'cortex-m55')"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout + found.stderr == ""
