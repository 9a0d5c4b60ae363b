# SPDX-License-Identifier: Apache-2.0
"""Every model of the zoo, through `pillion.compile` as users call it: reference, C on this computer, emulated boards and
LiteRT give the same bytes; PyTorch's converted model agrees within one step per op."""

from __future__ import annotations

import numpy as np
import pytest

from nightly import runs_all
from pillion import zoo
from pillion.ir.types import Array
from pillion.memory import MemoryPlan
from pillion.ops import Segment
from torch_oracle import compare
from zoo_programs import MODELS, SMALL, TARGETS, compiled

pytestmark = [pytest.mark.slow, pytest.mark.torch]

BOARDS = {"cortex-m33+int8": "mps2-an505", "cortex-m55+int8": "mps3-an547", "imxrt700": "mps2-an505"}
KEPT = MODELS if runs_all() else ["deep_autoencoder", "ds_cnn", "mobilenet_v3_small", "resnet8"]
"""One of each kind for `make test`: layers without images, depthwise convolutions, many functions, residuals."""
PAIRS = [(name, target) for name in KEPT for target in TARGETS]
HUGE = ("mobilenet_v2", "mobilenet_v3_small", "yolo_two_heads")
ON_HOST = PAIRS if runs_all() else [(name, "imxrt700") for name in KEPT if name not in HUGE]
ON_BOARDS = (
    PAIRS
    if runs_all()
    else [(n, t) for n, t in PAIRS if t == TARGETS[1] or (t == TARGETS[0] and n not in HUGE)]
)
"""The computer runs what an NPU leaves to it, the boards the kernels of each core, the largest networks those of one."""


def inputs_of(name: str, count: int) -> list[list[Array]]:
    samples = zoo.random_inputs(name, count, SMALL.get(name), seed=11)
    return [[x.numpy() for x in sample] for sample in samples]


def assert_same_bytes(wanted: tuple[Array, ...], got: tuple[Array, ...]) -> None:
    for ours, theirs in zip(wanted, got, strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.turns(3)
@pytest.mark.parametrize(("name", "target"), ON_HOST)
def test_host_c_is_the_reference(name: str, target: str) -> None:
    program = compiled(name, target)
    for inputs in inputs_of(name, 5):
        assert_same_bytes(program.run(*inputs), program.run(*inputs, on="host"))


def test_another_chip_is_other_data() -> None:
    """A smaller NPU beside the same core: the same stages, the same bytes, other estimates."""
    small, large = compiled("ds_cnn", "mcxn947"), compiled("ds_cnn", "imxrt700")
    (inputs,) = inputs_of("ds_cnn", 1)
    assert_same_bytes(small.run(*inputs), small.run(*inputs, on="host"))
    assert_same_bytes(small.run(*inputs), large.run(*inputs))
    pairs = zip(small.ledger.on_npu, large.ledger.on_npu, strict=True)
    assert any(a.npu_cycles > b.npu_cycles for a, b in pairs)


@pytest.mark.turns(7)
@pytest.mark.qemu
@pytest.mark.parametrize(("name", "target"), ON_BOARDS)
def test_the_board_gives_the_reference_and_the_memory_that_was_predicted(name: str, target: str) -> None:
    program = compiled(name, target)
    samples = inputs_of(name, 5)
    for number, inputs in enumerate(samples):
        result = program.measure(*inputs, on=BOARDS[target], profile=number == 0)
        assert_same_bytes(program.run(*inputs), result.outputs)
        if result.profile:
            assert [r.found for r in result.profile.regions] == [r.predicted for r in result.profile.regions]
            assert (
                result.profile.instructions == sum(result.profile.op_instructions) > program.graph.macs / 40
            )
            assert 0 < result.profile.stack_bytes < 4096


@pytest.mark.turns(4)
@pytest.mark.parametrize("name", KEPT)
def test_torch_agrees_within_one_step_per_op(name: str) -> None:
    from pillion import passes
    from pillion.importers.torch.quantize.ptq import ptq
    from pillion.importers.torch.to_graph import import_program

    size = SMALL.get(name)
    module, example = zoo.build(name, size)
    quantized = ptq(module, example, zoo.random_inputs(name, 2, size))
    graph = passes.run(import_program(quantized.graph_module, name))
    comparison = compare(quantized.graph_module, graph, *zoo.random_inputs(name, 1, size, seed=5)[0])
    assert len(comparison.largest) >= sum(op.macs > 0 for op in graph.ops)
    assert max(comparison.largest.values()) <= 1
    print(f"{name}: {max(comparison.share.values()):.2%} of a tensor differ by one step at most")


LEFT_BETWEEN = {"ds_cnn": 1.21, "resnet8": 1.15}
"""By how much a plan may be larger than what is in use at once, where a result grows over the operand that it uses up; 1.05 for all others."""


@pytest.mark.parametrize("name", KEPT)
def test_the_floor_is_reached(name: str) -> None:
    """Where all ops run whole. Stripes are in use a few rows at a time, and blocks of such forms leave room between them."""
    program = compiled(name, "cortex-m33+int8")
    plan: MemoryPlan = program.unstriped.memory
    assert plan.activation_bytes <= plan.floor_bytes
    assert program.memory.activation_bytes <= LEFT_BETWEEN.get(name, 1.05) * program.memory.floor_bytes


@pytest.mark.parametrize("name", KEPT)
def test_every_op_is_accounted_for(name: str) -> None:
    program = compiled(name, "imxrt700")
    inside = [op for op in program.graph.ops if isinstance(op, Segment) for op in op.body.ops]
    outside = [op for op in program.graph.ops if not isinstance(op, Segment)]
    assert {e.op.name for e in program.ledger} == {op.name for op in (*inside, *outside)}
    assert len(program.ledger.entries) == len(inside) + len(outside)
    assert all(e.deciding.rule for e in program.ledger)


@pytest.mark.parametrize("name", KEPT)
def test_litert_runs_the_segments_to_the_same_bytes(name: str) -> None:
    interpreter = pytest.importorskip("ai_edge_litert.interpreter", reason="ai-edge-litert is not installed")
    program = compiled(name, "imxrt700")
    segments = [op for op in program.graph.ops if isinstance(op, Segment)]
    for segment, payload in zip(segments, program.payloads.segments, strict=True):
        rng = np.random.default_rng(1)
        inputs = [rng.integers(-128, 128, v.shape).astype(np.int8) for v in segment.body.inputs]
        assert_same_bytes(
            segment.body.reference(*inputs), run_litert(interpreter, payload.tflite, segment, inputs)
        )


def run_litert(litert: object, model: bytes, segment: Segment, inputs: list[Array]) -> tuple[Array, ...]:
    runner = litert.Interpreter(  # type: ignore[attr-defined]  # the module is optional
        model_content=model,
        experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF,  # type: ignore[attr-defined]  # it is there, and not declared
        num_threads=1,
    )
    runner.allocate_tensors()
    places = {d["name"]: d["index"] for d in (*runner.get_input_details(), *runner.get_output_details())}
    for value, data in zip(segment.body.inputs, inputs, strict=True):
        runner.set_tensor(places[value.name], data)
    runner.invoke()
    return tuple(runner.get_tensor(places[v.name]) for v in segment.body.outputs)
