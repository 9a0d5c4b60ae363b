# SPDX-License-Identifier: Apache-2.0
"""How near int8 programs are to their float models, beside three others on the same data: `python benchmarks/quality.py [NAMES…] [--trained FOLDER] [--update]`.

The others are torchao's flow with the quantizers of ExecuTorch for XNNPACK and for Cortex-M, and a plain simulation in which each layer has int8 weights with a
scale for each output, and reads and makes int8 tensors with one scale. The gate: ours is at most 1 dB below the best of the three, and trained networks that
choose a class choose that of the float model as often as the best, but for two of 60 samples. Models that remember run for 240 steps, and are judged over all
of them and over the last 24. `--update` records the figures in benchmarks/quality.json, from which docs/quality.md is made. `--trained` names the folder with
the weights of MLPerf Tiny."""

from __future__ import annotations

import argparse
import copy
import importlib.util
import json
import math
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import GraphModule, Node
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

import pillion
from pillion import zoo
from pillion.importers.torch.export import export, quiet_torch
from pillion.importers.torch.fx_nodes import aten, constant_of, single_user
from pillion.importers.torch.loop_nodes import CARRIED, ELEMENT, LAST, LoopInterpreter
from pillion.importers.torch.rewrite.pipeline import rewrite_for_quantization

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
from quality_page import (
    BOUNDED,
    PRECISION_RECORD,
    PRECISIONS,
    RECORD,
    ROOT,
    WAYS,
    passes,
    reaches_goal,
)
from quality_states import CALIBRATING, END, JUDGING, STATEFUL, Buffered, Cell, run_steps, signal
from quality_trained import FILES, TRAINED, trained_network

EXAMPLES: dict[str, str] = {
    "images": "examples/images/net.py:Net",
    "keyword-spotting": "examples/keyword-spotting/net.py:Net",
    "transformer": "examples/transformer/net.py:Net",
    "vibration": "examples/vibration/net.py:Net",
    "doorbell": "examples/doorbell/net.py:Net",
    "digits, small": "examples/digits/nets.py:Small",
    "digits, stack": "examples/digits/nets.py:Stack",
    "vision transformer": "benchmarks/quality_nets.py:VisionTransformer",
    "partial blocks": "benchmarks/quality_nets.py:PartialBlocks",
    "norms behind sums": "benchmarks/quality_nets.py:NormsBehind",
    "peaked attention": "benchmarks/quality_nets.py:PeakedAttention",
    "soft-argmax": "benchmarks/quality_nets.py:SoftArgmax",
    "log power": "benchmarks/quality_spectra.py:LogPower",
    "loud frames": "benchmarks/quality_spectra.py:LoudFrames",
}
RECURRENT = {"lstm, 50 steps": "LSTM", "gru, 50 steps": "GRU", "minGRU, 50 steps": "MinGRU"}
"""Cells of linear layers in a loop: what the others make of one in a single call computes in float."""
SIZES = {"mobilenet_v2": 96}
"""Of inputs, where the model's own takes long."""
CALIBRATED, JUDGED = 8, 6
TRAINED_CALIBRATED, TRAINED_JUDGED = 16, 60
CALIBRATED_FOR_A_CHOICE, JUDGING_A_CHOICE = 32, 32
"""Of so many, each quarter judges the tensors that get 16 bits in programs that the others calibrate."""
LEAST = -99.9
"""Decibels of what is not even finite."""
EXACT = 120.0
"""More decibels than these are those of floats in another order: nothing is rounded."""
MOST_CLASSES = 20
"""More outputs than these are no scores of classes."""
LAYERS = {aten.linear.default: 0, aten.conv1d.default: 0, aten.conv2d.default: 0}


def names() -> list[str]:
    """Gives trained networks, those of the zoo, of the examples and of benchmarks/quality_nets.py and quality_spectra.py, recurrences, and networks with states."""
    return [*TRAINED, *(model.name for model in zoo.MODELS.values()), *EXAMPLES, *RECURRENT, *STATEFUL]


class Recurrence(nn.Module):
    """A cell whose gates remember long, over 50 steps."""

    def __init__(self, cell: str) -> None:
        super().__init__()
        gates = {"LSTM": 4, "GRU": 2, "MinGRU": 2}[cell]
        self.cell, self.x, self.h = cell, nn.Linear(16, gates * 32), nn.Linear(32, gates * 32)
        self.new = nn.Linear(48, 32)

    def forward(self, x: Tensor) -> Tensor:
        h = c = x.new_zeros(1, 32)
        outs = []
        for t in range(50):
            h, c = self.step(x[:, t], h, c)
            outs.append(h)
        return torch.stack(outs, 1)

    def step(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """Gives the next states; those of one state do without the second."""
        if self.cell == "MinGRU":
            change, new = self.x(x).chunk(2, 1)
            return h + torch.sigmoid(change - 2) * (new - h), c
        gates = self.x(x) + self.h(h)
        if self.cell == "GRU":
            reset, change = gates.chunk(2, 1)
            new = torch.tanh(self.new(torch.cat([x, torch.sigmoid(reset) * h], 1)))
            return h + torch.sigmoid(change - 2) * (new - h), c
        read, lost, new, shown = gates.chunk(4, 1)
        c = c + (torch.sigmoid(read) * torch.tanh(new) - torch.sigmoid(lost - 2) * c)
        return torch.sigmoid(shown) * torch.tanh(c), c


def network(name: str) -> tuple[nn.Module, tuple[int, ...]]:
    """Gives a network with weights drawn at random, statistics of its norms set up on data, and the shape of its input."""
    if name in EXAMPLES:
        file, _, cls = EXAMPLES[name].partition(":")
        spec = importlib.util.spec_from_file_location(f"quality_{Path(file).parent.name}", ROOT / file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        torch.manual_seed(0)
        net: nn.Module = getattr(module, cls)()
        shape = tuple(module.example_inputs()[0].shape)
        with torch.no_grad():
            net.train()(torch.cat(list(samples(shape, 32, seed=7))))
        return net.eval(), shape
    if name in RECURRENT:
        torch.manual_seed(0)
        return Recurrence(RECURRENT[name]).eval(), (1, 50, 16)
    net, (x,) = zoo.build(name, SIZES.get(name))
    return net.eval(), tuple(x.shape)


def samples(shape: Sequence[int], count: int, seed: int) -> Iterator[Tensor]:
    """Gives inputs that are alike: noise that neighbours share, as in pictures and sounds."""
    made = torch.Generator().manual_seed(seed)
    for _ in range(count):
        x = torch.randn(*shape, generator=made)
        yield (x + x.roll(1, -1) + (x.roll(1, -2) if len(shape) > 2 else 0)) / 1.7


def measure(name: str, folder: Path | None = None) -> dict[str, Any]:
    """Quantizes a network in four ways, and compares each with float. Returns decibels by way; for trained networks that choose a class,
    also the part of samples that agree with float (`same_class`); for models that remember, the decibels of the last steps (`at_end`)."""
    torch.set_num_threads(1)  # sums of floats are those of any machine
    if name in STATEFUL:
        return measure_states(Cell(STATEFUL[name]).eval(), STATEFUL[name].shape)
    trained = name in TRAINED
    net, data, judged = _with_data(name, folder)
    with torch.no_grad():
        real = [outputs(net(x)) for x in judged]
    program = pillion.compile(net, data[0], target="cortex-m55", calibrate=data, progress=False)
    ways: dict[str, Callable[[Tensor], Any]] = {
        "ours": lambda x: tuple(
            map(torch.from_numpy, program.measure(x, on="host", profile=False, native=True).outputs)
        ),
        **others(net, [(x,) for x in data]),
    }
    with torch.no_grad():
        answers = {way: [outputs(one(x)) for x in judged] for way, one in ways.items()}
    figures: dict[str, Any] = {way: worst(real, found) for way, found in answers.items()}
    if trained and real[0][0].dim() == 2 and real[0][0].shape[1] <= MOST_CLASSES:
        figures["same_class"] = {way: same_classes(real, found) for way, found in answers.items()}
    return figures


def measure_precision(name: str, folder: Path | None = None) -> dict[str, Any]:
    """Compiles a network in 8 bits, with the tensors in 16 bits that 35 dB need, with all in 16 bits, and if it misses the goal, with
    the best that 30 % more time buy. Returns for each the decibels and the instructions counted on an emulated
    Cortex-M55, and how many tensors have 16 bits; in 8 and in 16 bits, the instructions on a Cortex-M33, too."""
    torch.set_num_threads(1)
    net, data, judged = _with_data(name, folder, CALIBRATED_FOR_A_CHOICE, JUDGING_A_CHOICE)
    with torch.no_grad():
        real = [outputs(net(x)) for x in judged]

    def measured(options: dict[str, str]) -> dict[str, Any]:
        program, refused = _compiled(net, data, **options)
        found = [
            tuple(map(torch.from_numpy, program.measure(x, on="host", profile=False, native=True).outputs))
            for x in judged
        ]
        made = [v.dtype.value for op in program.graph.ops for v in op.results]
        return {
            "db": worst(real, found),
            "instructions": _counted(program, judged[0]),
            "wide": made.count("int16"),
            "of": made.count("int16") + made.count("int8"),
            **refused,
        }

    figures = {way: measured(options) for way, options in PRECISIONS.items()}
    for way in ("int8", "int16"):
        figures[way]["on_m33"] = counted_on_m33(net, data, judged[0], **PRECISIONS[way])
    return figures if reaches_goal(figures) else {**figures, "bounded": measured(BOUNDED)}


def counted_on_m33(net: nn.Module, data: Sequence[Tensor], x: Tensor, **options: Any) -> int:
    """Returns the instructions of a network on an emulated Cortex-M33."""
    program = pillion.compile(net, data[0], target="cortex-m33", calibrate=data, progress=False, **options)
    return _counted(program, x, "mps2-an505")


def _compiled(
    net: nn.Module, data: Sequence[Tensor], **options: Any
) -> tuple[pillion.Program, dict[str, Any]]:
    """Compiles a network. If its quality is refused: with the quality that the error names, if weights are the nearest, or if none is
    named, with 16 bits everywhere. Returns what was reached and what was taken instead, too."""
    common: dict[str, Any] = {"target": "cortex-m55", "calibrate": data, "progress": False}
    try:
        return pillion.compile(net, data[0], **common, **options), {}
    except pillion.PillionError as error:
        named = re.search(r"--min-quality ([\d.]+dB)", _refusal(net, data, **common, **options) or error.help)
        instead = {"min_quality": named[1]} if named else {"precision": "int16"}
        return pillion.compile(net, data[0], **common, **instead), {"refused": error.here, **instead}


def _refusal(net: nn.Module, data: Sequence[Tensor], **options: Any) -> str:
    """Returns what the error of a network with the nearest weights offers; empty if there is none."""
    try:
        pillion.compile(net, data[0], **options, weight_rounding="nearest")
    except pillion.PillionError as error:
        return error.help
    return ""


def _counted(program: pillion.Program, x: Tensor, board: str = "mps3-an547") -> int:
    profile = program.measure(x, on=board, profile=True).profile
    assert profile is not None
    return int(profile.instructions)


def _with_data(
    name: str, folder: Path | None, calibrated: int | None = None, judging: int = JUDGED
) -> tuple[nn.Module, list[Tensor], list[Tensor]]:
    """Gives a network with the inputs that calibrate and those that judge."""
    if name in TRAINED:
        net, draw = trained_network(name, folder)
        return net, draw(calibrated or TRAINED_CALIBRATED, 0), draw(TRAINED_JUDGED, 1)
    net, shape = network(name)
    return net, list(samples(shape, calibrated or CALIBRATED, 0)), list(samples(shape, judging, 1))


def measure_states(cell: Cell, shape: Sequence[int]) -> dict[str, Any]:
    """Compares all steps and the last ones of several signals with float. The others quantize one step, whose states are inputs and outputs."""
    data = [x for seed in range(CALIBRATING) for x in signal(shape, seed)]
    judged = [signal(shape, CALIBRATING + seed) for seed in range(JUDGING)]
    model = Buffered(cell).eval()
    program = pillion.compile(model, data[0], target="cortex-m55", calibrate=data, progress=False)
    with torch.no_grad():
        seen = [step[:-1] for step in run_steps(cell, cell.first, data)]
        ways = {"float": cell, **others(cell, seen)}
        answers = {
            way: [[step[-1:] for step in run_steps(one, cell.first, xs)] for xs in judged]
            for way, one in ways.items()
        }
    answers["ours"] = [
        [(torch.from_numpy(stream.step(x)[0]),) for x in xs]
        for xs, stream in zip(judged, (program.stream("reference") for _ in judged), strict=True)
    ]
    over_all, at_end = (
        {way: over_steps(answers["float"], answers[way], part) for way in WAYS}
        for part in (slice(None), slice(-END, None))
    )
    rounds = [way for way in WAYS if over_all[way] < EXACT]
    return {**{way: over_all[way] for way in rounds}, "at_end": {way: at_end[way] for way in rounds}}


def over_steps(real: Sequence[Any], found: Sequence[Any], steps: slice) -> float:
    """Gives the ratio of signal to noise over some steps of all signals."""
    return worst(*([step for run in side for step in run[steps]] for side in (real, found)))


def others(net: nn.Module, data: Sequence[tuple[Tensor, ...]]) -> dict[str, Callable[..., Any]]:
    """Quantizes a network in the three other ways."""
    return {"xnnpack": xnnpack(net, data), "plain": plain(net, data), "cortex_m": cortex_m(net, data)}


def same_classes(real: Sequence[tuple[Tensor, ...]], found: Sequence[tuple[Tensor, ...]]) -> float:
    """Gives the part of samples whose largest score is that of float."""
    same = [bool((y[0].argmax(1) == z[0].argmax(1)).all()) for y, z in zip(real, found, strict=True)]
    return round(sum(same) / len(same), 3)


def outputs(answer: Any) -> tuple[Tensor, ...]:
    """Gives the outputs of a network that has one or several."""
    return (answer,) if isinstance(answer, Tensor) else tuple(answer)


def worst(real: Sequence[tuple[Tensor, ...]], found: Sequence[tuple[Tensor, ...]]) -> float:
    """Gives the ratio of signal to noise of the output that has the least."""
    return min(
        decibels(*sides) for sides in zip(zip(*real, strict=True), zip(*found, strict=True), strict=True)
    )


def decibels(real: Sequence[Tensor], found: Sequence[Tensor]) -> float:
    """Gives the ratio of signal to noise of one output."""
    signal = sum(float(y.double().square().sum()) for y in real)
    noise = sum(float((y.double() - z.double()).square().sum()) for y, z in zip(real, found, strict=True))
    if noise == 0:
        return math.inf
    return max(round(float(10 * torch.log10(torch.tensor(signal / noise))), 1), LEAST)


def xnnpack(net: nn.Module, data: Sequence[tuple[Tensor, ...]]) -> Any:
    """Gives what torchao makes of a network with the quantizer for XNNPACK."""
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )

    quantizer = XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=True))
    return _by_torchao(net, data, quantizer)


def cortex_m(net: nn.Module, data: Sequence[tuple[Tensor, ...]]) -> Any:
    """Gives what torchao makes of a network with the quantizer for Cortex-M, which takes images with their channels last in memory."""
    from executorch.backends.cortex_m.quantizer.quantizer import CortexMQuantizer

    last = copy.deepcopy(net).to(memory_format=torch.channels_last)
    rounded = _by_torchao(last, [tuple(map(_channels_last, inputs)) for inputs in data], CortexMQuantizer())
    return lambda *inputs: rounded(*map(_channels_last, inputs))


def _channels_last(x: Tensor) -> Tensor:
    return x.to(memory_format=torch.channels_last) if x.dim() == 4 else x


def _by_torchao(net: nn.Module, data: Sequence[tuple[Tensor, ...]], quantizer: Any) -> Any:
    with quiet_torch(), torch.no_grad():
        prepared = prepare_pt2e(export(net, data[0]).module(check_guards=False), quantizer)
        for inputs in data:
            prepared(*inputs)
        return convert_pt2e(prepared)


class _Ranges(LoopInterpreter):
    """What each layer reads and makes, from the least to the largest value."""

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self.wanted = borders(module)
        self.ranges: dict[Node, tuple[float, float]] = {}

    def run_node(self, n: Node) -> Any:
        value = super().run_node(n)
        if n in self.wanted:
            low, high = self.ranges.get(n, (0.0, 0.0))
            self.ranges[n] = (min(low, float(value.min())), max(high, float(value.max())))
        return value


class _Rounded(LoopInterpreter):
    """The same with these tensors, and the weights of layers, rounded to int8."""

    def __init__(self, module: GraphModule, ranges: dict[Node, tuple[float, float]]) -> None:
        super().__init__(module)
        self.ranges = ranges
        self.weights = {node.args[1] for node in module.graph.nodes if node.target in LAYERS}

    def run_node(self, n: Node) -> Any:
        value = super().run_node(n)
        if n in self.weights:
            scale = (
                value.abs().flatten(1).amax(1).clamp(min=1e-30).reshape(-1, *[1] * (value.dim() - 1)) / 127
            )
            return (value / scale).round().clamp(-127, 127) * scale
        if n in self.ranges:
            low, high = self.ranges[n]
            scale = max(high - low, 1e-30) / 255
            zero = round(-128 - low / scale)
            return ((value / scale).round() + zero).clamp(-128, 127).sub(zero) * scale
        return value


def borders(module: GraphModule) -> set[Node]:
    """Gives what layers read, and what they make behind their activation."""
    found: set[Node] = set()
    for node in module.graph.nodes:
        if node.target in LAYERS and constant_of(node.args[1]) is not None:
            user = single_user(node)
            clamped = user is not None and user.target in (aten.relu.default, aten.clamp.default)
            found |= {_made_by(node.args[0]), user if clamped else node}
    return found


def _made_by(read: Any) -> Any:
    """What computes a tensor that a step of a loop reads: a whole sequence, or what each step leaves to the next."""
    if read.target is ELEMENT:
        return read.args[0]
    if read.target is CARRIED:
        return next(user.args[1] for user in read.users if user.target is LAST)
    return read


def plain(net: nn.Module, data: Sequence[tuple[Tensor, ...]]) -> Any:
    """Gives a simulation in which layers compute in int8 and everything else in float."""
    module = rewrite_for_quantization(export(net, data[0]).module(check_guards=False))
    seen = _Ranges(module)
    with torch.no_grad():
        for inputs in data:
            seen.run(*inputs)
    rounded = _Rounded(module, seen.ranges)
    return lambda *inputs: rounded.run(*inputs)


def _record(path: Path, name: str, figures: dict[str, Any]) -> None:
    record = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**record, name: figures}, indent=2) + "\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, prints a line for each network, and fails where one does not pass."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="networks; without any, all")
    parser.add_argument("--trained", type=Path, help="folder with the float weights of MLPerf Tiny")
    parser.add_argument(
        "--precision",
        action="store_true",
        help="measure ours in 8 bits, with as many tensors in 16 as 35 dB need, and with all",
    )
    parser.add_argument("--update", action="store_true", help="record the figures")
    asked = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    failed = []
    for name in asked.names or [one for one in names() if asked.trained or one not in FILES]:
        if asked.precision:
            figures = measure_precision(name, asked.trained) if name not in STATEFUL else {}
            print(f"{name:36} {figures}", flush=True)
            if asked.update and figures:
                _record(PRECISION_RECORD, name, figures)
            continue
        figures = measure(name, asked.trained)
        shown = (f"{way} {figures[way]:5.1f}" if way in figures else f"{way}     –" for way in WAYS)
        print(
            f"{name:36} {'  '.join(shown)} dB  {figures.get('same_class', figures.get('at_end', ''))}",
            flush=True,
        )
        failed += [name] * (not passes(name, figures))
        if asked.update:
            _record(RECORD, name, figures)
    if failed:
        print(f"below the gate: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
