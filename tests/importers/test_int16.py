# SPDX-License-Identifier: Apache-2.0
"""Tensors in 16 bits: the programs of all executors agree, and they are as much closer to float as finer steps promise."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import pillion
from pillion.ir.precision_choice import PrecisionChoice
from pillion.ir.types import DType
from pillion.ops import Add, ArgMax, Conv2d, Lut, Requantize, TopValues


class Residual(nn.Module):
    """Convolutions, a depthwise one, a sum with a clamp, pools, a function, a mean and a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 9, 3, padding=1)
        self.norm = nn.BatchNorm2d(9)
        self.depth = nn.Conv2d(9, 9, 3, padding=1, groups=9)
        self.pool = nn.MaxPool2d(2)
        self.head = nn.Linear(9, 5)

    def forward(self, x: Tensor) -> Tensor:
        """Runs the net."""
        x = torch.relu(self.norm(self.stem(x)))
        x = self.pool(torch.relu(self.depth(x) + x))
        return self.head(torch.sigmoid(x).mean((2, 3)))


class Mixed(nn.Module):
    """A stride, groups, dilation, an average, products, differences, moves and a softmax."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1, stride=2)
        self.wide = nn.Conv2d(8, 24, 3, dilation=2, padding=2, groups=8)
        self.pool = nn.AvgPool2d(2, padding=1)
        self.head = nn.Linear(7, 5)

    def forward(self, x: Tensor) -> Tensor:
        """Runs the net."""
        x = nn.functional.hardswish(self.stem(x))
        x = self.pool(self.wide(x))
        x = torch.clamp(x, -1, 1) * 0.7 - x
        x = nn.functional.pad(x, (1, 2, 0, 1)).flatten(1)[:, : 7 * 21].reshape(-1, 21, 7)
        return torch.softmax(self.head(torch.tanh(x)), -1)


class Attention(nn.Module):
    """Products of two tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(13, 13) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        """Runs the net."""
        shares = torch.softmax(self.query(x) @ self.key(x).transpose(1, 2) / 13**0.5, -1)
        return shares @ self.value(x)


class Pointwise(nn.Module):
    """Functions that are steep near 0, selections, quotients, norms, a resize, extrema and sums over axes."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.groups, self.norm = nn.GroupNorm(2, 8), nn.LayerNorm(8)
        self.bound = nn.Parameter(torch.rand(8, 1, 1) + 1, requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        """Runs the net."""
        x = self.stem(x)
        root = torch.sqrt(x * x + 0.1)
        y = torch.where(x > root - 0.7, 1 / (1.5 + torch.tanh(x)), torch.rsqrt(x * x + 0.2))
        y = torch.minimum(y, self.bound) / (torch.log(root + 1) + 1)
        y = self.norm(torch.relu(self.groups(y)).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        y = nn.functional.interpolate(y, scale_factor=2, mode="bilinear")
        return torch.cat([y.amax((2, 3)), y.sum((2, 3)) / 50, root.mean((2, 3)) ** 1.7], 1)


class Steps(nn.Module):
    """A function with jumps, whose table would round them off, and positions."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Runs the net."""
        x = torch.tanh(x) + x
        return torch.floor(x), x.argmax(1), x.topk(2)[0]


NETS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "residual": (Residual, (2, 3, 11, 13)),
    "mixed": (Mixed, (2, 3, 11, 13)),
    "attention": (Attention, (1, 17, 13)),
    "pointwise": (Pointwise, (2, 3, 7, 9)),
}


@cache
def built(name: str) -> tuple[nn.Module, list[Tensor]]:
    """A net and its samples."""
    torch.manual_seed(3)
    make, shape = NETS[name]
    return make().eval(), [torch.randn(shape) for _ in range(8)]


@cache
def compiled(name: str, target: str = "cortex-m33", **options: Any) -> pillion.Program:
    """The program of a net with some options."""
    net, samples = built(name)
    return pillion.compile(net, samples[0], calibrate=samples, target=target, **options)


def decibels(name: str, program: pillion.Program) -> float:
    """The distance of a program to the float net."""
    return decibels_of(*built(name), program)


def decibels_of(net: nn.Module, samples: Sequence[Tensor], program: pillion.Program) -> float:
    """The same of any net."""
    exact = np.concatenate([net(x).detach().numpy().ravel() for x in samples])
    found = np.concatenate([np.asarray(program.run(x.numpy())).ravel() for x in samples])
    return float(10 * np.log10((exact**2).sum() / ((exact - found) ** 2).sum()))


@pytest.mark.parametrize(
    ("name", "gain"), [("residual", 20), ("mixed", 20), ("attention", 12), ("pointwise", 10)]
)
def test_sixteen_bits_are_closer_to_float(name: str, gain: float) -> None:
    """Weights of 8 bits limit the attention."""
    narrow, wide = (decibels(name, compiled(name, **o)) for o in ({}, {"precision": "int16"}))
    assert wide > narrow + gain


@pytest.mark.parametrize(
    ("name", "arithmetic"), [*((name, "cmsis-nn") for name in NETS), ("pointwise", "tflite")]
)
def test_executors_have_the_same_bytes(name: str, arithmetic: str) -> None:
    program = compiled(name, precision="int16", arithmetic=arithmetic)
    for x in built(name)[1][:2]:
        exact = program.run(x.numpy(), on="reference")
        for executor in ("host", "mps2-an505"):
            np.testing.assert_array_equal(program.run(x.numpy(), on=executor), exact)


def test_functions_with_jumps_stay_in_8_bits() -> None:
    torch.manual_seed(3)
    net, samples = Steps(), [torch.randn(3, 5, 11) * 3 for _ in range(8)]
    program = pillion.compile(net, samples[0], calibrate=samples, target="cortex-m33", precision="int16")
    tables = [op for op in program.graph.ops if isinstance(op, Lut)]
    assert [op.y.dtype for op in tables] == [DType.INT16, DType.INT8]
    places = [op for op in program.graph.ops if isinstance(op, (ArgMax, TopValues))]
    assert [op.x.dtype for op in places] == [DType.INT16] * 2
    exact = program.run(samples[0].numpy(), on="reference")
    for executor in ("host", "mps2-an505"):
        for found, wanted in zip(program.run(samples[0].numpy(), on=executor), exact, strict=True):
            np.testing.assert_array_equal(found, wanted)


def test_a_name_widens_what_it_names_and_its_operands() -> None:
    program = compiled("residual", int16=("stem",))
    convolutions = [op for op in program.graph.ops if isinstance(op, Conv2d)]
    assert [op.y.dtype for op in convolutions] == [DType.INT16]
    sums = [op for op in program.graph.ops if isinstance(op, Add) and op.is_wide]
    assert DType.INT8 in {sums[-1].y.dtype, program.graph.ops[-1].operands[0].dtype}


def test_int8_readers_of_int16_tensors_shift() -> None:
    """The steps of 8 bits are a power of two of those of 16 bits."""
    shifts = []
    for name, tensor in (("residual", "depth"), ("mixed", "stem"), ("attention", "value")):
        program = compiled(name, int16=(tensor,))
        narrowed = [op for op in program.graph.ops if isinstance(op, Requantize) and op.y.dtype is DType.INT8]
        shifts += [math.log2(op.y.scale / op.x.scale) for op in narrowed]
        for op in narrowed:
            reach = -op.x.dtype.bounds[0] * op.x.scale
            most = max(abs(bound - op.y.zero_point) for bound in op.y.dtype.bounds) * op.y.scale
            assert 1.4 * most < reach < 2.9 * most
    assert len(shifts) > 2
    assert all(shift == int(shift) for shift in shifts)


class Stream(nn.Module):
    """A residual stream, to which one branch adds much and one next to nothing."""

    def __init__(self, factors: Sequence[float]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv2d(6, 6, 3, padding=1) for _ in factors)
        self.factors = factors

    def forward(self, x: Tensor) -> Tensor:
        """Runs the net."""
        for layer, factor in zip(self.layers, self.factors, strict=True):
            x = x + factor * layer(x)
        return x


def test_tensors_that_are_added_have_the_same_steps_unless_one_is_much_smaller() -> None:
    def sums(*factors: float) -> list[Add]:
        torch.manual_seed(0)
        net, data = Stream(factors).eval(), [torch.randn(1, 6, 9, 7) for _ in range(8)]
        made = pillion.compile(
            net, data[0], target="cortex-m55", calibrate=data, precision="int16", progress=False
        )
        assert decibels_of(net, data, made) > 40
        return [op for op in made.graph.ops if isinstance(op, Add)]

    alike, apart = sums(1.0, 2.0), sums(1.0, 1e-3)
    assert [len({v.scale for v in (op.a, op.b, op.y)}) for op in alike] == [1, 1]
    assert [len({v.scale for v in (op.a, op.b, op.y)}) for op in apart] == [1, 2]


def test_an_unknown_name_is_refused_with_those_that_exist() -> None:
    net, samples = built("residual")
    with pytest.raises(pillion.PillionError) as error:
        pillion.compile(net, samples[0], target="cortex-m33", int16=("tail",))
    assert "stem" in error.value.here
    assert "tail" in error.value.what


@pytest.mark.parametrize("suffix", [".pte", ".tflite"])
def test_other_formats_refuse_wide_layers(suffix: str, tmp_path: Any) -> None:
    with pytest.raises(pillion.PillionError, match="16 bits") as error:
        compiled("residual", precision="int16").save(tmp_path / f"net{suffix}")
    for way_out in ("-o FOLDER", "--kernels pillion for a .pte", "--arithmetic tflite for a .tflite"):
        assert way_out in error.value.help


def test_images_in_pte_files_have_wide_layers(tmp_path: Any) -> None:
    """The image of the file computes what the program does."""
    program = compiled("residual", precision="int16")
    program.save(tmp_path / "net.pte", kernels="pillion")
    payload = (tmp_path / "net.pte").read_bytes()
    assert b"PillionBackend" in payload
    assert program.image()[:16] in payload


def test_samples_of_16_bits_go_in_as_they_are() -> None:
    net, samples = built("residual")
    program = pillion.compile(
        net, samples[0], calibrate=samples, target="cortex-m33", precision="int16", io_dtype="int16"
    )
    (value,), (answer,) = program.graph.inputs, program.graph.outputs
    assert value.dtype is answer.dtype is DType.INT16
    levels = np.round(samples[0].numpy() / value.scale).astype(np.int16)
    found = np.asarray(program.run(levels)).astype(np.float64) * answer.scale
    exact = net(samples[0]).detach().numpy()
    assert np.abs(found - exact).max() < 2e-3 * np.abs(exact).max()


class Joined(nn.Module):
    """Moves and joins of tensors with scales of their own, and a pool behind a pad of another value than its least."""

    def __init__(self) -> None:
        super().__init__()
        self.small, self.large = nn.Conv2d(3, 5, 1, bias=False), nn.Conv2d(3, 4, 3, padding=1)
        with torch.no_grad():
            self.large.weight.mul_(50)
            self.large.weight[1] = 1e-7
            self.large.bias[1] = 2.0
            self.large.weight[3] = self.small.weight[2] = 0.0

    def forward(self, x: Tensor) -> Tensor:
        """Runs the net."""
        x = torch.cat([self.small(x), self.large(x)], 1)
        return nn.functional.max_pool2d(nn.functional.pad(x, (1, 1, 1, 1), value=-0.25), 3, 2)


@pytest.mark.parametrize("rounding", ["nearest", "fitted"])
def test_joins_pads_and_channels_that_are_zero_or_nearly_so_keep_their_bits(rounding: Any) -> None:
    """A bias that exceeds 32 bits in fine steps would saturate, and one channel would send the layer to a slow kernel."""
    torch.manual_seed(2)
    net, samples = Joined().eval(), [torch.randn(1, 3, 9, 7) for _ in range(8)]
    program = pillion.compile(
        net,
        samples[0],
        calibrate=samples,
        target="cortex-m55",
        precision="int16",
        weight_rounding=rounding,
        progress=False,
    )
    kernels = {step.choice.kernel.name for step in program.lowered.steps}
    assert not kernels & {"conv2d_16", "depthwise_conv2d_16"}
    assert DType.INT8 not in {op.results[0].dtype for op in program.graph.ops}
    for x in samples:
        exact = net(x).detach().numpy()
        found = np.asarray(program.run(x.numpy(), on="host"))
        np.testing.assert_array_equal(found, program.run(x.numpy(), on="reference"))
        assert np.abs(found - exact).max() < 1e-2 * np.abs(exact).max()


@pytest.mark.parametrize(("factor", "is_fast"), [(200.0, True), (20_000.0, False)])
def test_large_weights_of_small_inputs_have_fast_kernels_where_few_bits_are_lost(
    factor: float, is_fast: bool
) -> None:
    """Their steps decide those of sums: results get steps that are at most eight times as coarse."""
    torch.manual_seed(4)
    net = nn.Sequential(nn.Conv2d(3, 8, 1), nn.ReLU(), nn.Conv2d(8, 6, 1)).eval()
    with torch.no_grad():
        net[0].weight[0] /= factor
        net[0].bias[0] /= factor
        net[2].weight[:, 0] *= factor
    samples = [torch.randn(1, 3, 6, 7) for _ in range(8)]
    program = pillion.compile(
        net, samples[0], calibrate=samples, target="cortex-m55", precision="int16", progress=False
    )
    names = {step.choice.kernel.name for step in program.lowered.steps}
    assert ("conv2d_16" not in names) is is_fast
    for x in samples:
        found = np.asarray(program.run(x.numpy(), on="mps3-an547"))
        np.testing.assert_array_equal(found, program.run(x.numpy(), on="reference"))


def test_more_elements_than_16_bits_count() -> None:
    """An image of 67,950 elements, and 90,600 results."""
    torch.manual_seed(1)
    net = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 4, 1)).eval()
    samples = [torch.randn(1, 3, 150, 151) for _ in range(2)]
    program = pillion.compile(
        net, samples[0], calibrate=samples, target="cortex-m33", precision="int16", progress=False
    )
    exact = program.run(samples[1].numpy(), on="reference")
    for executor in ("host", "mps2-an505"):
        np.testing.assert_array_equal(program.run(samples[1].numpy(), on=executor), exact)


class Decoder(nn.Module):
    """What makes pictures larger, and extrema of two tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.grow = nn.ConvTranspose2d(3, 5, 3, stride=2, padding=1)
        self.last = nn.Conv2d(5, 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Runs the net."""
        x = self.grow(x)
        return self.last(torch.maximum(torch.minimum(x, x.flip(3)), x * 0.5))


def test_transposed_convolutions_and_extrema_have_16_bits() -> None:
    torch.manual_seed(4)
    net, samples = Decoder().eval(), [torch.randn(2, 3, 5, 7) for _ in range(8)]
    program = pillion.compile(
        net, samples[0], calibrate=samples, target="cortex-m33", precision="int16", progress=False
    )
    assert DType.INT8 not in {op.results[0].dtype for op in program.graph.ops}
    for x in samples[:2]:
        exact = program.run(x.numpy(), on="reference")
        for executor in ("host", "mps2-an505"):
            np.testing.assert_array_equal(program.run(x.numpy(), on=executor), exact)
        wanted = net(x).detach().numpy()
        assert np.abs(exact - wanted).max() < 1e-2 * np.abs(wanted).max()


def chosen(name: str, **options: Any) -> PrecisionChoice:
    """The choice of a program with some options."""
    choice = compiled(name, **options).precision
    assert choice is not None
    return choice


@pytest.mark.filterwarnings("error::FutureWarning")
@pytest.mark.parametrize(("name", "wish"), [("residual", 58), ("mixed", 62)])
def test_a_choice_has_the_quality_for_less_than_all(name: str, wish: int) -> None:
    """The search compares the programs that it lowers: the last one is the result."""
    program, choice = compiled(name, min_quality=f"{wish}dB"), chosen(name, min_quality=f"{wish}dB")
    assert choice.before < wish <= choice.after
    assert 0 < len(choice.tensors) < choice.candidates
    assert choice.cost.time <= choice.cost_everywhere.time
    assert choice.cost == program.cost
    assert decibels(name, program) >= wish
    assert "8 samples in 4 parts" in choice.judges
    assert max(tensor.decibels for tensor in choice.tensors) > 1


def test_time_buys_the_best_quality_within_it() -> None:
    one, none = chosen("residual", max_time="+30%"), chosen("residual", max_time="+0%")
    assert one.cost.time <= 1.3 * one.cost_before.time
    assert one.after > one.before + 2
    assert none.cost.time <= none.cost_before.time
    assert [verdict.ok for verdict in (*one.verdicts, *none.verdicts)] == [True, True]


def test_bounds_that_contradict_are_named_with_ways_out_that_work() -> None:
    """A higher quality than some time buys is refused; either bound may give way."""
    options = {"target": "cortex-m55", "min_quality": "80dB", "max_time": "+0%"}
    with pytest.raises(pillion.PillionError) as error:
        compiled("residual", **options)
    assert "--max-time +0%" in error.value.what
    quality, _, time = error.value.help.removeprefix("--min-quality ").partition(", or --max-time ")
    for way in ({"min_quality": quality}, {"max_time": time}):
        choice = chosen("residual", **options | way)
        assert choice.required_quality is not None
        assert choice.after >= choice.required_quality
        assert all(verdict.ok for verdict in choice.verdicts)


def test_memory_is_a_bound_of_the_choice() -> None:
    """With less RAM than the cheapest choice takes, another one, or stripes, fit into it."""
    free = chosen("residual", min_quality="68dB")
    limit = (free.cost.ram_bytes + free.cost_before.ram_bytes) // 2
    bound = chosen("residual", min_quality="68dB", max_ram=limit)
    assert bound.cost.ram_bytes <= limit < free.cost.ram_bytes
    assert bound.after >= 68


@pytest.mark.parametrize(
    ("count", "judges"),
    [(1, "the 1 that calibrated"), (40, "32 samples in 4 parts"), (64, "16 samples that did not")],
)
def test_samples_that_judge_are_named(count: int, judges: str) -> None:
    net, samples = built("attention")
    torch.manual_seed(5)
    data = [torch.randn_like(samples[0]) for _ in range(count)]
    program = pillion.compile(net, data[0], calibrate=data, target="cortex-m33", max_time="+10%")
    assert program.precision is not None
    assert judges in program.precision.text


def test_values_beyond_those_that_calibrated_are_not_clipped() -> None:
    """Tensors of 16 bits have room for twice the range."""
    net, samples = built("residual")
    program = compiled("residual", precision="int16")
    x = 1.6 * samples[0]
    exact = net(x).detach().numpy()
    assert np.abs(np.asarray(program.run(x.numpy())) - exact).max() < 2e-2 * np.abs(exact).max()


def test_a_clamp_on_both_sides_is_the_range_of_its_result() -> None:
    """It needs no room for other samples, and no step of its own behind the rounding; ReLU has no upper bound."""
    torch.manual_seed(0)
    layers = [
        nn.Conv2d(4, 8, 1),
        nn.ReLU6(),
        nn.Conv2d(8, 8, 1),
        nn.ReLU(),
        nn.Conv2d(8, 4, 1),
        nn.Hardtanh(),
    ]
    net = nn.Sequential(*layers).eval()
    samples = [3 * torch.randn(1, 4, 5, 7) for _ in range(8)]
    options: Any = {"target": "cortex-m33", "calibrate": samples, "precision": "int16", "progress": False}
    program = pillion.compile(net, samples[0], **options)
    clamped, positive, signed = (op for op in program.graph.ops if isinstance(op, Conv2d))
    assert (clamped.low, clamped.high) == (0, 32767)
    assert clamped.y.scale == pytest.approx(6 / 32767)
    assert positive.y.scale * 32767 > 1.5 * float(net[:4](samples[0]).detach().max())
    assert (signed.low, signed.high) == (-32767, 32767)
    far = 3 * samples[0]
    error = np.abs(np.asarray(program.run(far.numpy())) - net(far).detach().numpy()).max()
    assert error < 0.02
