# SPDX-License-Identifier: Apache-2.0
"""Pillion's partitioner in ExecuTorch's flow: what it takes runs as a program image, the rest in ExecuTorch's operators."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.fx import GraphModule, Interpreter, Node
from torch.utils._pytree import tree_leaves
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

import pillion
from emitters.test_image_delegate import executed, library  # noqa: F401  (a fixture)
from image_programs import build_driver, run_image
from importers.pt2e_flows import QUANTIZERS, converted, net_of, xnnpack
from importers.test_converted_programs import only
from pillion.boards.toolchain import HOST_COMPILER
from pillion.emitters.image.reader import read_image
from pillion.errors import PillionError
from pillion.importers.torch.edge_program import is_channels_last
from pillion.ops import Segment

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(HOST_COMPILER.find() is None, reason="missing: a C compiler"),
]
pytest.importorskip("executorch")

from executorch.devtools import Inspector  # noqa: E402
from executorch.exir import EdgeProgramManager, to_edge, to_edge_transform_and_lower  # noqa: E402
from executorch.exir.delegate import executorch_call_delegate  # noqa: E402
from executorch.export import ExportRecipe, export  # noqa: E402

from pillion.executorch import PillionPartitioner, PillionQuantizer, PillionRecipeType  # noqa: E402
from pillion.executorch.backend import compile_partition  # noqa: E402

TARGET = "cortex-m3"
Inputs = tuple[Tensor, ...]


def lowered(module: Any, x: Inputs, *partitioners: Any) -> EdgeProgramManager:
    return to_edge_transform_and_lower(torch.export.export(module, x), partitioner=list(partitioners))


class Runs(Interpreter):
    """Runs a lowered program: each payload of ours in the driver of program images, or in the reference."""

    def __init__(self, edge: EdgeProgramManager, folder: Path | None) -> None:
        super().__init__(copy.deepcopy(edge.exported_program().module()))
        self.folder = folder

    def run_node(self, node: Node) -> Any:
        if node.target is not executorch_call_delegate:
            return super().run_node(node)
        delegate, *inputs = self.fetch_args_kwargs_from_env(node)[0]
        arrays = [as_stored(x.detach()).numpy() for x in inputs]
        if self.folder is None:
            program, _ = compile_partition(delegate.original_module, TARGET, {})
            return like(node, [torch.from_numpy(y) for y in program.run(*arrays)])
        self.folder.mkdir(exist_ok=True)
        file = self.folder / f"{node.name}.plm"
        file.write_bytes(delegate.processed_bytes)
        image = read_image(file)
        raw, outputs = run_image(build_driver(self.folder, [image], ("-w",)), file, [arrays]), []
        for one in image.outputs:
            array = np.frombuffer(raw[: one.bytes], one.dtype.numpy).reshape(one.shape)
            outputs.append(torch.from_numpy(array.copy()))
            raw = raw[one.bytes :]
        return like(node, outputs)


def as_stored(x: Tensor) -> Tensor:
    """The tensor in the order of its bytes."""
    return x.permute(0, 2, 3, 1) if is_channels_last(x) else x


def like(node: Node, outputs: list[Tensor]) -> tuple[Tensor, ...]:
    """Outputs in the order of bytes as the call gives them."""
    pairs = zip(outputs, node.meta["val"], strict=True)
    return tuple(y.permute(0, 3, 1, 2) if is_channels_last(value) else y for y, value in pairs)


def payloads(edge: EdgeProgramManager) -> int:
    return sum(n.target is executorch_call_delegate for n in edge.exported_program().graph.nodes)


class Skip(nn.Module):
    """Two layers with an operator between them that stays in float, and a sum around it."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Conv2d(3, 6, 3, padding=1), nn.Conv2d(6, 6, 1), nn.Conv2d(6, 6, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.b(torch.relu(self.a(x))))
        return y + self.c(torch.fmod(y, y.amax(1, keepdim=True) + 1.0))


class Functions(nn.Module):
    """Operators that ExecuTorch would decompose."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.n = nn.Linear(8, 8), nn.LayerNorm(8)

    def forward(self, x: Tensor) -> Tensor:
        y = self.n(F.hardswish(F.silu(self.a(x))))
        return F.softmax(F.gelu(y) + F.hardsigmoid(y), -1)


class Ends(nn.Module):
    """Two inputs and two outputs, one of them of float operators."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(7, 5)

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        z = self.a(x) + self.a(y)
        return torch.sigmoid(z), z


def ours(net: nn.Module, *shapes: tuple[int, ...]) -> tuple[GraphModule, Inputs]:
    x = tuple(map(torch.randn, shapes))
    return converted(net.eval(), x, PillionQuantizer(TARGET)), x


def theirs(net: str, quantizer: str) -> tuple[GraphModule, Inputs]:
    module, x = net_of(net)
    return converted(module, x, QUANTIZERS[quantizer]()), x


WHOLE: dict[str, Callable[[], tuple[GraphModule, Inputs]]] = {
    "branches": lambda: ours(net_of("branches")[0], (1, 3, 9, 7)),
    "branches, neutron": lambda: theirs("branches", "neutron"),
    "mean, xnnpack": lambda: theirs("mean", "xnnpack"),
    "pooled, x86": lambda: theirs("pooled", "x86"),
    "perceptron": lambda: ours(net_of("perceptron")[0], (2, 13)),
    "functions": lambda: ours(Functions(), (2, 5, 8)),
}


@cache
def lowered_net(name: str) -> tuple[GraphModule, Inputs, PillionPartitioner, EdgeProgramManager]:
    torch.manual_seed(0)
    module, x = WHOLE[name]() if name in WHOLE else part(name)
    partitioner = PillionPartitioner(TARGET)
    return module, x, partitioner, lowered(module, x, partitioner)


@cache
def expected_bytes(name: str) -> bytes:
    module, x, _, _ = lowered_net(name)
    return pillion.compile(module, x, target=TARGET).run(*x)[0].tobytes()


@pytest.mark.parametrize("name", WHOLE)
def test_all_is_taken(name: str, tmp_path: Path) -> None:
    _, x, partitioner, edge = lowered_net(name)
    assert (payloads(edge), partitioner.float_ops) == (1, [])
    made = only(Runs(edge, tmp_path).run(*x))
    assert made.numpy().tobytes() == expected_bytes(name)


class Softmax(nn.Sequential):
    """XNNPACK has no int8 form of softmax."""

    def __init__(self) -> None:
        super().__init__(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 5), nn.Softmax(-1))


PARTS: dict[str, tuple[Callable[[], nn.Module], tuple[tuple[int, ...], ...], int, str]] = {
    "skip": (Skip, ((1, 3, 5, 6),), 2, "fmod"),
    "softmax": (Softmax, ((2, 6),), 1, "softmax"),
    "ends": (Ends, ((2, 7), (2, 7)), 1, "sigmoid"),
}
"""Nets that XNNPACK quantizes in part, the number of delegates, and the operator that is left."""


@pytest.mark.parametrize("name", PARTS)
def test_partitioner_leaves_float_ops_to_others(name: str, tmp_path: Path) -> None:
    count, left = PARTS[name][2:]
    module, x, partitioner, edge = lowered_net(name)
    assert payloads(edge) == count
    assert [left in op.op for op in partitioner.float_ops] == [True]
    assert "its " in partitioner.float_ops[0].reason
    assert partitioner.float_ops[0].source
    results = (Runs(edge, tmp_path).run(*x), Runs(edge, None).run(*x), module(*x))
    for image, reference, float_result in zip(*map(tree_leaves, results), strict=True):
        assert torch.equal(image, reference)
        assert torch.allclose(image, float_result, atol=0.2)


def part(name: str) -> tuple[GraphModule, Inputs]:
    x = tuple(map(torch.randn, PARTS[name][1]))
    return converted(PARTS[name][0]().eval(), x, xnnpack()), x


@pytest.mark.slow
def test_in_the_runtime(library: Path) -> None:  # noqa: F811  (a fixture)
    """ExecuTorch's own runtime runs delegates of ours next to its portable kernels, with the bytes of `compile`."""
    nets = {name: lowered_net(name) for name in (*WHOLE, *PARTS)}
    jobs = [
        (bytes(edge.to_executorch().buffer), [[t.detach().numpy() for t in x]])
        for _, x, _, edge in nets.values()
    ]
    outputs, said = executed(library, jobs)
    for (name, (_, x, _, edge)), made in zip(nets.items(), outputs, strict=True):
        assert isinstance(made, bytes), f"{name}: {made} {said}"
        if name in WHOLE:
            assert made == expected_bytes(name), name
        else:
            expected = tree_leaves(Runs(edge, None).run(*x))
            got = np.frombuffer(made, np.float32)
            want = np.concatenate([y.detach().numpy().ravel() for y in expected])
            assert np.abs(got - want).max() <= np.spacing(np.abs(want).max()), name


NPUS = {"cortex-m3+ethos-u55-128": "EthosUBackend", "cortex-m3+neutron-n3-64": "NeutronBackend"}


class Mixed(nn.Module):
    """A function that no NPU has, between layers; two inputs and two outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(8, 16, 3, padding=1), nn.Conv2d(16, 8, (1, 3))

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        z = torch.relu(self.a(x)) + torch.relu(self.a(y))
        return torch.relu(self.b(torch.erf(z))), z


@pytest.mark.slow
@pytest.mark.parametrize("target", NPUS)
def test_npus_run_their_part(library: Path, target: str) -> None:  # noqa: F811  (a fixture)
    """One delegate of ours calls the NPU's own delegate, which is an interpreter here; the bytes are those of `compile`."""
    torch.manual_seed(0)
    shape = (1, 8, 9, 7)
    net, x = Mixed().eval(), (torch.randn(shape), torch.randn(shape))
    module = converted(net, x, PillionQuantizer(target))
    options: dict[str, Any] = {"prefer_npu": True, "keep_on_cpu": ["lut"]}
    partitioner = PillionPartitioner(target, **options)
    edge = lowered(module, x, partitioner)
    assert (payloads(edge), partitioner.float_ops) == (1, [])
    program = pillion.compile(module, x, target=target, progress=False, **options)
    segments = [op for op in program.graph.ops if isinstance(op, Segment)]
    assert len(segments) == 2, "before and behind the function"
    jobs = [(bytes(edge.to_executorch().buffer), [[t.numpy() for t in x], [-t.numpy() for t in x]])]
    (made,), said = executed(library, jobs, "npu", NPUS[target])
    assert isinstance(made, bytes), f"{made} {said}"
    wanted = [program.run(*sample) for sample in jobs[0][1]]
    assert made == b"".join(np.asarray(y).tobytes() for ys in wanted for y in ys)


@pytest.mark.slow
def test_firmware_without_the_npu_or_with_damaged_code_says_so(library: Path) -> None:  # noqa: F811  (a fixture)
    target = next(iter(NPUS))
    x = (torch.randn(1, 8, 9, 7),)
    net = nn.Sequential(nn.Conv2d(8, 16, 3), nn.ReLU()).eval()
    module = converted(net, x, PillionQuantizer(target))
    pte = bytes(lowered(module, x, PillionPartitioner(target, prefer_npu=True)).to_executorch().buffer)
    sample = [[t.numpy() for t in x]]
    _, said = executed(library, [(pte, sample)])
    assert "PillionBackend: the firmware lacks the delegate EthosUBackend of the NPU" in said
    at = pte.index(b"PLN1")
    words = range(at + 4, at + 44, 4)
    damaged = [(pte[:word] + b"\xff\xff\xff\x7f" + pte[word + 4 :], sample) for word in words]
    found, said = executed(library, damaged, "npu", NPUS[target])
    assert all(isinstance(answer, str) for answer in found), found
    assert said.count("PillionBackend: the code of the NPU's segments is damaged") == len(words)


class Counter(nn.Module):
    """A buffer that each run changes."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.register_buffer("sums", torch.zeros(2, 4))

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.a(x))
        self.sums.add_(y)
        return self.a(self.sums + 0.0)


class Tokens(nn.Module):
    """An input of int64, whose rows of a table feed a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.e, self.a = nn.Embedding(16, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.a(self.e(x)))


def test_state_stays_in_buffers(tmp_path: Path) -> None:
    torch.manual_seed(0)
    x = (torch.randn(2, 4),)
    module = converted(Counter().eval(), x, PillionQuantizer(TARGET))
    module.sums.zero_()
    partitioner = PillionPartitioner(TARGET)
    edge = lowered(module, x, partitioner)
    assert payloads(edge) >= 1
    image, reference = Runs(edge, tmp_path), Runs(edge, None)
    for _ in range(3):
        assert torch.equal(only(image.run(*x)), only(reference.run(*x)))
        assert torch.allclose(only(reference.run(*x)), only(module(*x)), atol=0.2)
    edge.to_executorch()


def test_types_that_images_have_not() -> None:
    x = (torch.randint(0, 16, (2, 3)),)
    exported = torch.export.export(Tokens().eval(), x)
    prepared = prepare_pt2e(exported.module(), PillionQuantizer(TARGET))
    prepared(*x)
    partitioner = PillionPartitioner(TARGET)
    edge = lowered(convert_pt2e(prepared), x, partitioner)
    assert payloads(edge) == 1
    assert "its operand `x` is of type int64" in str(partitioner.float_ops[0])


@pytest.mark.parametrize("name", ["branches", "pooled", "padded"])
def test_images_in_channels_last(name: str, tmp_path: Path) -> None:
    """As ExecuTorch's own Cortex-M flow wants them: the same numbers, in the order in which they lie in memory."""
    net, x = net_of(name)
    module = converted(net, x, QUANTIZERS["cortex_m"]())
    last = tuple(t.to(memory_format=torch.channels_last) for t in x)
    partitioner = PillionPartitioner(TARGET)
    edge = lowered(module, last, partitioner)
    assert (payloads(edge), partitioner.float_ops) == (1, [])
    made = only(Runs(edge, tmp_path).run(*last)).numpy()
    assert np.array_equal(made, pillion.compile(module, x, target=TARGET).run(*x)[0])
    edge.to_executorch()


def test_axes_in_another_order() -> None:
    module, x = theirs("perceptron", "xnnpack")
    partitioner = PillionPartitioner(TARGET)
    assert payloads(lowered(module, (x[0].t().contiguous().t(),), partitioner)) == 0
    assert "the axes of `x` have another order in memory" in str(partitioner.float_ops[0])


def test_xnnpack_takes_ops_that_pillion_leaves() -> None:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    x = (torch.randn(2, 6),)
    edge = lowered(
        converted(Softmax().eval(), x, xnnpack()), x, PillionPartitioner(TARGET), XnnpackPartitioner()
    )
    module = edge.exported_program().graph_module
    backends = [getattr(module, n.target).backend_id for n in module.graph.find_nodes(op="get_attr")]
    assert backends == ["PillionBackend", "XnnpackBackend"]
    edge.to_executorch()


@pytest.mark.parametrize("optimize", ["speed", "size"])
def test_recipe(optimize: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    net, x = nn.Sequential(nn.Linear(13, 9), nn.Softmax(-1)).eval(), (torch.randn(2, 13),)
    recipe = ExportRecipe.get_recipe(PillionRecipeType.INT8, target=TARGET, optimize=optimize)
    session = export(net, [x, (-x[0],)], recipe)
    edge = session.get_edge_program_manager()
    assert payloads(edge) == 1
    assert b"PillionBackend" in bytes(session.get_executorch_program_manager().buffer)
    assert torch.allclose(only(Runs(edge, tmp_path).run(*x)), net(*x), atol=0.02)


@pytest.mark.slow
def test_inspector_shows_the_operators_of_a_run(library: Path, tmp_path: Path) -> None:  # noqa: F811  (a fixture)
    """The events of a run, as the delegate logs them in the runtime, belong to the model's operators and lines."""
    module, x = ours(net_of("branches")[0], (1, 3, 9, 7))
    exported = torch.export.export(module, x)
    partitioner = PillionPartitioner(TARGET)
    edge = to_edge_transform_and_lower(exported, partitioner=[partitioner], generate_etrecord=True)
    program = edge.to_executorch()
    record, dump = tmp_path / "etrecord.bin", tmp_path / "etdump.etdp"
    program.get_etrecord().save(record)
    inputs = [t.numpy() for t in x]
    (made,), said = executed(library, [(bytes(program.buffer), [inputs, inputs])], "etdump", dump)
    assert made == pillion.compile(module, x, target=TARGET).run(*x)[0].tobytes() * 2, said
    inspector = Inspector(etdump_path=str(dump), etrecord=str(record))
    (delegate,) = program.delegate_map["forward"].values()
    events = [event for block in inspector.event_blocks for event in block.events]
    shown = [one for one in events if one.delegate_debug_identifier is not None]
    assert {one.delegate_debug_identifier for one in shown} >= set(delegate["delegate_map"])
    assert all(len(one.perf_data.raw) == 2 and min(one.perf_data.raw) > 0 for one in shown), "both runs"
    assert all(one.delegate_backend_name == "PillionBackend" for one in shown)
    lines = "".join(str(text) for one in shown for text in one.stack_traces.values())
    assert all(f"self.{part}(" in lines for part in "adcf"), "all layers of the net"
    operators = " ".join(kind for one in shown for kind in one.op_types)
    assert all(kind in operators for kind in ("convolution", "linear", "max_pool2d", "add", "cat"))


def with_values_unknown() -> Any:
    module, x = theirs("perceptron", "xnnpack")
    return to_edge(torch.export.export(module, x)).to_backend(PillionPartitioner(TARGET))


REFUSED: dict[str, tuple[Callable[[], Any], tuple[str, ...]]] = {
    "options": (lambda: PillionPartitioner(TARGET, io_dtype="int8", max_ram="9K"), ("here  io",)),
    "target": (lambda: PillionPartitioner("cortex-m99"), ("cortex-m99",)),
    "recipe": (
        lambda: ExportRecipe.get_recipe(PillionRecipeType.INT8),
        ("the recipe has no target", 'target="cortex-m55"'),
    ),
    "no values": (with_values_unknown, ("to_edge_transform_and_lower(", "no values")),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    make, words = REFUSED[name]
    with pytest.raises(PillionError) as refused:
        make()
    assert all(word in str(refused.value) for word in words), refused.value


def test_examples_of_the_guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    guide = Path(__file__).parents[2] / "docs" / "guide" / "executorch.md"
    section = guide.read_text("utf-8").partition("## Inside `to_edge")[2].partition("\n## ")[0]
    for code in section.split("```python\n")[1:]:
        exec(code.partition("```")[0], {})
        assert b"PillionBackend" in (tmp_path / "net.pte").read_bytes()
        (tmp_path / "net.pte").unlink()
