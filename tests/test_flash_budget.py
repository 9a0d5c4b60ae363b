# SPDX-License-Identifier: Apache-2.0
"""`--max-flash`: layers get weights of 4 bits, those of least damage first, until the constants of a program fit."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import pillion
from image_programs import build_driver, run_image, write_image
from kernels.test_four_bits import conv2d
from pillion.boards.toolchain import Tool
from pillion.compiler import compile_graph
from pillion.emitters.c.lower import lower
from pillion.errors import PillionError
from pillion.evaluation.program_costs import costs_of
from pillion.flash_budget import FlashSearch
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import DType, PerChannel, constant_value
from pillion.ops import Clamp, Conv2d
from pillion.ops.example_values import conv_bias, conv_weights, make_op, value
from pillion.passes.four_bit_weights import LayerInputs, may_have_4_bits, with_4_bits
from pillion.program import Program
from pillion.report.collect import collect
from pillion.report.page import render
from pillion.report.report_options import ReportOptions
from pillion.run.float_interface import graph_inputs
from pillion.targets import find_target


class Net(nn.Module):
    """Three kinds of layers: 3x3, 1x1 and fully connected."""

    def __init__(self, channels: int = 64) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 32, 3, stride=2, padding=1)
        self.third, self.last = nn.Conv2d(32, channels, 1), nn.Linear(channels, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Returns ten scores."""
        x = torch.relu(self.second(torch.relu(self.first(x))))
        return self.last(torch.relu(self.third(x)).mean((2, 3)))


SAMPLES = [torch.randn(1, 3, 11, 13, generator=torch.Generator().manual_seed(n)) for n in range(12)]


@cache
def module() -> Net:
    torch.manual_seed(0)
    return Net().eval()


@cache
def compiled(max_flash: int | None = None, target: str = "cortex-m55") -> Program:
    return pillion.compile(module(), (SAMPLES[0],), target=target, calibrate=SAMPLES, max_flash=max_flash)


class Images(nn.Module):
    """Three plain 3x3 layers of different sizes, for which fast kernels store larger weights."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 16, 3, padding=1)
        self.third, self.last = nn.Conv2d(16, 24, 3, padding=1), nn.Linear(24, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Returns ten scores."""
        x = torch.relu(self.second(torch.relu(self.first(x))))
        return self.last(torch.relu(self.third(torch.max_pool2d(x, 2))).mean((2, 3)))


@cache
def images() -> Images:
    torch.manual_seed(0)
    return Images().eval()


def constants_for_speed(program: Program) -> int:
    return sum(step.choice.kernel.extra_flash(step.choice.op) for step in program.lowered.steps)


def layers_of_4_bits(program: Program) -> set[str]:
    return {op.name for op in program.graph.ops if any(v.dtype is DType.INT4 for v in op.operands)}


@pytest.mark.parametrize("target", ["cortex-m33", "cortex-m55"])
def test_a_program_gets_as_small_as_it_has_to(target: str) -> None:
    whole = compiled(None, target)
    size, sizes = whole.flash.bytes, []
    for limit in (size, size - 1, size - 3000):
        program = compiled(limit, target)
        choice = program.four_bits
        assert choice is not None
        assert program.flash.bytes == choice.after_bytes <= limit
        assert layers_of_4_bits(program) == set(choice.layers)
        assert choice.before_bytes == size
        assert choice.before - choice.after < 5
        sizes.append(len(choice.layers))
    assert sizes == sorted(sizes)
    assert (sizes[0], sizes[1]) == (0, 1)
    assert whole.four_bits is None


def test_layers_that_the_limit_does_not_need_keep_8_bits() -> None:
    """The code gets smaller, too: after a fourth layer one of them has 8 bits again."""
    size = compiled().flash.bytes
    assert "linear_i8" in layers_of_4_bits(compiled(size - 2400))
    smaller = layers_of_4_bits(compiled(size - 2500))
    assert len(smaller) == 3
    assert "linear_i8" not in smaller


@pytest.mark.parametrize(
    ("target", "precision"), [("cortex-m33", "int8"), ("cortex-m33", "int16"), ("cortex-m55", "int16")]
)
def test_constants_for_speed_are_left_out_before_layers_get_4_bits(target: str, precision: str) -> None:
    def of_size(limit: int | None) -> Program:
        options = {"calibrate": SAMPLES, "precision": precision, "progress": False}
        return pillion.compile(images(), (SAMPLES[0],), target=target, max_flash=limit, **options)

    fastest = of_size(None)
    size, for_speed = fastest.flash.bytes, constants_for_speed(fastest)
    limits = (size, size - 1, size - for_speed + 800)
    programs = [of_size(limit) for limit in limits]
    for program, limit in zip(programs, limits, strict=True):
        choice = program.four_bits
        assert choice is not None
        assert choice.layers == ()
        assert choice.before_bytes == size
        assert program.flash.bytes == choice.after_bytes <= limit
        assert choice.text.startswith("slower kernels") == (limit < size)
    kept = [constants_for_speed(program) for program in programs]
    times = [program.cost.time for program in programs]
    assert for_speed == kept[0] > kept[1] >= kept[2]
    assert fastest.cost.time == times[0] < times[1] <= times[2]


def test_layers_whose_weights_do_not_fit_the_ram_keep_8_bits() -> None:
    """Weights of 4 bits are unpacked to RAM, which is short."""
    given: dict[str, Any] = {"target": "cortex-m55", "calibrate": SAMPLES, "progress": False}
    compile = partial(pillion.compile, images(), (SAMPLES[0],), **given)
    with pytest.raises(PillionError, match="does not fit into 1,000 bytes of RAM") as refused:
        compile(max_ram=1000)
    ram = int(str(refused.value.help).split()[1].rstrip(","))
    in_8_bits = compile(max_ram=ram)
    program = compile(max_ram=ram, max_flash=in_8_bits.flash.bytes - 1)
    choice = program.four_bits
    assert choice is not None
    assert program.memory.arena_bytes <= ram
    assert program.flash.bytes < in_8_bits.flash.bytes
    assert 0 < len(choice.layers) <= choice.candidates == 3
    with pytest.raises(PillionError, match="does not fit 8000 bytes of flash") as both:
        compile(max_ram=ram, max_flash=8000)
    assert "a larger --max-ram" in str(both.value.help)
    least = int(str(both.value.help).split()[1].rstrip(","))
    assert compile(max_ram=ram, max_flash=least).flash.bytes <= least


def mixed_within(max_time: str, max_flash: int | None = None) -> Program:
    return pillion.compile(
        images(),
        (SAMPLES[0],),
        target="cortex-m55",
        calibrate=SAMPLES,
        max_time=max_time,
        max_flash=max_flash,
    )


@pytest.mark.parametrize("added", [60, 3])
def test_time_holds_although_kernels_with_smaller_constants_take_more(added: int) -> None:
    limit = mixed_within(f"+{added}%").flash.bytes - 1
    program = mixed_within(f"+{added}%", limit)
    choice = program.precision
    assert choice is not None
    assert program.flash.bytes <= limit
    assert choice.cost.time == program.cost.time <= (1 + added / 100) * choice.cost_before.time
    assert [verdict.got for verdict in choice.verdicts] == [f"{program.cost.time:,.0f}"]


@pytest.mark.slow
def test_time_and_flash_that_contradict_are_named_with_ways_out_that_work() -> None:
    limit = mixed_within("+0%").flash.bytes - 3260  # needs 4 bits, which take time
    with pytest.raises(PillionError, match=f"--max-flash {limit} and --max-time .0% contradict") as error:
        mixed_within("+0%", limit)
    flash, _, time = str(error.value.help).removeprefix("--max-flash ").partition(", or --max-time ")
    assert mixed_within("+0%", int(flash)).flash.bytes <= int(flash)
    assert mixed_within(time, limit).flash.bytes <= limit


@pytest.mark.qemu
@pytest.mark.parametrize("target", ["cortex-m33", "cortex-m55"])
def test_layers_of_16_bits_get_weights_of_4_bits(target: str) -> None:
    options: dict[str, Any] = {"calibrate": SAMPLES, "precision": "int16"}
    torch.manual_seed(0)
    net = Net(channels=640).eval()  # saves more than kernels for 4 bits take
    whole = pillion.compile(net, (SAMPLES[0],), target=target, **options)
    limit = replace(whole, byte_price=inf).flash.bytes - 1000
    program = pillion.compile(net, (SAMPLES[0],), target=target, max_flash=limit, **options)
    chosen = [op for op in program.graph.ops if op.name in layers_of_4_bits(program)]
    assert chosen
    assert {op.operands[0].dtype for op in chosen} == {DType.INT16}
    assert program.flash.bytes <= limit
    verified = pillion.verify(program, samples=2)
    assert {run.executor for run in verified.runs if run.outputs} >= {"reference", "host"}
    assert all(pair.bytes_different == 0 for pair in verified.pairs)


def test_the_least_that_a_refusal_names_is_reached() -> None:
    with pytest.raises(PillionError, match="does not fit 1000 bytes") as refused:
        compiled(1000)
    reached = int(str(refused.value.help).split()[1].rstrip(","))
    program = compiled(reached)
    assert program.flash.bytes <= reached
    assert program.explain().startswith("weights of 4 bits in 4 of 4 layers")


def test_models_without_samples_states_and_streams_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "net.tflite"
    compiled(15_500).save(file)
    with pytest.raises(PillionError, match="chooses no layers") as refused:
        pillion.compile(file, target="cortex-m55", max_flash="14K")
    assert "--calibrate" in str(refused.value.help)
    with pytest.raises(PillionError, match="no size of memory"):
        pillion.Memory(max_flash="much")


def test_files_keep_4_bits_or_refuse_them(tmp_path: Path) -> None:
    program = compiled(15_500)
    file = tmp_path / "net.tflite"
    program.save(file)
    again = pillion.compile(file, target="cortex-m55")
    assert len(layers_of_4_bits(again)) == len(layers_of_4_bits(program)) > 0
    with pytest.raises(PillionError, match="no exact ExecuTorch form") as refused:
        program.save(tmp_path / "net.pte")
    assert "--kernels pillion" in str(refused.value.rule)
    program.save(tmp_path / "net.pte", kernels="pillion")
    assert (tmp_path / "net.pte").stat().st_size > program.constant_bytes


@pytest.mark.slow
def test_c_and_images_give_the_bytes_of_the_reference(tmp_path: Path) -> None:
    program = compiled(15_500)
    assert program.floats is not None
    inputs = [graph_inputs(program.graph, program.floats([x.numpy()])) for x in SAMPLES[:3]]
    wanted = [program.graph.reference(*x) for x in inputs]
    for x, y in zip(inputs, wanted, strict=True):
        np.testing.assert_array_equal(program.run(*x, on="host")[0], y[0])
    portable = lower(program.graph)
    made = run_image(build_driver(tmp_path, [portable]), write_image(tmp_path, portable), inputs)
    assert made == b"".join(np.ascontiguousarray(y[0]).tobytes() for y in wanted)


def test_npus_leave_4_bits_to_the_core() -> None:
    op = conv2d((1, 16, 16, 32), 32, (3, 3), 1, padding=(1, 1, 1, 1))
    graph = Graph("g", (op.x,), (op,), (op.y,))
    for target in ("imxrt700", "cortex-m55+ethos-u55-128"):
        explained = compile_graph(graph, find_target(target)).explain()
        assert "cpu, conv2d.dtype: wanted int8" in explained
        assert "got int4" in explained


@pytest.mark.slow
def test_memory_modes_share_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at = list[Any]()
    damage = FlashSearch._damage
    monkeypatch.setattr(FlashSearch, "_damage", lambda self, op: looked_at.append(op) or damage(self, op))
    given = {"target": "cortex-m55+ethos-u55-128", "calibrate": SAMPLES, "max_flash": 15_500, "max_ram": "1M"}
    given |= {"keep_on_cpu": ["*"]}
    program = pillion.compile(module(), (SAMPLES[0],), memory_mode="auto", **given)
    assert len(looked_at) == len(set(looked_at)) == 4
    assert program.four_bits is not None
    assert program.flash.bytes <= 15_500
    by_name = [
        pillion.compile(module(), (SAMPLES[0],), memory_mode=name, **given)
        for name in ("Shared_Sram", "Sram_Only")
    ]
    assert program.cycles == min(one.cycles for one in by_name)
    assert program.four_bits.layers in [one.four_bits.layers for one in by_name if one.four_bits]


def layer(seed: int) -> tuple[Conv2d, Any]:
    """A layer whose inputs go together, and a function that makes them."""
    mix = np.random.default_rng(seed).standard_normal((24, 24)) @ np.diag(np.linspace(0.05, 1, 24))
    weights = conv_weights((16, 1, 1, 24), 0, seed)
    x = value("x", (1, 9, 11, 24), 0.05, 3)
    op = make_op(Conv2d, value("y", (), 0.3), x=x, weights=weights, bias=conv_bias(x, weights, 16, seed))
    assert isinstance(op, Conv2d)

    def inputs(number: int) -> Any:
        real = np.random.default_rng([seed, number]).standard_normal(x.shape) @ mix
        return np.clip(np.round(real / 0.05) + 3, -128, 127).astype(np.int8)

    return op, inputs


@pytest.mark.parametrize("seed", range(3))
def test_compensated_rounding_is_nearer_than_the_nearest_weights(seed: int) -> None:
    op, inputs = layer(seed)
    assert may_have_4_bits(op)
    sums = LayerInputs(op, 4)
    for number in range(4):
        sums.add(inputs(number))
    rounded = with_4_bits(op, sums)
    steps = np.abs(op.weights.constant).reshape(16, -1).max(axis=1) / 7
    nearest = constant_value(
        "w",
        np.round(op.weights.constant / steps[:, None, None, None]).astype(np.int8),
        PerChannel(tuple((steps * op.weights.channel_scales).tolist()), 0),
        DType.INT4,
    )
    plain = make_op(Conv2d, op.y, x=op.x, weights=nearest, bias=conv_bias(op.x, nearest, 16, seed))
    new = inputs(9)

    def real_sums(of: Any, without_bias: bool = False) -> Any:
        made = of.accumulators(new, of.weights.constant, of.bias.constant * (not without_bias))
        return made * of.weights.channel_scales

    compensated = np.square(real_sums(rounded) - real_sums(op)).mean()
    assert compensated < 0.6 * np.square(real_sums(plain, True) - real_sums(op, True)).mean()
    assert np.abs(rounded.weights.constant).max() == 7


@pytest.mark.parametrize("seed", range(3))
def test_weights_compensate_errors_of_earlier_layers(seed: int) -> None:
    """Inputs are mixed as by weights of 4 bits; without what they were meant to be, weights cannot know."""
    op, inputs = layer(seed)
    leak = np.eye(24) + np.random.default_rng(seed).normal(0, 0.08, (24, 24))

    def changed(x: Any) -> Any:
        return np.clip(np.round((x.astype(np.float64) - 3) @ leak) + 3, -128, 127).astype(np.int8)

    knowing, unknowing = LayerInputs(op, 4), LayerInputs(op, 4)
    for x in map(inputs, range(4)):
        knowing.add(changed(x), x)
        unknowing.add(changed(x))
    new = inputs(9)
    wanted = op.accumulators(new, op.weights.constant, op.bias.constant) * op.weights.channel_scales

    def noise(sums: LayerInputs) -> float:
        rounded = with_4_bits(op, sums)
        made = rounded.accumulators(changed(new), rounded.weights.constant, rounded.bias.constant)
        return float(np.square(made * rounded.weights.channel_scales - wanted).mean())

    assert noise(knowing) < 0.7 * noise(unknowing)


@pytest.mark.parametrize("seed", range(3))
def test_few_windows_do_not_decide_weights(seed: int) -> None:
    """What inputs lack is noise, which weights can only learn by heart."""
    op, inputs = layer(seed)
    small = replace(op, x=op.x.like("x", shape=(1, 1, 3, 24)), y=op.y.like("y", shape=(1, 1, 3, 16)))
    assert isinstance(small, Conv2d)
    made = np.random.default_rng(seed)

    def noisy(x: Any) -> Any:
        return np.clip(x + np.round(made.normal(0, 6, x.shape)), -128, 127).astype(np.int8)

    windows = [inputs(number)[:, :1, :3] for number in range(8)]
    knowing, unknowing = LayerInputs(small, 8), LayerInputs(small, 8)
    for x in windows:
        changed = noisy(x)
        knowing.add(changed, x)
        unknowing.add(changed)
    noises, nothing = [], np.zeros(16, np.int32)
    for sums in (knowing, unknowing):
        rounded, total = with_4_bits(small, sums), 0.0
        for number in range(9, 30):
            x = inputs(number)[:, :1, :3]
            wanted = small.accumulators(x, small.weights.constant, nothing) * small.weights.channel_scales
            got = rounded.accumulators(noisy(x), rounded.weights.constant, nothing)
            total += float(np.square(got * rounded.weights.channel_scales - wanted).sum())
        noises.append(total)
    assert noises[0] < 1.2 * noises[1]


@pytest.mark.parametrize("fits", [False, True])
def test_the_better_of_two_roundings_is_taken_if_it_fits_the_limit(
    monkeypatch: pytest.MonkeyPatch, fits: bool
) -> None:
    made = dict[int, bool]()
    converted = FlashSearch.converted

    def noting(self: FlashSearch, chosen: Any, fits: bool = True) -> Graph:
        graph = converted(self, chosen, fits)
        made[id(graph)] = fits
        return graph

    monkeypatch.setattr(FlashSearch, "converted", noting)
    monkeypatch.setattr(FlashSearch, "quality", lambda self, of: 30.0 + (made.get(id(of)) is fits))
    program = compiled.__wrapped__(15_500)
    assert program.four_bits is not None
    assert set(made.values()) == {False, True}
    assert program.four_bits.after == 31.0
    assert program.four_bits.after_bytes == program.flash.bytes <= 15_500


@pytest.mark.parametrize("low", [-128, 0])
def test_the_bias_compensates_errors_of_earlier_layers(low: int) -> None:
    """The mean of the results is kept, whatever is clamped."""
    op, inputs = layer(5)
    op = replace(op, low=low)
    known, shifted = LayerInputs(op, 1), np.clip(inputs(0).astype(np.int16) + 2, -128, 127).astype(np.int8)
    known.add(shifted, inputs(0))
    rounded = with_4_bits(op, known)
    means = [
        of.reference(Arithmetic.CMSIS_NN, x, of.weights.constant, of.bias.constant).mean((0, 1, 2))
        for of, x in ((op, inputs(0)), (rounded, shifted))
    ]
    np.testing.assert_allclose(means[0], means[1], atol=0.1)


def test_flash_and_quality_hold_together_or_contradict() -> None:
    given = {"target": "cortex-m55", "calibrate": SAMPLES, "max_flash": 14_500}
    both = pillion.compile(module(), (SAMPLES[0],), min_quality="20dB", **given)
    assert both.flash.bytes <= 14_500
    assert both.four_bits is not None
    assert 20 <= both.four_bits.after < 50
    with pytest.raises(PillionError, match="does not fit 13600") as refused:
        pillion.compile(module(), (SAMPLES[0],), min_quality="50dB", **given | {"max_flash": 13_600})
    assert "a lower --min-quality" in str(refused.value.help)
    with pytest.raises(PillionError, match="contradict each other") as refused:
        pillion.compile(module(), (SAMPLES[0],), min_quality="50dB", **given | {"max_flash": 15_900})
    assert refused.value.help is not None
    limit = int(refused.value.help.split()[1].strip(","))
    kept = pillion.compile(module(), (SAMPLES[0],), min_quality="50dB", **given | {"max_flash": limit})
    assert kept.flash.bytes <= limit


def test_images_that_come_out_are_judged_and_dead_channels_keep_their_bias() -> None:
    """Outputs are moved to PyTorch's order, for which the float model has no tensor of their name."""
    samples = [torch.randn(1, 8, 5, 7, generator=torch.Generator().manual_seed(n)) for n in range(8)]
    for factor in (1.0, 3e-5, 1e-5, 5e-6, 1e-6):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Conv2d(8, 256, 1), nn.ReLU(), nn.Conv2d(256, 8, 1)).eval()
        with torch.no_grad():
            net[0].weight[3] *= factor
            net[0].bias[3] = 50.0
        given = {"target": "cortex-m55", "calibrate": samples}
        before = pillion.compile(net, (samples[0],), **given)
        after = pillion.compile(net, (samples[0],), max_flash=before.flash.bytes - 2700, **given)
        choice = after.four_bits
        assert choice is not None
        assert len(choice.layers) == 2
        assert 10 < choice.after < choice.before + 1 < 60, factor
        real = net(samples[0]).detach().numpy()
        error = np.square(after.run(samples[0].numpy()) - real).sum()
        assert 10 * np.log10(np.square(real).sum() / error) > choice.after - 6


def test_pte_with_4_bits_needs_pillion_kernels(tmp_path: Path) -> None:
    program = compiled(compiled().flash.bytes - 100)
    with pytest.raises(PillionError, match="cortex_m library have 8 bits") as refused:
        program.save(tmp_path / "net.pte")
    assert refused.value.help == "--kernels pillion, or leave --max-flash out"
    assert program.save(tmp_path / "net.pte", kernels="pillion").stat().st_size < 20_000


def test_flash_is_one_figure_everywhere() -> None:
    """The limit of `compile`, the gate of `eval` and the report speak of the same bytes: code and constants."""
    program = compiled(15_500)
    assert program.four_bits is not None
    bytes_ = program.four_bits.after_bytes
    assert costs_of(program, flash=True).flash_bytes == program.flash.bytes == bytes_
    facts = collect(program, ReportOptions(max_flash=15_500))
    assert facts.flash_bytes == bytes_
    assert facts.is_flash_exact
    assert f"{bytes_:,} now" in render(facts)
    assert facts.precision == (program.four_bits.text,)


def test_flash_is_known_of_programs_whose_tensors_exceed_the_emulated_board(tmp_path: Path) -> None:
    def clamped(side: int) -> Program:
        x = value("x", (side, side), 0.1)
        op = make_op(Clamp, value("y", (), 0.1), x=x, low=0)
        return compile_graph(Graph("clamped", (x,), (op,), (op.y,)), find_target("cortex-m33"))

    small, large = clamped(20).flash.code, clamped(2100).flash.code
    assert small is not None
    assert large is not None
    assert 0 <= large - small < 32
    for side in (20, 2100):  # what is missing is no small program
        folder = clamped(side).save(tmp_path / str(side))
        (kernel,) = (folder / "model" / "kernels").glob("*.c")
        kernel.write_text("")
        with pytest.raises(PillionError, match="failed") as refused:
            costs_of(folder, flash=True)
        assert "undefined reference" in refused.value.here


def test_without_the_compiler_constants_count_and_this_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "pillion.run.flash_size.ARM_COMPILER", Tool("none", ("no-such-compiler",), "none", "none")
    )
    size = compiled.__wrapped__().flash
    assert size.code is None
    assert size.bytes == compiled().constant_bytes + compiled().lowered.params_bytes
    smaller = compiled.__wrapped__(size.bytes - 1)
    assert smaller.four_bits is not None
    assert "without code, whose size is not known here" in smaller.explain()


@pytest.mark.parametrize(
    "io", [{}, {"io_dtype": "int8"}, {"io_dtype": "uint8", "io_layout": "nhwc"}], ids=str
)
def test_outputs_behind_moved_functions_are_judged(io: dict[str, Any]) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv1d(3, 32, 3), nn.ReLU(), nn.Conv1d(32, 1, 3), nn.Tanh()).eval()
    samples = [torch.randn(1, 3, 20) for _ in range(8)]
    program = pillion.compile(net, samples[0], target="cortex-m33", calibrate=samples, max_flash="100K", **io)
    assert program.four_bits is not None
    assert program.four_bits.before > 25
